"""Figures of an evaluation: seven methods are named, in colour; all others are gray."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.experiment.grid import BASELINES, EXACT, NAIVE, PROXY
from benchmarks.experiment.measures import CasesByMethod, cases_by_method
from benchmarks.experiment.metrics import recall
from benchmarks.experiment.pareto import compared, pareto_front
from benchmarks.experiment.results import ResultStore

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
    PROXY: ("#6b5f00", "X", "-."),
}
"""Colour, marker and dash of the methods that are named."""

_OTHERS = "0.75"
_FRACTIONS = tuple(np.linspace(0, 1, 21).tolist())
PLOT_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.grid": True,
    "grid.color": "0.93",
    "axes.axisbelow": True,
    "svg.hashsalt": "attribot",
    "svg.fonttype": "path",
}


def draw(results: ResultStore, folder: Path) -> list[Path]:
    """Write the figures as SVG into the folder: one panel for each data set."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    by_data_set = {name: cases_by_method(results, name) for name in results.data_sets()}
    sets = {name: scored for name, scored in by_data_set.items() if scored.get(EXACT)}
    paths = []
    for name, panel in (
        ("faithfulness_and_cost", _faithfulness),
        ("scatter", _scatter),
        ("outlier_recall", _recall),
        ("cost_and_context", _cost),
    ):
        if sets:
            with mpl.rc_context(PLOT_STYLE):
                figure = Figure(figsize=(5.4 * len(sets), 4.2), layout="constrained")
                panels = figure.subplots(1, len(sets), squeeze=False)[0]
                for axes, (data_set, scored) in zip(panels, sets.items(), strict=True):
                    panel(axes, scored)
                    axes.set_title(data_set)
                    if axes.get_legend_handles_labels()[0]:
                        axes.legend(labelcolor="linecolor")
                paths.append(folder / f"{name}.svg")
                figure.savefig(paths[-1], metadata={"Date": None})
    return paths


def _faithfulness(axes: Axes, scored: CasesByMethod) -> None:
    points = {name: point for name, point in compared(scored).items() if point.cost}
    front = pareto_front(points)
    axes.step(
        [points[name].cost for name in front],
        [points[name].faithfulness for name in front],
        where="post",
        color=_OTHERS,
        linestyle="--",
    )
    for name, point in points.items():
        color, marker, _ = STYLES.get(name, (_OTHERS, "o", ""))
        fill = "none" if name in BASELINES else "full"
        size = 7 if name in STYLES else 4
        axes.plot(*point, marker, color=color, fillstyle=fill, ms=size, label=_label(name))
    axes.set(xscale="log", xlabel="GFLOP per answer (median, log scale)")
    axes.set_ylabel("mAP against outliers of exact leave-one-out")
    axes.xaxis.set_major_formatter("{x:,.0f}")


def _scatter(axes: Axes, scored: CasesByMethod) -> None:
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
            axes.plot(exact, scores, marker, color=color, ms=3, fillstyle="none", label=name)
    axes.axline((0, 0), slope=1, color=_OTHERS, linewidth=1)
    axes.set_xscale("symlog", linthresh=1)
    axes.set_yscale("symlog", linthresh=1)
    axes.set_xlabel("exact leave-one-out score, nats (symmetric log scale)")
    axes.set_ylabel("approximate score, nats")


def _recall(axes: Axes, scored: CasesByMethod) -> None:
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
            color, _, dash = STYLES.get(name, (_OTHERS, "", "-"))
            width, order = (1.6, 3) if name in STYLES else (0.7, 2)
            axes.plot(
                _FRACTIONS,
                np.mean(curves, axis=0),
                color=color,
                linestyle=dash,
                linewidth=width,
                zorder=order,
                label=_label(name),
            )
    axes.set_xlabel("share of the sources that is kept, best first")
    axes.set_ylabel("share of the outliers among them")


def _cost(axes: Axes, scored: CasesByMethod) -> None:
    for name, cases in scored.items():
        costly = [case for case in cases if case.scored.tokens]
        if costly:
            lengths = [case.answered.context_tokens for case in costly]
            tokens = [case.scored.tokens for case in costly]
            color, marker, _ = STYLES.get(name, (_OTHERS, ".", ""))
            order = 3 if name in STYLES else 2
            axes.plot(
                lengths,
                tokens,
                marker,
                color=color,
                ms=4,
                fillstyle="none",
                zorder=order,
                label=_label(name),
            )
    axes.set(xlabel="context, tokens", ylabel="tokens through the model (log scale)", yscale="log")
    axes.yaxis.set_major_formatter("{x:,.0f}")


def _label(name: str) -> str | None:
    """The name in the legend; None for a method that is not named."""
    return name if name in STYLES else None
