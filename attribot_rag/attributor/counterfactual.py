"""The model's answer to the prompt of an attribution without some of its documents."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from attribot_rag.attribution import Attribution, Counterfactual
from attribot_rag.attributor.prompts import check_documents, places_of, prompt_without
from attribot_rag.context import Ablation, Context, TokenizedText
from attribot_rag.context.text import merge
from attribot_rag.errors import NotRecorded
from attribot_rag.model.generation import Generation, GenerationSettings
from attribot_rag.model.language_model import LanguageModel, Prompt
from attribot_rag.model.local_model import model_here
from attribot_rag.recording import generate_with
from attribot_rag.recording.hook import GenerateArguments
from attribot_rag.scoring import Backend, Scorer, ScoringOptions, Session

Ask = Callable[..., str]
"""Sends a prompt to the model that answered, with settings by keyword; returns its text."""

_MAX_NEW_TOKENS = 128
_GREEDY = GenerationSettings({"do_sample": False, "max_new_tokens": _MAX_NEW_TOKENS})


@dataclass(frozen=True)
class SecondAnswer:
    """An answer without documents, and other reasons why it may differ from the first."""

    text: str
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Rerun:
    """A recorded generation, and its prompt without some documents.

    Text that remaining documents also have stays in them. Where whole lines are removed, no empty
    lines stay.
    """

    language_model: LanguageModel
    generation: Generation
    context: Context
    documents: tuple[int, ...]
    removed: Ablation
    answered_by: str | None = None

    @classmethod
    def of(
        cls,
        attribution: Attribution,
        documents: Collection[int],
        generation: Generation,
        language_model: LanguageModel,
    ) -> Rerun:
        """Raises InvalidInput for documents that do not exist or are not in the prompt."""
        check_documents(attribution, documents)
        places = [place for source in attribution.sources for place in source.occurrences]
        context = Context(
            documents=attribution.documents,
            prompt=TokenizedText.of(generation.prompt_ids, language_model),
            sources=attribution.sources,
            regions=tuple(merge((place.start, place.end) for place in places if place.spans)),
            not_located=attribution.not_located,
        )
        removed = Ablation(
            characters=tuple(places_of(documents, attribution.sources, context.prompt.text))
        )
        indices = tuple(sorted(set(documents)))
        name = attribution.provenance.answered_by
        return cls(language_model, generation, context, indices, removed, name)

    def ask_model(
        self, prompt: Prompt, ask: Ask | None, settings: Mapping[str, Any]
    ) -> SecondAnswer:
        """The second answer of the model that answered, if this model only reads.

        `prompt` is what that model was given. Raises NotRecorded without `ask`, and InvalidInput if
        the documents cannot be removed from the prompt.
        """
        name = self.answered_by or "the model that answered"
        reader = self.language_model.public_name
        if ask is None:
            raise NotRecorded(
                f"{reader!r} only read this answer; pass ask=, a function that "
                f"sends a prompt to {name} and gives the text of its answer"
            )
        cut = prompt_without(prompt, self.context.prompt.text, self.removed.characters)
        text = ask(cut, **settings)
        return SecondAnswer(
            text.strip(),
            (
                f"{name} may answer in other words each time that it is asked; the nats are from "
                f"{reader}, which read its first answer.",
            ),
        )

    def answer(self, settings: Mapping[str, Any]) -> SecondAnswer:
        """The model's answer without the documents, by these settings and the recorded ones."""
        prompt_ids = self.context.ablate(self.removed, self.language_model).ids
        recorded = self.generation.settings or _GREEDY
        second = generate_with(self.language_model, prompt_ids, {**recorded.values, **settings})
        ids = () if second is None else second.response_ids
        text = self.language_model.decode(ids, skip_special_tokens=True).strip()
        return SecondAnswer(text, tuple(self._notes(second)))

    def compare(
        self,
        second: SecondAnswer,
        backend: Backend,
        options: ScoringOptions,
        session: Session,
    ) -> Counterfactual:
        """The second answer, and the first answer's loss without the documents."""
        scored = Scorer(
            language_model=self.language_model,
            generation=self.generation,
            context=self.context,
            backend=backend,
            options=options,
            session=session,
        ).score([self.removed])
        has_changed = backend.changed_since(self.generation)
        changed = ["The model was changed after it gave the first answer."] * has_changed
        return Counterfactual(
            documents=self.documents,
            response=second.text,
            score=float((scored.full - scored.ablated[0]).sum()),
            exact=scored.exact[0],
            notes=(*second.notes, *changed),
        )

    def _notes(self, second: Generation | None) -> Iterator[str]:
        """Other reasons than the documents for a difference between the two answers."""
        recorded = self.generation.settings
        used = second.settings if second is not None else recorded
        if self.generation.retokenized or recorded is None:
            yield "The first answer was not recorded; it may have been generated in another way."
        if used and GenerateArguments(model_here(self.language_model), used.values).setting(
            "do_sample"
        ):
            yield "Answers are drawn at random, so they may differ without any cause."
        if recorded and recorded.left_out:
            yield f"Not repeated for the second answer: {', '.join(recorded.left_out)}."
        if second is not None and second.cut_at is not None:
            yield (
                f"The second answer was cut off at its length limit of {second.cut_at} tokens; "
                "raise max_new_tokens for a longer one."
            )
