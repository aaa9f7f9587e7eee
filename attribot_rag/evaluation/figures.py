"""Figures of an evaluation: five methods are labelled where they stand, in colour."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from attribot_rag.evaluation.grid import BASELINES, EXACT, NAIVE
from attribot_rag.evaluation.measures import CasesByMethod, cases_by_method
from attribot_rag.evaluation.metrics import recall
from attribot_rag.evaluation.pareto import compared, pareto_front
from attribot_rag.evaluation.results import ResultStore

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Dark enough to be read on white, and told apart by marker and dash, too.
STYLES = {
    EXACT: ("#333333", "s", "-"),
    "auto": ("#0b5cad", "o", "-"),
    "thorough": ("#5a4fcf", "P", "--"),
    "masked": ("#00704f", "^", "--"),
    "ContextCite, 32 ablations": ("#b34700", "D", "-."),
    "gradient norm": ("#8a2c7f", "v", ":"),
}
"""Colour, marker and dash of the methods that are labelled."""

_OTHERS = "0.75"
_FRACTIONS = tuple(np.linspace(0, 1, 21).tolist())
_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.grid": True,
    "grid.color": "0.93",
    "axes.axisbelow": True,
    "svg.hashsalt": "attribot",
    "svg.fonttype": "path",
}
_LINE = 11.0  # points from one label to the next


class Label(NamedTuple):
    """A method's name, and the point that it stands beside, in the units of the axes."""

    name: str
    x: float
    y: float


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
                figure = Figure(figsize=(5.4 * len(sets), 4.2), layout="constrained")
                panels = figure.subplots(1, len(sets), squeeze=False)[0]
                labels = [
                    list(panel(axes, scored))
                    for axes, scored in zip(panels, sets.values(), strict=True)
                ]
                figure.draw_without_rendering()  # the limits of the axes are known then
                for axes, data_set, of_panel in zip(panels, sets, labels, strict=True):
                    axes.set_title(data_set)
                    _write(axes, of_panel)
                paths.append(folder / f"{name}.svg")
                figure.savefig(paths[-1], metadata={"Date": None})
    return paths


def _faithfulness(axes: Axes, scored: CasesByMethod) -> Iterator[Label]:
    points = compared(scored).points
    front = pareto_front(points)
    axes.step(
        [points[name].seconds for name in front],
        [points[name].faithfulness for name in front],
        where="post",
        color=_OTHERS,
        linestyle="--",
    )
    for name, point in points.items():
        color, marker, _ = STYLES.get(name, (_OTHERS, "o", ""))
        fill = "none" if name in BASELINES else "full"
        axes.plot(*point, marker, color=color, fillstyle=fill, ms=7 if name in STYLES else 4)
    axes.set(xscale="log", xlabel="seconds per answer (median, log scale)")
    axes.set_ylabel("mAP against outliers of exact leave-one-out")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.margins(x=0.2)
    yield from (Label(name, *points[name]) for name in STYLES if name in points)


def _scatter(axes: Axes, scored: CasesByMethod) -> Iterator[Label]:
    for name in ("masked", "auto"):
        pairs = [
            (exact, score)
            for case in scored.get(name, ())
            for exact, score in zip(case.exact, case.scored.scores, strict=True)
            if exact is not None and score is not None
        ]
        if pairs:
            color, marker, _ = STYLES[name]
            exact, scores = zip(*pairs, strict=True)
            axes.plot(exact, scores, marker, color=color, ms=3, fillstyle="none")
            yield Label(name, min(exact), max(scores) / 3)
    axes.axline((0, 0), slope=1, color=_OTHERS, linewidth=1)
    axes.set_xscale("symlog", linthresh=1)
    axes.set_yscale("symlog", linthresh=1)
    axes.set_xlabel("exact leave-one-out score, nats (symmetric log scale)")
    axes.set_ylabel("approximate score, nats")


def _recall(axes: Axes, scored: CasesByMethod) -> Iterator[Label]:
    for name in (name for name in scored if name not in (EXACT, NAIVE)):
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
            color, _, dash = STYLES.get(name, (_OTHERS, "", "-"))
            width, order = (1.6, 3) if name in STYLES else (0.7, 2)
            axes.plot(_FRACTIONS, mean, color=color, linestyle=dash, linewidth=width, zorder=order)
            if name in STYLES:
                yield Label(name, 0.12, float(np.interp(0.12, _FRACTIONS, mean)))
    axes.set_xlabel("share of the sources that is kept, best first")
    axes.set_ylabel("share of the outliers among them")


def _cost(axes: Axes, scored: CasesByMethod) -> Iterator[Label]:
    axes.set_yscale("log")
    for name, cases in scored.items():
        costly = [case for case in cases if case.scored.tokens]
        if costly:
            lengths = [case.answered.context_tokens for case in costly]
            tokens = [case.scored.tokens for case in costly]
            color, marker, _ = STYLES.get(name, (_OTHERS, ".", ""))
            order = 3 if name in STYLES else 2
            axes.plot(lengths, tokens, marker, color=color, ms=4, fillstyle="none", zorder=order)
            if name in STYLES:
                yield Label(name, *max(zip(lengths, tokens, strict=True)))
    axes.set(xlabel="context, tokens", ylabel="tokens through the model (log scale)")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.margins(x=0.25)


def _write(axes: Axes, labels: Sequence[Label]) -> None:
    """Each label beside its point, towards the middle, and none over another."""
    figure = axes.get_figure()
    scale = 72.0 / (figure.dpi if figure else 72.0)
    middle = float(np.mean(axes.get_window_extent().intervalx))
    points = {label: axes.transData.transform((label.x, label.y)) for label in labels}
    for side in (-1, 1):
        beside = [label for label in labels if (points[label][0] < middle) == (side > 0)]
        beside.sort(key=lambda label: float(points[label][1]))
        heights = _apart([float(points[label][1]) * scale for label in beside])
        for label, height in zip(beside, heights, strict=True):
            axes.annotate(
                label.name,
                (label.x, label.y),
                (8 * side, height - float(points[label][1]) * scale),
                textcoords="offset points",
                color=STYLES[label.name][0],
                horizontalalignment="left" if side > 0 else "right",
                verticalalignment="center",
                bbox={"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 1},
                zorder=4,
            )


def _apart(heights: Iterable[float]) -> list[float]:
    """Ascending heights, each moved up until it is a line above the one before."""
    moved: list[float] = []
    for height in heights:
        moved.append(max(height, moved[-1] + _LINE) if moved else height)
    return moved
