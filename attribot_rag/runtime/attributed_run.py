"""An application's answer with its attribution and its summary."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from attribot_rag.attribution import Attribution, Composition
from attribot_rag.attribution.composite_summary import summarize_composition
from attribot_rag.attribution.composition import cited_documents
from attribot_rag.cached_property import cached_property
from attribot_rag.context import Document
from attribot_rag.display.markdown import with_legend, with_reader
from attribot_rag.display.own_markers import Markers
from attribot_rag.errors import UnsupportedModel
from attribot_rag.recording import Answer
from attribot_rag.result.offsets import Offsets, Shown
from attribot_rag.result.summary import MAX_SUMMARY_BYTES, summarize, without_attribution

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_MIN_CALL_BYTES = 900  # of an earlier answer's summary
_EMPTY = "The answer is empty, so there is nothing to attribute."
_TEXT_LENGTHS = (400, 100, 30, 0)  # characters of a question and of an answer in a summary


@dataclass(frozen=True, eq=False, repr=False)
class AttributedRun:
    """One answer: the model's run, its root run, and the attribution or error.

    Of `attribution` and `error` there is one at most: neither for an answer that is empty, or
    nothing but earlier answers, end to end. While the run `is_pending`, it has no attribution, or
    one whose last sentences are still to be judged. `shown` is the text that
    something made of the answer and the caller was given, None if that is the answer itself, '' if
    it was given no text. `earlier` are the runs of answers that the answer was made of, each
    after those that it was made of itself: they stood in its prompt, or in one of theirs, as
    documents with these runs' ids; or it is these answers end to end, each at its place
    [start, end) of `places`.
    """

    run_id: str
    root_id: str
    answer: Answer
    attribution: Attribution | None = None
    error: BaseException | None = None
    is_pending: bool = False
    shown: str | None = None
    earlier: tuple[AttributedRun, ...] = ()
    places: tuple[tuple[int, int], ...] = ()

    def __repr__(self) -> str:
        state = "pending" if self.is_pending else type(self.error or self.attribution).__name__
        return f"AttributedRun({self.run_id!r}, {self.text[:60]!r}, {state})"

    @property
    def text(self) -> str:
        """The answer."""
        return self.answer.text

    @property
    def documents(self) -> Sequence[Any]:
        """The framework's own documents, to which the answer was attributed."""
        return self.answer.documents

    @property
    def question(self) -> str | None:
        """The question, if the framework tells it."""
        return self.answer.question

    @property
    def span(self) -> Span | None:
        """The OpenTelemetry span of the model's call, else the current one; None without."""
        return self.answer.span

    @property
    def composition(self) -> Composition | None:
        """The attribution with those of the earlier answers; None without an attribution."""
        return None if self.attribution is None else self._composed(self.attribution)

    def compositions(self) -> list[tuple[int, Composition]]:
        """The composition, or its parts, each with its start in the text.

        Documents have the same number in all of them. Raises the run's error if there is one.
        """
        if self.error is not None:
            raise self.error
        whole = self.composition
        if whole is not None:
            return [(0, whole)]
        compositions: list[tuple[int, Composition]] = []
        numbers: Mapping[str, int] = {}
        for (start, _), run in zip(self.places, self.earlier, strict=False):
            if run.attribution is not None:
                composition = run._composed(run.attribution, numbers)
                numbers = composition.numbers
                compositions.append((start, composition))
        return compositions

    def to_cited_text(
        self, *, remarks: bool = True, markers: Markers = "audited", sources: bool = False
    ) -> str:
        """The answer with the numbers of its citations; as Attribution.to_cited_text.

        If it was composed of earlier answers, the numbers are those of their citations. Raises the
        run's error if there is one.
        """
        compositions = self.compositions()
        if self.attribution is not None:
            whole = compositions[0][1] if self.earlier else self.attribution
            return whole.to_cited_text(remarks=remarks, markers=markers, sources=sources)
        ends = dict(self.places)
        text, end = "", 0
        for start, composition in compositions:
            # They are joined without the white space around them.
            cited = composition.to_cited_text(remarks=remarks, markers=markers).strip()
            text, end = f"{text}{self.text[end:start]}{cited}", ends[start]
        text += self.text[end:]
        if remarks and compositions:
            text = with_reader(text, compositions[-1][1].attribution.provenance)
        documents = cited_documents(composition for _, composition in compositions)
        return with_legend(text, documents) if sources else text

    def _composed(
        self, attribution: Attribution, numbers: Mapping[str, int] | None = None
    ) -> Composition:
        earlier = {
            run.run_id: run.attribution for run in self.all_earlier() if run.attribution is not None
        }
        retrieved = tuple(map(Document.of, self.answer.retrieved)) if self.earlier else ()
        return Composition(attribution, earlier, numbers, retrieved)

    def all_earlier(self) -> tuple[AttributedRun, ...]:
        """The earlier runs and, recursively, their earlier runs, each once, after its own."""
        runs: dict[str, AttributedRun] = {}
        for run in self.earlier:
            if run.run_id not in runs:
                runs.update((part.run_id, part) for part in run.all_earlier())
                runs[run.run_id] = run
        return tuple(runs.values())

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The data attached to the answer: plain, at most 16 KB, with its `status`."""
        return self.summary_of(MAX_SUMMARY_BYTES)

    def summary_of(self, max_bytes: int) -> dict[str, Any]:
        """The same in fewer bytes of JSON."""
        shared = 2 * max_bytes // 3 if self.earlier else 0
        kept = self.earlier[: shared // _MIN_CALL_BYTES]
        room = max_bytes - shared
        texts = self._texts(room // 4)
        own = self._own_summary(room - len(json.dumps(texts))) | texts
        own["omitted"]["calls"] = len(self.earlier) - len(kept)
        if not kept:
            return own
        listed = {run.run_id for run in self.earlier}
        calls = [run._without(listed).summary_of(shared // len(kept)) for run in kept]
        if self.places and not self.is_pending:
            whole = all(call["status"] == "complete" for call in calls)
            own["status"] = "complete" if whole else "partial"
        return {
            **own,
            "calls": calls,
            "places": [list(place) for place in self.places[: len(kept)]],
        }

    def _without(self, listed: set[str]) -> AttributedRun:
        """The run without the earlier runs that are listed beside it."""
        return replace(self, earlier=tuple(run for run in self.earlier if run.run_id not in listed))

    def _texts(self, max_bytes: int) -> dict[str, str | None]:
        for length in _TEXT_LENGTHS:
            question, answer = (self.question or "")[:length], self.text[:length]
            texts = {"question": question or None, "answer": answer or None}
            if len(json.dumps(texts)) <= max_bytes:
                break
        has_citations = self.error is None and (self.attribution is not None or self.places)
        whole = texts | {"cited_text": self.to_cited_text() if has_citations else None}
        return whole if len(json.dumps(whole)) <= max_bytes else texts

    def _own_summary(self, max_bytes: int) -> dict[str, Any]:
        bounds: dict[str, Any] = {"run_id": self.run_id, "max_bytes": max_bytes}
        composition = self.composition
        if composition is not None:
            offsets = None if self.shown is None else Offsets.between(self.text, self.shown)
            is_lost = self.shown is not None and offsets is None
            shown = Shown(self.answer.start, offsets, is_lost)
            if self.earlier:
                summary = summarize_composition(composition, shown=shown, **bounds)
            else:
                summary = summarize(composition.attribution, shown=shown, **bounds)
            return summary | ({"status": "pending"} if self.is_pending else {})
        if not (self.is_pending or self.error or self.earlier):
            return without_attribution("complete", notes=[_EMPTY], **bounds)
        length = len(self.text if self.shown is None else self.shown)
        if self.is_pending:
            return without_attribution("pending", error=self.error, length=length, **bounds)
        is_unsupported = isinstance(self.error, UnsupportedModel)
        status: Literal["error", "unsupported"] = "unsupported" if is_unsupported else "error"
        return without_attribution(status, error=self.error, length=length, **bounds)
