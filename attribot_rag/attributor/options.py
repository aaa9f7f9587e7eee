"""The options of attributions, each described here and nowhere else."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, get_args

from typing_extensions import Self, TypedDict

from attribot_rag.annotation import Annotator, NumbersInDocuments
from attribot_rag.attribution import Numbering
from attribot_rag.context import ContextOptions
from attribot_rag.errors import InvalidInput, UnknownOption
from attribot_rag.methods.base import Method
from attribot_rag.scoring import Budget, ScoringOptions
from attribot_rag.verdicts import VerdictOptions

_VERDICTS = VerdictOptions()
_ANNOTATOR = NumbersInDocuments()
_KINDS = {
    "budget": (Budget, "Budget(seconds=...), Budget(tokens=...)"),
    "verdicts": (VerdictOptions, "VerdictOptions(min_effect=...)"),
    "context": (ContextOptions, "ContextOptions(source_unit=...)"),
    "scoring": (ScoringOptions, "ScoringOptions(max_memory=...)"),
    "annotator": (Annotator, "an object with the method annotate(sentences)"),
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of attributions.

    Whatever takes options takes them by name, `method="masked"`, or whole,
    `options=Options(method="masked")`; a name takes precedence over the whole.

    `method` is 'auto', 'thorough', 'leave_one_out', 'hierarchical', 'masked', 'patching',
    'masked_hierarchical', or an object with a method's `name`, `run` and `cost`. With `keep` (a
    number of sources, or a fraction), a proxy only decides which sources the target scores: proxy
    pruning. `budget` bounds what one attribution may cost, not counting the work done once for a
    model. `verdicts` are the limits for judging sentences, or None for no verdicts. `context` says
    how documents are found and cut into sources, `scoring` how log-likelihoods are computed. Cited
    documents have the numbers of the markers that the model wrote itself, such as [2], if it did;
    with the `numbering` 'by_citation' always 1, 2, 3 as they are first cited. The `annotator` gives
    the sentences' checks: by default, numbers that stand in no document; None leaves that out.
    `progress` shows a bar; by default an Attributor does, a service does not."""

    method: str | Method = "auto"
    keep: int | float | None = None
    budget: Budget | None = None
    verdicts: VerdictOptions | None = _VERDICTS
    context: ContextOptions | None = None
    scoring: ScoringOptions | None = None
    numbering: Numbering = "by_marker"
    annotator: Annotator | None = _ANNOTATOR
    progress: bool | None = None

    def __post_init__(self) -> None:
        for name, (kind, example) in _KINDS.items():
            value = getattr(self, name)
            is_kind = isinstance(value, kind) and not isinstance(value, type)
            if value is not None and not is_kind:
                raise InvalidInput(f"{name}={value!r}; pass {example}, or None")
        if self.numbering not in get_args(Numbering):
            raise InvalidInput(f"numbering={self.numbering!r}; use one of {get_args(Numbering)}")

    @classmethod
    def of(
        cls, owner: str, values: Mapping[str, Any], *, beside: Collection[str] = (), **defaults: Any
    ) -> Self:
        """The options of `owner`, by name or whole, with its own `defaults`.

        `beside` are names of what else it takes. Raises UnknownOption for any other name,
        InvalidInput for values that are no options.
        """
        names = {field.name for field in fields(cls)}
        UnknownOption.check(owner, values, {*names, *beside, "options"})
        whole = values.get("options")
        if whole is None:
            whole = cls(**defaults)
        elif not isinstance(whole, Options):
            raise InvalidInput(f"options={whole!r}; pass {cls.__name__}(method=...), or None")
        elif not isinstance(whole, cls):
            whole = cls(**vars(whole))
        return replace(whole, **{name: values[name] for name in values if name in names})


class AttributorOptions(TypedDict, total=False):
    """Options by name, for the signatures of functions."""

    options: Options | None
    method: str | Method
    keep: int | float | None
    budget: Budget | None
    verdicts: VerdictOptions | None
    context: ContextOptions | None
    scoring: ScoringOptions | None
    numbering: Numbering
    annotator: Annotator | None
    progress: bool | None
