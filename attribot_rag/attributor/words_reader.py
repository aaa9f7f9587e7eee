"""A reader without a model: it compares another model's answer with the documents by words."""

from __future__ import annotations

import platform
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from typing_extensions import Unpack

from attribot_rag._version import __version__
from attribot_rag.annotation import Annotation
from attribot_rag.attribution import (
    Attribution,
    Counterfactual,
    Marker,
    Provenance,
    ResponseText,
    Verdict,
)
from attribot_rag.attributor.options import AttributorOptions, Options
from attribot_rag.attributor.prompts import (
    check_documents,
    check_texts,
    context_fields,
    locate_documents,
    location_notes,
    places_of,
    prompt_without,
)
from attribot_rag.context import Context, ContextOptions, TokenizedText
from attribot_rag.context.document import Documents, documents_of
from attribot_rag.errors import InvalidInput, NotRecorded
from attribot_rag.model.chat_messages import Message, message_text
from attribot_rag.model.language_model import Prompt, is_chat
from attribot_rag.result.result import BY_WORDS, WORD_COMPARISON, ByProvenance
from attribot_rag.support import ByWords, RetrievedText, with_support
from attribot_rag.support.helpers import Helper, Model, helper_of
from attribot_rag.verdicts import VerdictOptions
from attribot_rag.verdicts.judging import MarkerAudit
from attribot_rag.verdicts.markers import markers_in
from attribot_rag.verdicts.origins import may_rest_on_unlocated
from attribot_rag.verdicts.sentences import AnswerSentence, sentences_of, thinking_in

_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
_FOR_MODELS = ("method", "keep", "scoring")


class WordsReader:
    """Finds the documents that support another model's answer, by comparing words, numbers and
    names.

        reader = WordsReader()
        attribution = reader.attribute(messages, answer, documents, answered_by="gpt-4o")

    This reader needs no model, does not import PyTorch, and takes milliseconds. It cites a passage
    for a sentence if the passage is about the question, and contains all new numbers and names of
    the sentence and half of its other new words. A word is new if the question does not contain it.
    The reader does not find text that says the same in other words. The page "How good a reader is"
    of the documentation reports its errors. The unit of the scores is `words`: a long word that
    only one passage contains counts as 1, and other words count less.

        reader = WordsReader(helper=OpenAIEmbeddings())

    A `helper` looks for a passage if the comparison of words finds none. Embeddings find a passage
    that resembles the sentence. The support of the sentence then lists the words that are missing
    from this passage. A classifier finds the passage that most probably entails the sentence. We
    have not measured how often classifiers are wrong.

    Raises InvalidInput for options that need a model, and for another helper; UnknownOption for an
    unknown option.

    Args:
        helper: Embeddings of LangChain or LlamaIndex; or a cross-encoder for natural language
            inference, as a `CrossEncoder` or a text-classification pipeline of Transformers.
        **options: Fields of Options by name, or all at once as `options=Options(...)`.
    """

    is_reader = True

    def __init__(
        self, *, helper: Model | Helper | None = None, **options: Unpack[AttributorOptions]
    ) -> None:
        self.helper = None if helper is None else helper_of(helper)
        self.options = Options.of("WordsReader", options)
        verdicts = self.options.verdicts
        wrong = [n for n in _FOR_MODELS if getattr(self.options, n) != getattr(Options(), n)]
        if verdicts is None or replace(verdicts, thinking_tags=None) != VerdictOptions():
            wrong.append("verdicts")
        if wrong:
            given = ", ".join(f"{name}={getattr(self.options, name)!r}" for name in wrong)
            raise InvalidInput(
                f"{given}: nothing is scored without a model; leave it out, or pass one that "
                "reads, such as attribot_rag.load_model()"
            )
        self._read = ByProvenance[tuple[Prompt, str]]()

    @property
    def name(self) -> str:
        """The name of this reader, which contains the name of its helper if there is one."""
        also = "" if self.helper is None else f" and {self.helper.name}"
        return f"{WORD_COMPARISON}{also}"

    def attribute(
        self,
        prompt: Prompt,
        response: str | Sequence[int],
        documents: Documents,
        *,
        answered_by: str | None = None,
        on_sentence: Callable[[Attribution], None] | None = None,
    ) -> Attribution:
        """Attribute a response to the documents in its prompt.

        Raises InvalidInput, or a subclass, if that is impossible.

        Args:
            prompt: The text or the chat messages that the model was given.
            response: The text of its answer.
            documents: The retrieved documents.
            answered_by: The name of the model that answered.
            on_sentence: Called once, with the finished attribution.
        """
        started = time.perf_counter()
        documents = documents_of(documents)
        check_texts("the prompt", prompt, documents, response)
        read, shown = _read_texts(prompt, response)
        options = self.options.context or ContextOptions()
        context = locate_documents(TokenizedText((), read, ()), documents, prompt, options)
        provenance = Provenance(
            method=BY_WORDS,
            model=self.name,
            basis="reader",
            answered_by=answered_by or None,
            dtype="none",
            device="cpu",
            implementation=BY_WORDS,
            retokenized=False,
            prompt_tokens=0,
            prefilled_tokens=0,
            scored_tokens=0,
            forward_passes=0,
            seconds=0.0,
            versions={"python": platform.python_version(), "attribot-rag": __version__},
        )
        made = _Reading.of(shown, context, self.options, self.helper).attribution(provenance)
        seconds = round(time.perf_counter() - started, 6)
        made = replace(made, provenance=replace(provenance, seconds=seconds))
        self._read[made.provenance] = prompt, read
        if on_sentence is not None:
            on_sentence(made)
        return made

    def answer_without(
        self,
        attribution: Attribution,
        *documents: int,
        ask: Callable[..., str] | None = None,
        **generate: Any,
    ) -> Counterfactual:
        """Ask the model that answered once more, without some documents, which you name by their
        indices.

        The result's `score` counts the words of the first answer that are in no other document.
        Raises NotRecorded if you pass no `ask`, or if this reader did not make the attribution.
        Raises InvalidInput for documents that are not in the prompt.

        Args:
            attribution: An attribution by this reader that is still in memory.
            *documents: Indices of the documents to leave out.
            ask: Sends a prompt to the model that answered, and returns its text. It is called once.
            **generate: Settings for `ask`.
        """
        read = self._read.get(attribution.provenance)
        if read is None:
            raise NotRecorded(
                "this attribution was not made by this reader (was it read from a file?); "
                "attribute the answer with it, and pass what that returns"
            )
        check_documents(attribution, documents)
        name = attribution.provenance.answered_by or "the model that answered"
        if ask is None:
            raise NotRecorded(
                "the answer was only compared with its documents; pass ask=, a function that "
                f"sends a prompt to {name} and gives the text of its answer"
            )
        prompt, text = read
        places = [*places_of(documents, attribution.sources, text)]
        second = ask(prompt_without(prompt, text, places), **generate)
        return Counterfactual(
            documents=tuple(sorted(set(documents))),
            response=second.strip(),
            score=_only_in(documents, attribution),
            exact=True,
            notes=(
                f"{name} may answer in other words each time that it is asked; the score counts "
                "words of its first answer that no other document has.",
            ),
        )


