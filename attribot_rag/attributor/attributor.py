"""The facade: a model, a prompt, a response and documents in; an Attribution out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from typing_extensions import Unpack

from attribot_rag.attribution import Attribution, Counterfactual
from attribot_rag.attributor.assembly import OnSentence, attributed
from attribot_rag.attributor.counterfactual import Ask, Rerun
from attribot_rag.attributor.options import AttributorOptions, Options
from attribot_rag.attributor.prompts import check_texts, located
from attribot_rag.attributor.transcripts import answered, read_transcript, transcript_of
from attribot_rag.context import ContextOptions, PromptInput
from attribot_rag.context.document import Documents, documents_of
from attribot_rag.errors import InvalidInput, NotRecorded
from attribot_rag.methods import make_method
from attribot_rag.model.generation import Conditioning, Generation
from attribot_rag.model.language_model import LanguageModel, Prompt
from attribot_rag.model.local_model import LocalModel, language_model_of
from attribot_rag.recording import Answer, GenerationRecorder, Transcript
from attribot_rag.result.result import ByProvenance
from attribot_rag.scoring import Backend, Scorer, ScoringOptions, scoring_backend
from attribot_rag.scoring.memory import naming_out_of_memory
from attribot_rag.scoring.session import Meter, Progress, Session, progress_bar

if TYPE_CHECKING:
    from attribot_rag.model.server import ServerOptions

_GENERATION_WAIT = 0.5


class Attributor:
    """Attributes the answers of one model to the documents in its prompts.

        attributor = Attributor(model, tokenizer)  # or Attributor(load_model("path"))
        with attributor.recorder:
            ...                                   # the model answers, in your own code
        attribution = attributor.attribute(prompt, response, documents)

    What was answered while the recorder was attached is scored with that generation's token ids and
    KV cache. Without a recording, both texts are tokenized again, which the result says.

    What another model answered (`answered_by`; all answers of an Attributor that `is_reader`), this
    one only reads: the result says what supports the answer, not what caused it.

    The model comes with its tokenizer, or both together as a LanguageModel. A `proxy`, a smaller
    model with its tokenizer, ranks sources for the method 'auto' if that takes fewer FLOPs, and
    runs any other method. A `recorder` of the model's may have other bounds, a `backend` of your
    own scores in place of the model's. `options` are those of Options, by name or whole; another
    name raises UnknownOption.

    Several threads may use it: attributions of one local model's answers take turns.
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
        reference: LocalModel | None = None,
        **options: Unpack[AttributorOptions],
    ) -> Attributor:
        """Attributes the answers of a model served by vLLM or SGLang.

            Attributor.for_server("http://localhost:8000", tokenizer="path/or/hub-id")

        `tokenizer` is the model's own, its folder or Hugging Face id; `model` the server's name for
        it, needed where it serves several; a `reference` has the same weights on this machine, to
        compare with. An API key is read from ATTRIBOT_RAG_SERVER_KEY. The log-probabilities of a
        short text are requested at once: raises ServerFailed if the server does not answer,
        UnsupportedServer if it gives none, TokenizerMismatch if its tokenizer is another one.
        """
        from attribot_rag.model.served_model import ServedModel  # with HTTP, which few need

        served = ServedModel.connect(
            url, tokenizer, model=model, options=server, reference=reference
        )
        return cls(served, **options)

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

        `prompt` is the rendered text, the chat messages or the token ids that the model was given;
        `response` what it answered, as text or ids, or the beginning of that. `answered_by` is the
        name of another model that answered, '' if it is not known. `on_sentence` gets the
        attribution so far after each sentence: later sentences are open, with the reason 'pending'.
        Raises InvalidInput or one of its kinds for what cannot be attributed.
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
        """Attribute a generation, recorded (`recorder.find`) or put together by hand.

        `prompt` as chat messages tells earlier turns from the documents; `response` is the text
        that was shown, if it differs from the generation's by white space around it; `on_sentence`
        as in `attribute`.
        """
        transcript = Transcript.of(generation, self.language_model)
        return self._attribute(transcript, documents, prompt, response, on_sentence)

    def attribute_answer(
        self, answer: Answer, on_sentence: OnSentence | None = None
    ) -> Attribution:
        """Attribute an answer that the recorder matched (`recorder.match`), with its notes."""
        if answer.transcript is None:
            why = self.recorder.refusal(answer)
            raise NotRecorded(
                f"no recorded generation was matched to the answer {answer.text!r}"
                + (f": {why}" if why else "")
            )
        shown = answer.text[answer.start :]
        attribution = self._attribute(
            answer.transcript, answer.read, answer.prompt, shown, on_sentence
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
        with self._turn(generation), bar as progress:
            scorer = self._scorer(transcript, documents, prompt, progress)
            attribution = attributed(
                scorer, self.method, response, self.options, on_sentence, answered_by
            )
            cache, version = scorer.prompt_cache
            self.recorder.release(scorer.generation, cache, version)
            kept = generation.without_tensors()
            if not self.backend.is_conditioned(generation):
                kept = replace(kept, conditioning=Conditioning())
        self._generations[attribution.provenance] = kept
        if answered_by is not None and prompt is not None:
            self._read_prompts[attribution.provenance] = prompt
        if on_sentence is not None:  # the last one, too
            on_sentence(attribution)
        return attribution

    @contextmanager
    def _turn(self, generation: Generation) -> Iterator[None]:
        num_tokens = len(generation.prompt_ids) + len(generation.response_ids)
        device = self.language_model.device.type
        with (
            self.language_model.weights.turn(),
            naming_out_of_memory(num_tokens),
            torch.autocast("cpu" if device == "meta" else device, enabled=False),
            self.backend.for_attribution(),
        ):
            yield

    def _scorer(
        self,
        transcript: Transcript,
        documents: Documents,
        prompt: Prompt | None,
        progress: Progress,
    ) -> Scorer:
        """The scorer of this generation, once its documents are located in its prompt."""
        generation = transcript.generation
        started = time.perf_counter()
        self.backend.make_ready(generation, self.scoring_options.implementation)
        preparing = time.perf_counter() - started
        if self.backend.changed_since(generation):
            generation = generation.without_cache()
        generation = self._read_before(generation)
        meter = Meter(self.options.budget)
        if not transcript.response.text.strip():
            raise InvalidInput("the response is blank, nothing can be attributed")
        text, options = transcript.prompt.tokens, self.context_options
        context = located(text, documents, prompt, options, lambda: meter.allows(0))
        meter.exhausted = bool(context.not_in_time)
        read = generation.prompt_ids if prompt is None else prompt
        session = Session(meter, progress, self.between_batches)
        session.usage_of(self.language_model).seconds += preparing  # which no budget bounds
        return Scorer(
            language_model=self.language_model,
            generation=generation,
            context=context,
            backend=self.backend,
            options=self.scoring_options,
            session=session,
            prompt_input=PromptInput(read, context, self.context_options),
            decoded=transcript.response,
        )

    def _read_before(self, generation: Generation) -> Generation:
        """With the cache of what was read of its prompt for an earlier attribution, if any was."""
        read = self.recorder.with_read_cache(generation)
        if self.backend.changed_since(read):
            return generation
        return replace(read, model_version=generation.model_version)

    def ask(
        self,
        question: str,
        documents: Documents,
        *,
        max_new_tokens: int = 128,
        on_sentence: OnSentence | None = None,
        **generate: Any,
    ) -> Attribution:
        """Answer a question from the documents, greedily by default, and attribute the answer.

        `generate` goes to the model's own `generate`, `on_sentence` is that of `attribute`. The
        result's `response` is the answer; a note says if it was cut at `max_new_tokens`, or at the
        seconds of `max_time`, which a long prompt takes its part of. Raises ContextTooLong, before
        the model runs, if the prompt leaves no room for an answer.
        """
        generation, prompt, chunks = answered(
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
        """Let the model answer again without some documents, by index, of an attribution.

        The documents are taken out of the prompt that the model saw, and nothing else: another
        document that says the same stays. The model has the settings of the first answer (limits,
        sampling), and those of `generate`; what was not recorded is answered greedily. The result
        also has what the first answer loses without these documents.

        An answer that was only read here is asked for by `ask`, once: it gets the prompt, messages
        or text, without the documents, has the model that answered complete it, as it did before,
        and gives its text; `generate` goes there, too. Without it, raises NotRecorded.

        `attribution` is one that this Attributor made, still in memory; raises NotRecorded for any
        other, InvalidInput for documents that do not stand in the prompt, UnsupportedModel for an
        answer that was conditioned on images and the like.
        """
        generation = self._generations.get(attribution.provenance)
        if generation is None:
            raise NotRecorded(
                "this attribution was not made by this Attributor (was it read from a file?); "
                "attribute the answer with it, and pass what that returns"
            )
        rerun = Rerun.of(attribution, documents, generation, self.language_model)
        prompt = self._read_prompts.get(attribution.provenance)
        second = rerun.answer(generate) if prompt is None else rerun.asked(prompt, ask, generate)
        with self._turn(generation):
            self.backend.make_ready(generation, self.scoring_options.implementation)
            session = Session(between_batches=self.between_batches)
            rerun = replace(rerun, generation=self._read_before(generation))
            return rerun.compared(second, self.backend, self.scoring_options, session)

    async def aattribute(
        self, prompt: Prompt, response: str | Sequence[int], documents: Documents, **options: Any
    ) -> Attribution:
        """As `attribute`, in a thread of its own: the event loop goes on."""
        return await asyncio.to_thread(self.attribute, prompt, response, documents, **options)

    async def aask(self, question: str, documents: Documents, **options: Any) -> Attribution:
        """As `ask`, in a thread of its own."""
        return await asyncio.to_thread(self.ask, question, documents, **options)

    async def aanswer_without(
        self, attribution: Attribution, *documents: int, **options: Any
    ) -> Counterfactual:
        """As `answer_without`, in a thread of its own."""
        return await asyncio.to_thread(self.answer_without, attribution, *documents, **options)

    def between_steps(self) -> None:
        """For subclasses: before each piece of a prompt that `ask` reads, and after each token."""

    def between_batches(self) -> float:
        """Let generations go first, before each pass; the seconds that no budget counts."""
        self.recorder.wait_until_idle(_GENERATION_WAIT)
        return 0.0
