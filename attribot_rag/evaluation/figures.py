"""Figures of an evaluation, readable in grayscale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attribot_rag.evaluation.grid import BASELINES, DEFAULT, EXACT, NAIVE
from attribot_rag.evaluation.measures import CasesByMethod, cases_by_method
from attribot_rag.evaluation.metrics import recall
from attribot_rag.evaluation.pareto import compared, pareto_front
from attribot_rag.evaluation.results import ResultStore

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKERS = "os^D*vPX<d>p8h"
_DASHES = ("-", "--", "-.", ":")
_GRAYS = ("0", "0.35", "0.6")
_FRACTIONS = tuple(np.linspace(0, 1, 21).tolist())
_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.grid": True,
    "grid.color": "0.9",
    "axes.axisbelow": True,
    "svg.hashsalt": "attribot",
    "svg.fonttype": "path",
}
_LEGEND: dict[str, Any] = {
    "fontsize": 7,
    "ncols": 3,
    "loc": "upper center",
    "bbox_to_anchor": (0.5, -0.12),
}


def draw(results: ResultStore, folder: Path) -> list[Path]:
    """Write the figures as SVG into the folder: one panel for each data set."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    by_data_set = {name: cases_by_method(results, name) for name in results.data_sets()}
    sets = {name: scored for name, scored in by_data_set.items() if scored.get(EXACT)}
    paths = []
    for name, panel in (
        ("faithfulness_and_time", _faithfulness),
        ("scatter", _scatter),
        ("outlier_recall", _recall),
        ("cost_and_context", _cost),
    ):
        if sets:
            with mpl.rc_context(_STYLE):
                figure = Figure(figsize=(6.4 * len(sets), 6.2), layout="constrained")
                panels = figure.subplots(1, len(sets), squeeze=False)[0]
                for axes, (data_set, scored) in zip(panels, sets.items(), strict=True):
                    panel(axes, scored)
                    axes.set_title(data_set)
                    if axes.get_legend_handles_labels()[0]:
                        axes.legend(**_LEGEND)
                paths.append(folder / f"{name}.svg")
                figure.savefig(paths[-1], metadata={"Date": None})
    return paths


def _faithfulness(axes: Axes, scored: CasesByMethod) -> None:
    points = compared(scored).points
    front = pareto_front(points)
    axes.step(
        [points[name].seconds for name in front],
        [points[name].faithfulness for name in front],
        where="post",
        color="0.5",
        linestyle="--",
        label="Pareto front",
    )
    for (name, point), (marker, gray) in zip(points.items(), _marks(), strict=False):
        ours = name not in BASELINES
        axes.plot(*point, marker, color=gray, fillstyle="full" if ours else "none", label=name)
    axes.set(xscale="log", xlabel="seconds per answer (median, log scale)")
    axes.set_ylabel("mAP against outliers of exact leave-one-out")
    axes.xaxis.set_major_formatter("{x:g}")


def _scatter(axes: Axes, scored: CasesByMethod) -> None:
    names = [name for name in ("proxy", "masked", "auto") if scored.get(name)]
    for name, (marker, gray) in zip(names, _marks(), strict=False):
        pairs = [
            (exact, score)
            for case in scored[name]
            for exact, score in zip(case.exact, case.scored.scores, strict=True)
            if exact is not None and score is not None
        ]
        axes.plot(*zip(*pairs, strict=True), marker, color=gray, ms=3, fillstyle="none", label=name)
    axes.axline((0, 0), slope=1, color="0.7", linewidth=1)
    axes.set_xscale("symlog", linthresh=1)
    axes.set_yscale("symlog", linthresh=1)
    axes.set_xlabel("exact leave-one-out score, nats (symmetric log scale)")
    axes.set_ylabel("approximate score, nats")


def _recall(axes: Axes, scored: CasesByMethod) -> None:
    names = [name for name in told_apart(list(scored)) if name not in (EXACT, NAIVE)]
    styles = cycle((gray, dash) for gray in _GRAYS for dash in _DASHES)
    for name, (gray, dash) in zip(names, styles, strict=False):
        curves = [
            [
                recall(case.scored.scores, case.outliers, round(part * len(case.exact))) or 0.0
                for part in _FRACTIONS
            ]
            for case in scored[name]
            if case.outliers
        ]
        if curves:
            mean = np.mean(curves, axis=0)
            axes.plot(_FRACTIONS, mean, color=gray, linestyle=dash, label=name)
    axes.set_xlabel("share of the sources that is kept, best first")
    axes.set_ylabel("share of the outliers among them")


def _cost(axes: Axes, scored: CasesByMethod) -> None:
    for name, (marker, gray) in zip(told_apart(list(scored)), _marks(), strict=False):
        held = [case for case in scored[name] if case.scored.tokens]
        if held:
            lengths = [case.answered.context_tokens for case in held]
            tokens = [case.scored.tokens for case in held]
            axes.plot(lengths, tokens, marker, color=gray, ms=5, fillstyle="none", label=name)
    axes.set(yscale="log", xlabel="context, tokens", ylabel="tokens through the model (log scale)")
    axes.yaxis.set_major_formatter("{x:,.0f}")


def told_apart(names: Sequence[str]) -> list[str]:
    """No more names than line styles: the default methods where there are more."""
    if len(names) <= len(_GRAYS) * len(_DASHES):
        return list(names)
    return [name for name in names if name in DEFAULT]


def _marks() -> Iterator[tuple[str, str]]:
    return cycle((marker, gray) for gray in _GRAYS for marker in _MARKERS)