def _read_texts(prompt: Prompt, response: str | Sequence[int]) -> tuple[str, str]:
    """The text of the prompt, and the response without it."""
    if not isinstance(response, str) or not (isinstance(prompt, str) or is_chat(prompt)):
        raise InvalidInput(
            "a reader does not know the token ids of the model that answered; pass prompt and "
            "response as texts, or the prompt as chat messages"
        )
    given = response[:60]
    if isinstance(prompt, str):
        read = prompt
        response = response.removeprefix(prompt) if prompt.strip() else response
    else:
        read = "\n\n".join(filter(None, map(message_text, cast(Sequence[Message], prompt))))
    if not read.strip():
        raise InvalidInput(f"the prompt is empty: {prompt!r}; pass what the model was given")
    if not response.strip():
        raise InvalidInput(
            f"the response {given!r} is empty, but for the prompt: nothing can be attributed"
        )
    return read, response


@dataclass(frozen=True)
class _Reading:
    """An answer and what was retrieved for it."""

    response: ResponseText
    context: Context
    options: Options
    words: ByWords
    helper: Helper | None

    @classmethod
    def of(
        cls, response: str, context: Context, options: Options, helper: Helper | None
    ) -> _Reading:
        language = context.answer_language(response)
        spans = tuple(match.span() for match in _TOKEN.finditer(response))
        retrieved = RetrievedText(context.documents, context.sources, language)
        return cls(
            ResponseText(response, spans),
            context,
            options,
            ByWords(retrieved, context.pieces.question, context.rest_of_prompt),
            helper,
        )

    def attribution(self, provenance: Provenance) -> Attribution:
        text, context = self.response.text, self.context
        marked = markers_in(text, context)
        tags = None if self.options.verdicts is None else self.options.verdicts.thinking_tags
        language = context.answer_language(text)
        sentences = sentences_of(
            self.response, marked, thinking_in(text, tags), language, self.words.question
        )
        found, by_any = [], []
        for sentence in sentences:
            verdict, every = self._verdict(sentence)
            found.append(verdict)
            by_any.append(replace(verdict, source_ids=every))
        # A marker is right if its document says the sentence, though another may say it better.
        audit = MarkerAudit(marked.markers, context, may_say=self._may_say)
        markers = tuple(audit.of_answer(sentences, by_any))
        spans = [(marker.start, marker.end) for marker in markers]
        annotation = Annotation(self.options.annotator, text, context)
        verdicts = with_support(
            annotation.of(found, spans),
            text,
            self.words.retrieved,
            question=self.words.question,
            markers=spans,
            entailed=None if self.helper is None else self.helper.entailed,
        )
        return self._assemble(provenance, sentences, verdicts, markers, annotation.notes)

    def _verdict(self, sentence: AnswerSentence) -> tuple[Verdict, tuple[int, ...]]:
        """The verdict, and all sources that say the sentence."""
        verdict = Verdict(start=sentence.start, end=sentence.end, kind="trivial")
        if sentence.is_thinking:
            return replace(verdict, kind="reasoning"), ()
        if not sentence.is_judged:
            return verdict, ()
        said, every = self.words.verdict(verdict, sentence.plain_text)
        if said is not None:
            return said, every
        if any(self.words.repeats(sentence.plain_text, turn) for turn in self._turns()):
            return replace(verdict, kind="conversation", origin="turn"), ()
        if alike := self._in_other_words(sentence.plain_text):
            return replace(verdict, kind="grounded", source_ids=alike[:1]), alike
        if may_rest_on_unlocated(self.context, sentence.plain_text):
            return replace(verdict, kind="open", reason="not_located"), ()
        return replace(verdict, kind="unsupported"), ()

    def _turns(self) -> list[str]:
        """The texts of earlier turns of a chat."""
        prompt = self.context.prompt.text
        return [prompt[start:end] for start, end in self.context.conversation]

    def _in_other_words(self, sentence: str) -> tuple[int, ...]:
        """The sources that probably say a sentence in other words, the most probable first."""
        if self.helper is None:
            return ()
        found = self.helper.passages_for(sentence, self.words.retrieved)
        return tuple(dict.fromkeys(passage.source for passage in found))

    def _may_say(self, source_ids: Sequence[int], tokens: Sequence[int]) -> bool:
        """Whether sources may say these tokens in other words."""
        spans = self.response.token_spans
        text = self.response.text[spans[tokens[0]][0] : spans[tokens[-1]][1]]
        return self.words.may_say(source_ids, text)

    def _assemble(
        self,
        provenance: Provenance,
        sentences: Sequence[AnswerSentence],
        verdicts: Sequence[Verdict],
        markers: tuple[Marker, ...],
        notes: Sequence[str],
    ) -> Attribution:
        context, num_tokens = self.context, len(self.response.token_spans)
        return Attribution(
            response=self.response.text,
            token_spans=self.response.token_spans,
            token_log_likelihoods=(0.0,) * num_tokens,
            **context_fields(context, markers),
            token_scores=self._scores(sentences),
            exact=(True,) * len(context.sources),
            notes=(*location_notes(context), *notes),
            provenance=provenance,
            unit=BY_WORDS,
            verdicts=tuple(verdicts),
            markers=markers,
            numbering=self.options.numbering,
        )

    def _scores(self, sentences: Sequence[AnswerSentence]) -> tuple[tuple[float, ...], ...]:
        """For each source, the weights of the words of the judged sentences that it has."""
        wording = self.words.retrieved.wording
        rows = [[0.0] * len(self.response.token_spans) for _ in self.context.sources]
        weights: dict[int, tuple[str, float]] = {}
        for sentence in filter(lambda sentence: sentence.is_judged, sentences):
            own = frozenset(sentence.tokens)
            for word in wording.content(sentence.text):
                start = sentence.start + word.start
                token = next(iter(self.response.tokens_in(start, start + 1)), None)
                if token in own:
                    weights[token] = word.key, round(self.words.weight(word), 4)
        for passage in self.words.retrieved.passages:
            keys = wording.keys(passage.text)
            for token, (key, weight) in weights.items():
                if wording.has(keys, key):
                    rows[passage.source][token] = weight
        return tuple(map(tuple, rows))


def _only_in(documents: Sequence[int], attribution: Attribution) -> float:
    """The weight of the answer's words that only these documents have."""
    gone = frozenset(documents)
    rows = [row or () for row in attribution.token_scores]
    sources = attribution.sources
    kept = [row for row, source in zip(rows, sources, strict=True) if {*source.documents} - gone]
    every = sum(map(max, zip(*rows, strict=True)))
    return float(every - sum(map(max, zip(*kept, strict=True))))
