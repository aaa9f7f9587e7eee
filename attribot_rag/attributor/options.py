"""The options of attributions. Each is described only here."""

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
    "scoring": (ScoringOptions, "ScoringOptions(token_budget=...)"),
    "annotator": (Annotator, "an object with the method annotate(sentences)"),
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of attributions.

    Pass single options by name, such as `method="masked"`, or all together as
    `options=Options(method="masked")`. An option that is passed by name takes precedence.

    Args:
        method: 'auto', 'thorough', 'leave_one_out', 'hierarchical', 'masked', 'patching',
            'masked_hierarchical', or an object with a method's `name`, `run` and `cost`.
        keep: How many sources the model itself scores if a proxy selects them (proxy pruning): a
            number or a fraction.
        budget: The most seconds or tokens for one attribution. Work that is done only once for a
            model, such as probing it, does not count.
        verdicts: The limits for judging sentences, or None for no verdicts.
        context: How documents are found and cut into sources.
        scoring: How log-likelihoods are computed.
        annotator: Adds checks to sentences. The default one finds numbers that no
            document contains. None adds no checks.
        numbering: With 'by_marker', cited documents have the numbers of the markers that the model
            wrote, such as [2], if it wrote any. With 'by_citation', they are always 1, 2, 3 in the
            order of citation.
        progress: Whether to show a progress bar. By default, only an Attributor shows one.
    """

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
        """Make the Options of `owner` from options that were passed by name or as `options=`. The
        `defaults` of `owner` replace the usual defaults.

        `beside` are the names of other arguments. Raises UnknownOption for any other name, and
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
    """The options by name, for the signatures of functions."""

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
