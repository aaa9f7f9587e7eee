"""Makes an Attribution of a model, a prompt, a response and documents."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from typing_extensions import Unpack

from attribot_rag.attribution import Attribution, Counterfactual
from attribot_rag.attributor.assembly import OnSentence, run_attribution
from attribot_rag.attributor.counterfactual import Ask, Rerun
from attribot_rag.attributor.options import AttributorOptions, Options
from attribot_rag.attributor.prompts import check_texts, locate_documents, rag_prompt
from attribot_rag.context import ContextOptions, Document, PromptInput
from attribot_rag.context.document import Documents, documents_of
from attribot_rag.context.text import shared_length
from attribot_rag.errors import InvalidInput, NotRecorded, UnsupportedModel
from attribot_rag.methods import make_method
from attribot_rag.model.chat_messages import (
    Message,
    continued_text,
    readable,
    verbatim_texts,
)
from attribot_rag.model.generation import Generation
from attribot_rag.model.language_model import (
    LanguageModel,
    Prompt,
    is_chat,
    plain_ids,
)
from attribot_rag.model.local_model import language_model_of
from attribot_rag.recording import (
    Answer,
    GenerationRecorder,
    PromptText,
    Transcript,
    generate_answer,
)
from attribot_rag.result.result import ByProvenance
from attribot_rag.scoring import Backend, Scorer, ScoringOptions, scoring_backend
from attribot_rag.scoring.memory import report_out_of_memory
from attribot_rag.scoring.session import Meter, Progress, Session, progress_bar

if TYPE_CHECKING:
    from attribot_rag.model.server import ServerOptions

_IDLE_SECONDS = 0.5  # to wait for generations, before each pass
_RECORDING_SECONDS = 30.0  # to wait for a generation that runs
_EXCERPT = 60  # characters


class Attributor:
    """Attributes the answers of one model to the documents in its prompts.

        attributor = Attributor(model, tokenizer)  # or Attributor(load_model("path"))
        with attributor.recorder:
            ...                                   # the model answers, in your own code
        attribution = attributor.attribute(prompt, response, documents)

    If the model answered while the recorder was attached, the answer is scored with the recorded
    token ids and KV cache. Without a recording, prompt and answer are tokenized again, and the
    result says so.

    If another model gave the answer, pass the name of that model as `answered_by`. Then this model
    only reads the answer, and the result says which texts support the answer, not what caused it.
    If other models give all answers, pass `is_reader=True` here instead.

    Several threads may use one Attributor. Attributions by one local model run one after the other.

    Args:
        model: The model, or a LanguageModel that has its tokenizer.
        tokenizer: The model's own tokenizer.
        proxy: A smaller model. With the method 'auto', the proxy ranks the sources if this takes
            fewer FLOPs than a ranking by the model itself. Any other method runs on the proxy.
        recorder: A recorder of this model that you made yourself, with its own limits.
        backend: Computes the scores instead of the model.
        is_reader: Whether other models give all answers.
        **options: Fields of Options by name, such as `method='masked'`, or all at once as
            `options=Options(...)`. Another name raises UnknownOption.
    """

    def __init__(
        self,
        model: PreTrainedModel | LanguageModel,
        tokenizer: PreTrainedTokenizerBase | None = None,
        *,
        proxy: LanguageModel | None = None,
        recorder: GenerationRecorder | None = None,
        is_reader: bool = False,
        backend: Backend | None = None,
        **options: Unpack[AttributorOptions],
    ) -> None:
        beside = ("proxy", "recorder", "is_reader", "backend")
        self.options = Options.of("Attributor", options, beside=beside)
        self.language_model = language_model_of(model, tokenizer)
        self.recorder = recorder or GenerationRecorder(self.language_model)
        self.is_reader = is_reader
        self.context_options = self.options.context or ContextOptions()
        self.scoring_options = self.options.scoring or ScoringOptions()
        self.method = make_method(self.options.method, proxy, self.options.keep)
        self.backend = backend or scoring_backend(self.language_model)
        # By their provenance, which copies of an attribution share.
        self._generations = ByProvenance[Generation]()
        self._read_prompts = ByProvenance[Prompt]()

    @property
    def name(self) -> str:
        """The name of the model that scores, without a folder."""
        return self.language_model.public_name

    @classmethod
    def for_server(
        cls,
        url: str,
        *,
        tokenizer: PreTrainedTokenizerBase | str,
        model: str | None = None,
        server: ServerOptions | None = None,
        **options: Unpack[AttributorOptions],
    ) -> Attributor:
        """Attribute the answers of a model that vLLM or SGLang serves.

            Attributor.for_server("http://localhost:8000", tokenizer="path/or/hub-id")

        The server is tested at once with a short text. Raises ServerFailed if the server does not
        answer, UnsupportedServer if it gives no log-probabilities, and TokenizerMismatch if it has
        another tokenizer. An API key is read from ATTRIBOT_RAG_SERVER_KEY.

        Args:
            url: The address of the server, with or without /v1.
            tokenizer: The model's own tokenizer, its folder or its Hugging Face id.
            model: The server's name for the model. You need it if the server has several models.
            server: How to send requests.
            **options: As for Attributor.
        """
        from attribot_rag.model.served_model import ServedModel  # with HTTP, which few need

        served = ServedModel.connect(url, tokenizer, model=model, options=server)
        return cls(served, **options)

    def warm_up(self) -> None:
        """Probe the model and load the text splitters, as the first attribution would do.

        Call this method when your application starts. Then the first answer is attributed as fast
        as later answers.
        """
        documents = documents_of(["The lighthouse is 38 metres high. It was built in 1844."])
        prompt = rag_prompt("How high is the lighthouse?", documents, chat=False)
        self.attribute(prompt, " The lighthouse is 38 metres high.", documents)

    def attribute(
        self,
        prompt: Prompt,
        response: str | Sequence[int],
        documents: Documents,
        *,
        answered_by: str | None = None,
        on_sentence: OnSentence | None = None,
    ) -> Attribution:
        """Attribute a response to the documents in its prompt.

        Raises InvalidInput, or a subclass, if that is impossible.

        Args:
            prompt: The prompt that the model was given: rendered text, chat messages or token ids.
            response: The model's answer, or its beginning, as text or token ids.
            documents: The retrieved documents.
            answered_by: The name of another model that answered, or '' if its name is unknown.
            on_sentence: Called after each judged sentence, with the unfinished attribution. In this
                attribution, later sentences are open, with the reason 'pending'.
        """
        documents = documents_of(documents)
        check_texts("the prompt", prompt, documents, response)
        if self.is_reader or answered_by is not None:
            read, text = read_transcript(prompt, response, self.language_model)
            return self._attribute(
                read, documents, prompt, text, on_sentence, answered_by=answered_by or ""
            )
        transcript, shown, note = transcript_of(
            prompt, response, self.language_model, self.recorder
        )
        attribution = self._attribute(transcript, documents, prompt, shown, on_sentence)
        return replace(attribution, notes=(*attribution.notes, note)) if note else attribution

    def attribute_generation(
        self,
        generation: Generation,
        documents: Documents,
        prompt: Prompt | None = None,
        *,
        response: str | None = None,
        on_sentence: OnSentence | None = None,
    ) -> Attribution:
        """Attribute a generation, which was recorded (`recorder.find`) or made by hand.

        Args:
            generation: The ids of prompt and response, and perhaps the cache.
            documents: The retrieved documents.
            prompt: The chat messages, which tell earlier turns from the documents.
            response: The text that was shown, if its outer white space differs.
            on_sentence: As in `attribute`.
        """
        transcript = Transcript.of(generation, self.language_model)
        return self._attribute(transcript, documents, prompt, response, on_sentence)

    def attribute_answer(
        self, answer: Answer, on_sentence: OnSentence | None = None
    ) -> Attribution:
        """Attribute an answer that the recorder matched (`recorder.match`), with its notes."""
        if answer.transcript is None:
            raise NotRecorded(f"no recorded generation was matched to the answer {answer.text!r}")
        shown = answer.text[answer.start :]
        attribution = self._attribute(
            answer.transcript, answer.prompt_documents, answer.prompt, shown, on_sentence
        )
        kinds = {verdict.kind for verdict in attribution.verdicts}
        warned = answer.warning and kinds & {"unsupported", "open"}
        notes = (*attribution.notes, *answer.notes, *([answer.warning] if warned else ()))
        return replace(attribution, notes=notes)

    def _attribute(
        self,
        transcript: Transcript,
        documents: Documents,
        prompt: Prompt | None,
        response: str | None,
        on_sentence: OnSentence | None,
        *,
        answered_by: str | None = None,
    ) -> Attribution:
        generation = transcript.generation
        self.language_model.check_length(len(generation.prompt_ids), len(generation.response_ids))
        bar = progress_bar(shown=self.options.progress is not False)
        with self._exclusive_use(generation), bar as progress:
            scorer = self._make_scorer(transcript, documents, prompt, progress)
            attribution = run_attribution(
                scorer, self.method, response, self.options, on_sentence, answered_by
            )
            prefix = scorer.prefix
            self.recorder.retire(scorer.generation, prefix.prompt_cache, prefix.model_version)
        self._generations[attribution.provenance] = generation.without_cache()
        if answered_by is not None and prompt is not None:
            self._read_prompts[attribution.provenance] = prompt
        if on_sentence is not None:  # after the last sentence
            on_sentence(attribution)
        return attribution

    @contextmanager
    def _exclusive_use(self, generation: Generation) -> Iterator[None]:
        """A block in which nobody else uses the model to attribute."""
        num_tokens = len(generation.prompt_ids) + len(generation.response_ids)
        device = self.language_model.device.type
        with (
            self.language_model.weights.turn(),
            report_out_of_memory(num_tokens),
            torch.autocast("cpu" if device == "meta" else device, enabled=False),
            self.backend.assume_unchanged(),
        ):
            yield

    def _make_scorer(
        self,
        transcript: Transcript,
        documents: Documents,
        prompt: Prompt | None,
        progress: Progress,
    ) -> Scorer:
        """The scorer of a generation, once its documents are located in its prompt."""
        generation = transcript.generation
        if generation.conditioned_on:
            raise UnsupportedModel(
                f"the answer was also conditioned on {', '.join(generation.conditioned_on)}; only "
                "answers to token ids are scored: generate from `input_ids` and `attention_mask`"
            )
        preparing = self._make_ready(generation)
        if self.backend.changed_since(generation):
            generation = generation.without_cache()
        generation = self._with_earlier_cache(generation)
        meter = Meter(self.options.budget)
        if not transcript.response.text.strip():
            raise InvalidInput("the response is blank, nothing can be attributed")
        text, options = transcript.prompt.tokens, self.context_options
        context = locate_documents(text, documents, prompt, options)
        given = generation.prompt_ids if prompt is None else prompt
        session = Session(meter, progress, self.between_batches)
        session.usage_of(self.language_model).seconds += preparing  # no budget limits these
        return Scorer(
            language_model=self.language_model,
            generation=generation,
            context=context,
            backend=self.backend,
            options=self.scoring_options,
            session=session,
            prompt_input=PromptInput(given, context, self.context_options),
            decoded=transcript.response,
        )

    def _make_ready(self, generation: Generation) -> float:
        """Let the backend copy and probe the model, if it has not yet. Returns the seconds."""
        started, scoring = time.perf_counter(), self.scoring_options
        self.backend.prefix_for(generation, scoring.implementation, scoring.pass_tokens)
        return time.perf_counter() - started

    def _with_earlier_cache(self, generation: Generation) -> Generation:
        """The generation with the cache of an earlier attribution of its prompt, if any."""
        cached = self.recorder.with_earlier_cache(generation)
        if self.backend.changed_since(cached):  # since the earlier attribution
            return generation
        return replace(cached, model_version=generation.model_version)

    def ask(
        self,
        question: str,
        documents: Documents,
        *,
        max_new_tokens: int = 128,
        on_sentence: OnSentence | None = None,
        **generate: Any,
    ) -> Attribution:
        """Answer a question from the documents, and attribute the answer.

        Raises ContextTooLong, before the model runs, if the prompt leaves no room for an answer.

        Args:
            question: What to ask.
            documents: The texts to answer from.
            max_new_tokens: The most tokens of the answer. A note says if the answer was cut there.
            on_sentence: As in `attribute`.
            **generate: Goes to the model's `generate`, which is greedy by default. A `max_time`
                includes the time to read the prompt.
        """
        generation, prompt, chunks = answer_question(
            question,
            documents,
            self.language_model,
            max_new_tokens=max_new_tokens,
            between_steps=self.between_steps,
            **generate,
        )
        made = self.attribute_generation(generation, chunks, prompt, on_sentence=on_sentence)
        return replace(made, question=question)

    def answer_without(
        self, attribution: Attribution, *documents: int, ask: Ask | None = None, **generate: Any
    ) -> Counterfactual:
        """Let the model answer again without some documents, given by index.

        Only these documents are removed from the prompt that the model saw. Another document that
        says the same stays. The model keeps the settings of the first answer. If the first answer
        was not recorded, the model answers greedily. The result's `score` says how much less likely
        the first answer is without the documents.

        Raises NotRecorded if another Attributor made the attribution, or if another model gave the
        answer and you pass no `ask`. Raises InvalidInput for documents that are not in the prompt,
        and UnsupportedModel if the answer also depended on images and the like.

        Args:
            attribution: An attribution by this Attributor that is still in memory.
            *documents: Indices of the documents to leave out.
            ask: A function that sends a prompt, as text or messages, to the model that answered,
                and returns its answer. You need it if this model only read the first answer. The
                function is called once.
            **generate: Replaces settings of the first answer; `ask` gets them too.
        """
        generation = self._generations.get(attribution.provenance)
        if generation is None:
            raise NotRecorded(
                "this attribution was not made by this Attributor (was it read from a file?); "
                "attribute the answer with it, and pass what that returns"
            )
        rerun = Rerun.of(attribution, documents, generation, self.language_model)
        prompt = self._read_prompts.get(attribution.provenance)
        second = (
            rerun.answer(generate) if prompt is None else rerun.ask_model(prompt, ask, generate)
        )
        with self._exclusive_use(generation):
            self._make_ready(generation)
            session = Session(between_batches=self.between_batches)
            rerun = replace(rerun, generation=self._with_earlier_cache(generation))
            return rerun.compare(second, self.backend, self.scoring_options, session)

    def between_steps(self) -> None:
        """For subclasses: called before each piece of a prompt that `ask` reads, and after each
        token.
        """

    def between_batches(self) -> float:
        """Before each forward pass, wait for generations of the model. Returns how many seconds
        were waited; the budget does not count them."""
        self.recorder.wait_until_idle(_IDLE_SECONDS)
        return 0.0


def answer_question(
    question: str,
    documents: Documents,
    language_model: LanguageModel,
    *,
    max_new_tokens: int,
    **settings: Any,
) -> tuple[Generation, str | list[Message], tuple[Document, ...]]:
    """The model's answer from the documents, its prompt, and the documents that it read.

    The answer has at most as many tokens as fit into the model's context. Raises InvalidInput for
    an empty question, no documents, or an empty answer, and ContextTooLong before anything is
    generated.
    """
    if not isinstance(question, str) or not question.strip():
        raise InvalidInput(f"the question is empty, or no text: {question!r:.80}")
    chunks = documents_of(documents)
    check_texts("the question", question, chunks)
    prompt = rag_prompt(question, chunks, bool(language_model.tokenizer.chat_template))
    prompt_ids = language_model.encode_prompt(prompt)
    room = language_model.room(len(prompt_ids))
    most = max_new_tokens if room is None else min(max_new_tokens, room)
    generation = generate_answer(language_model, prompt_ids, max_new_tokens=most, **settings)
    if generation is None:
        raise InvalidInput(
            f"the model answered {question!r} with nothing; ask in other words, or set "
            "min_new_tokens"
        )
    return generation, prompt, chunks


def transcript_of(
    prompt: Prompt,
    response: str | Sequence[int],
    language_model: LanguageModel,
    recorder: GenerationRecorder,
) -> tuple[Transcript, str | None, str]:
    """The generation, the text of the response (None for ids), and a note or ''.

    Raises InvalidInput for an empty prompt or response.
    """
    rendered = PromptText(language_model.encode_prompt(prompt), language_model)
    shown: str | None = None
    if isinstance(response, str):
        shown = _without_prompt(prompt, rendered, response)
        transcript = _recorded_by_text(rendered, shown, recorder)
        begun = continued_text(cast(Sequence[Message], prompt)) if is_chat(prompt) else ""
        if begun and transcript.generation.retokenized and shown.startswith(begun):
            shown = _without_prompt(prompt, rendered, shown.removeprefix(begun))
            transcript = _recorded_by_text(rendered, shown, recorder)
    else:
        response_ids = _answer_ids(rendered.ids, plain_ids(response), language_model)
        retokenized = isinstance(prompt, str) or is_chat(prompt)
        generation = Generation(rendered.ids, response_ids, retokenized=retokenized)
        transcript = Transcript.of(_recorded_by_ids(generation, recorder), language_model)
    note = ""
    if transcript.generation.retokenized and recorder.generations:
        transcript, note = _recorded_for_another_prompt(transcript, prompt, recorder)
    return transcript, shown, note


def read_transcript(
    prompt: Prompt, response: str | Sequence[int], reader: LanguageModel
) -> tuple[Transcript, str]:
    """The reader's tokens of another model's prompt and answer, and the text of the answer.

    Raises InvalidInput for token ids, and for an empty prompt or response.
    """
    if not isinstance(response, str) or not (isinstance(prompt, str) or is_chat(prompt)):
        raise InvalidInput(
            "a reader does not know the token ids of the model that answered; pass prompt and "
            "response as texts, or the prompt as chat messages"
        )
    read = prompt
    if is_chat(prompt):
        read = readable(cast(Sequence[Message], prompt), reader.tokenizer)
    rendered = PromptText(reader.encode_prompt(read), reader)
    shown = _without_prompt(prompt, rendered, response)
    return Transcript(
        Generation(rendered.ids, reader.encode(shown), retokenized=True), rendered
    ), shown


def _without_prompt(prompt: Prompt, rendered: PromptText, response: str) -> str:
    """The response without the prompt before it and the special tokens after it."""
    given = response[:60]
    before = (prompt,) if isinstance(prompt, str) else ()
    for text in chain(before, rendered.texts):
        if text.strip() and response.startswith(text):
            response = response[len(text) :]
            break
    special_tokens = tuple(rendered.language_model.tokenizer.all_special_tokens)
    while special_tokens and response.endswith(special_tokens):
        response = response.removesuffix(
            next(token for token in special_tokens if response.endswith(token))
        )
    if not response.strip():
        raise InvalidInput(
            f"the response {given!r} is empty, but for the prompt: nothing can be attributed"
        )
    return response


def _answer_ids(
    prompt_ids: tuple[int, ...], response_ids: tuple[int, ...], language_model: LanguageModel
) -> tuple[int, ...]:
    """The response without the prompt before it and the end of sequence after it."""
    if response_ids[: len(prompt_ids)] == prompt_ids:
        response_ids = response_ids[len(prompt_ids) :]
    ends = (i for i, token_id in enumerate(response_ids) if token_id in language_model.eos_ids)
    return response_ids[: next(ends, None)]


def _recorded_by_text(
    prompt: PromptText, response: str, recorder: GenerationRecorder
) -> Transcript:
    """The recorded generation of this response; else one made of its text."""
    match = recorder.find_answer(
        Answer(response), prompt=prompt.tokens.text, timeout=_RECORDING_SECONDS
    )
    if match is not None and match.transcript is not None:
        return match.transcript
    response_ids = prompt.language_model.encode(response)
    return Transcript(Generation(prompt.ids, response_ids, retokenized=True), prompt)


def _recorded_by_ids(generation: Generation, recorder: GenerationRecorder) -> Generation:
    """The recorded generation with these ids; else the given one."""
    length = len(generation.response_ids)
    for recorded in reversed(recorder.generations):
        cut = recorded.truncated(length)
        if (cut.prompt_ids, cut.response_ids) == (generation.prompt_ids, generation.response_ids):
            return cut
    return generation


def _recorded_for_another_prompt(
    transcript: Transcript, prompt: Prompt, recorder: GenerationRecorder
) -> tuple[Transcript, str]:
    """The generation to score for a prompt that was not recorded, and a note or ''.

    A recorded generation is used if it gave this answer, and its prompt contains the messages of
    users, tools and the system. Then the chat template got more than these messages. Otherwise,
    `transcript` is used. The note says where the prompts differ.
    """
    rendered = transcript.prompt.tokens.text
    answer = Answer(transcript.response.text)
    match = None
    if is_chat(prompt):
        texts = verbatim_texts(cast(Sequence[Message], prompt))
        like = replace(answer, prompt_texts=texts, prompt=rendered)
        match = recorder.find_answer(like, timeout=_RECORDING_SECONDS)
    is_same = match is not None
    match = match or recorder.find_answer(answer, timeout=_RECORDING_SECONDS)
    if match is None or match.transcript is None:
        return transcript, ""
    recorded = match.transcript.prompt.tokens.text
    start = shared_length(recorded, rendered)
    end = start + _EXCERPT
    differ = (
        f"at character {start}, where the model saw {recorded[start:end]!r} and this prompt has "
        f"{rendered[start:end]!r}"
    )
    if is_same:
        return match.transcript, (
            "The recorded generation of this answer was used. Its prompt is not what the chat "
            f"template makes of these messages alone: they differ {differ}."
        )
    return transcript, (
        f"A recorded generation gave this answer to another prompt. The two differ {differ}. To "
        "attribute that generation, pass as the prompt the token ids that the model was given."
    )
