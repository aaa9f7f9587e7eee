"""Summaries at the places where an application's answers have theirs."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping, MutableMapping
from typing import Any

from attribot_rag.runtime.attributed_run import AttributedRun

_MAX_TOLD = 256


def summaries_of(runs: Mapping[str, AttributedRun]) -> dict[str, Any] | None:
    """The summary of a single run, or those of several by their keys; None without any."""
    summaries = {key: run.summary for key, run in runs.items()}
    return summaries if len(summaries) > 1 else next(iter(summaries.values()), None)


def attach_to_mapping(
    outputs: MutableMapping[Any, Any], key: str, found: dict[str, Any] | None
) -> bool:
    """Give an answer's mapping what `summaries_of` found; a value of its own stays as it is.

    An application may give a mapping that it keeps, with what was attached to it before. False if
    another summary of the same answer is there, which stays.
    """
    before = _summaries_in(outputs.get(key))
    if outputs.get(key) is not None and not before:
        return True
    if any(is_taken(present, summary) for present in before for summary in _summaries_in(found)):
        return False
    if found is not None:
        outputs[key] = found
    elif before:
        del outputs[key]
    return True


def is_taken(present: Any, summary: dict[str, Any] | None) -> bool:
    """Whether another summary of the same answer is present, and no mere error in its place."""
    if summary is None or not isinstance(present, dict):
        return False
    if present.get("run_id") != summary["run_id"]:
        return False
    return present["error"] is None or summary["error"] is not None


def _summaries_in(value: Any) -> list[dict[str, Any]]:
    """A summary, or the summaries of a dict's keys; none for anything else."""
    if not isinstance(value, dict):
        return []
    if {"status", "run_id"} <= value.keys():
        return [value]
    inner = [summary for part in value.values() for summary in _summaries_in(part)]
    return inner if len(inner) == len(value) else []


class Advice:
    """The line in the log for an application that was not attributed, once for each of 256."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._told: set[Hashable] = set()

    def tell(self, application: Hashable, name: str, reason: str) -> None:
        """Say why the answer of an application, known by any value, has no attribution."""
        if application not in self._told and len(self._told) < _MAX_TOLD:
            self._told.add(application)
            self._logger.warning("no attribution of what %s answered: %s", name, reason)
