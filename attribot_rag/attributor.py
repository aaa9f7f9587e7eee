"""The facade: a model, a prompt, a response and documents in; an Attribution out."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any, cast

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from attribot_rag.attribution import Attribution, Provenance
from attribot_rag.attribution.alignment import align
from attribot_rag.attribution.notes import not_found_note
from attribot_rag.context import Context, ContextOptions, Document, TokenizedText, locate_context
from attribot_rag.errors import ContextTooLong, InvalidInput
from attribot_rag.generation import Generation
from attribot_rag.language_model import LanguageModel, Prompt, is_chat, plain_ids
from attribot_rag.methods import SourceScores, leave_one_out
from attribot_rag.prompting import rag_prompt
from attribot_rag.recording import GenerationRecorder
from attribot_rag.scoring import Scorer, ScoringModels, ScoringOptions

# Any: the documents of frameworks, as Document.of reads them.
Documents = Sequence[str | Document | Mapping[str, Any] | Any]

_UNLIKELY = -6.0
_GENERATION_WAIT = 0.5
_RESPONSE_WAIT = 30.0


class Attributor:
    """Attributes the answers of one model to the documents in its prompts.

        attributor = Attributor(model, tokenizer)
        with attributor.recorder:
            ...                                   # the model answers, in your own code
        attribution = attributor.attribute(prompt, response, documents)

    What was answered while the recorder was attached is scored with the token ids and the KV cache
    of that generation. Without a recording, prompt and response are tokenized again, which the
    result says.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        context: ContextOptions | None = None,
        scoring: ScoringOptions | None = None,
        progress: bool = True,
    ) -> None:
        self.language_model = LanguageModel(model, tokenizer)
        self.recorder = GenerationRecorder(self.language_model)
        self.context_options = context or ContextOptions()
        self.scoring_options = scoring or ScoringOptions()
        self.progress = progress
        self._scoring_models = ScoringModels(model)

    def attribute(
        self,
        prompt: Prompt,
        response: str | Sequence[int],
        documents: Documents,
    ) -> Attribution:
        """Attribute a response to the documents in its prompt.

        `prompt` is the rendered text, the chat messages or the token ids that the model was given;
        `response` what it answered, as text or ids, or the beginning of that. Raises InvalidInput
        or one of its kinds for what cannot be attributed.
        """
        prompt_ids = self.language_model.encode_prompt(prompt)
        if isinstance(response, str):
            shown = self._answer(prompt, prompt_ids, response)
            generation = self._find_text(prompt_ids, shown)
            return self.attribute_generation(generation, documents, response=shown)
        response_ids = self._answer_ids(prompt_ids, plain_ids(response))
        retokenized = isinstance(prompt, str) or is_chat(prompt)
        given = Generation(prompt_ids, response_ids, retokenized=retokenized)
        return self.attribute_generation(self._find_ids(given), documents)

    def attribute_generation(
        self, generation: Generation, documents: Documents, *, response: str | None = None
    ) -> Attribution:
        """Attribute a generation that was recorded (`recorder.find`) or put together by hand.

        `response` is the text that was shown for it, if it differs by white space around it.
        """
        self._check_length(generation)
        language_model = self.language_model
        prompt = TokenizedText.of(language_model.check_ids(generation.prompt_ids), language_model)
        language_model.check_ids(generation.response_ids)
        context = locate_context(prompt, documents, self.context_options)
        scorer = Scorer(
            language_model=language_model,
            generation=generation,
            context=context,
            models=self._scoring_models,
            options=self.scoring_options,
            before_batch=lambda: self.recorder.wait_until_idle(_GENERATION_WAIT),
        )
        scores = leave_one_out(scorer, progress=self.progress)
        self.recorder.release(generation)
        return self._attribution(scorer, scores, response)

    def ask(
        self,
        question: str,
        documents: Documents,
        *,
        max_new_tokens: int = 128,
        **generate: Any,
    ) -> Attribution:
        """Answer a question from the documents, greedily by default, and attribute the answer.

        `generate` goes to the model's own `generate`. The result's `response` is the answer.
        """
        if not question.strip():
            raise InvalidInput(f"the question is empty: {question!r}")
        if isinstance(documents, str) or not documents:
            raise InvalidInput(f"documents={documents!r}; pass a list of at least one document")
        known = [Document.of(document) for document in documents]
        prompt_ids = self.language_model.encode_prompt(rag_prompt(question, known, self._chats))
        options = {"do_sample": False, "max_new_tokens": max_new_tokens, **generate}
        inputs = torch.tensor([prompt_ids], device=self.language_model.device)
        with GenerationRecorder(self.language_model) as recorder, torch.inference_mode():
            answer = cast(Callable[..., Any], self.language_model.model.generate)
            answer(inputs, attention_mask=torch.ones_like(inputs), **options)
        for generation in reversed(recorder.generations):
            if generation.prompt_ids == prompt_ids:
                return self.attribute_generation(generation, known)
        raise InvalidInput(
            f"the model answered {question!r} with nothing; ask in other words, or set "
            "min_new_tokens"
        )

    @property
    def _chats(self) -> bool:
        return bool(self.language_model.tokenizer.chat_template)

    def _answer(self, prompt: Prompt, prompt_ids: tuple[int, ...], response: str) -> str:
        """What was answered, without the prompt before it and the special tokens after it."""
        decode = self.language_model.decode
        before = [decode(prompt_ids), decode(prompt_ids, skip_special_tokens=True)]
        for text in [prompt, *before] if isinstance(prompt, str) else before:
            if text.strip() and response.startswith(text):
                response = response[len(text) :]
                break
        special_tokens = tuple(self.language_model.tokenizer.all_special_tokens)
        while special_tokens and response.endswith(special_tokens):
            response = response.removesuffix(
                next(token for token in special_tokens if response.endswith(token))
            )
        if not response.strip():
            raise InvalidInput(f"the response {response!r} is empty, nothing can be attributed")
        return response

    def _answer_ids(
        self, prompt_ids: tuple[int, ...], response_ids: tuple[int, ...]
    ) -> tuple[int, ...]:
        """What was answered, without the prompt before it and the end of sequence after it."""
        language_model = self.language_model
        if response_ids[: len(prompt_ids)] == prompt_ids:
            response_ids = response_ids[len(prompt_ids) :]
        if language_model.is_encoder_decoder:
            start = language_model.model.config.decoder_start_token_id
            response_ids = response_ids[response_ids[:1] == (start,) :]
        ends = (i for i, one in enumerate(response_ids) if one in language_model.eos_ids)
        return response_ids[: next(ends, None)]

    def _find_text(self, prompt_ids: tuple[int, ...], response: str) -> Generation:
        """The recorded generation that gave this response, or else one from its text."""
        language_model = self.language_model
        recorded = self.recorder.find(
            response, prompt=language_model.decode(prompt_ids), timeout=_RESPONSE_WAIT
        )
        if recorded is not None:
            return recorded
        return Generation(prompt_ids, language_model.encode(response), retokenized=True)

    def _find_ids(self, given: Generation) -> Generation:
        """The recorded generation with these ids, or else the one that was given."""
        length = len(given.response_ids)
        for recorded in reversed(self.recorder.generations):
            cut = recorded.shortened(length)
            if (cut.prompt_ids, cut.response_ids) == (given.prompt_ids, given.response_ids):
                return cut
        return given

    def _check_length(self, generation: Generation) -> None:
        limit = self.language_model.max_positions
        lengths = (len(generation.prompt_ids), len(generation.response_ids) - 1)
        length = max(lengths) if self.language_model.is_encoder_decoder else sum(lengths)
        if limit is not None and length > limit:
            raise ContextTooLong(
                f"prompt and response take {length} positions, {self.language_model.name!r} has "
                f"{limit}; retrieve fewer or shorter documents"
            )

    def _attribution(
        self, scorer: Scorer, scores: SourceScores, response: str | None
    ) -> Attribution:
        generation, context = scorer.generation, scorer.context
        decoded = TokenizedText.of(
            generation.response_ids, self.language_model, skip_special_tokens=True
        )
        text, spans = align(decoded, response)
        return Attribution(
            response=text,
            token_spans=spans,
            token_log_likelihoods=scores.token_log_likelihoods,
            documents=context.documents,
            not_located=context.not_located,
            sources=context.sources,
            token_scores=scores.token_scores,
            exact=scores.exact,
            notes=tuple(_notes(scorer, scores)),
            provenance=self._provenance(scorer, scores),
        )

    def _provenance(self, scorer: Scorer, scores: SourceScores) -> Provenance:
        return Provenance(
            method=scores.method,
            model=self.language_model.name,
            dtype=str(self.language_model.dtype).removeprefix("torch."),
            device=str(self.language_model.device),
            implementation=scorer.implementation,
            retokenized=scorer.generation.retokenized,
            prompt_tokens=len(scorer.generation.prompt_ids),
            prefilled_tokens=scorer.usage.prefilled_tokens,
            scored_tokens=scorer.usage.scored_tokens,
            forward_passes=scorer.usage.forward_passes,
            seconds=round(scorer.usage.seconds, 6),
            self_check=scorer.usage.self_check,
            options=_described(self.context_options) | _described(self.scoring_options),
            versions={
                "python": platform.python_version(),
                **{name: version(name) for name in ("attribot-rag", "torch", "transformers")},
            },
        )


def _notes(scorer: Scorer, scores: SourceScores) -> list[str]:
    notes = []
    context: Context = scorer.context
    if scorer.generation.retokenized:
        notes.append(
            "Prompt or response was tokenized again; the ids need not be those of the generation."
        )
    if context.not_located:
        notes.append(not_found_note(context.not_located))
    if not all(scores.exact):
        count = scores.exact.count(False)
        notes.append(f"{count} sources were removed as whole tokens, not to the character.")
    log_likelihoods = scores.token_log_likelihoods
    if sum(log_likelihoods) / len(log_likelihoods) < _UNLIKELY:
        notes.append(
            "The response is very unlikely for this model after this prompt; "
            "another model or prompt may have given it."
        )
    return notes


def _described(options: ContextOptions | ScoringOptions) -> dict[str, Any]:
    return {
        name: value if isinstance(value, str | int | float | None) else repr(value)
        for name, value in vars(options).items()
    }
