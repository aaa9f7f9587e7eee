"""How an attribution grows with the chunks, the sentences of an answer, and the causes of one.

    OMP_NUM_THREADS=1 python -m benchmarks.growth [--axes sentences] [--sizes 8] [--count]

Prompts hold chunks of about 100 tokens with a fact each, given answers repeat some of them. Each is
attributed with the recorded cache of its prompt; a second time, by what the recorder kept of that;
and with neither. `--alone` leaves out these two and the generation. What is measured is kept in a
folder: a run that was stopped goes on. `--count` counts only tokens and passes. It keeps the rows
in the folder, and reads a prompt only if a row is new. `--pass-tokens` is what a pass is worth.
`--plot` draws the tokens and the shares of the generation's time.

    OMP_NUM_THREADS=1 python -m benchmarks.growth --start [--cold]

compares the first attribution of a process with its tenth, after `Attributor.warm_up()`, or
`--cold` without that.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from attribot_rag import Attribution, Attributor, Document, ScoringOptions
from attribot_rag.model.generation import Generation
from attribot_rag.recording import generate_answer
from benchmarks import ROOT
from benchmarks.experiment.figures import PLOT_STYLE
from benchmarks.experiment.setting import CLOCKS, hardware
from benchmarks.experiment.tables import markdown_table
from benchmarks.labelled.row_cache import CachingBackend, RowStore
from benchmarks.models import add_model, load_chat_model
from benchmarks.stopwatch import Stopwatch

SIZES = {
    "chunks": (5, 10, 20, 40, 60),
    "sentences": (1, 2, 4, 8, 16, 32),
    "causes": (1, 2, 4, 8),
    "eight sentences, chunks": (100,),
}
_NAMES = str.split(
    "Abel Brandt Cole Dorn Egan Falk Gruber Hale Ilves Jansen Keller Lund Moser Nyberg Olsen "
    "Petri Quint Rossi Sato Toledo Ulrich Varga Weber Xenakis Yates Zander Arndt Bauer Costa "
    "Duarte Engel Fonda Garner Holm Irving Jordan Kranz Lopez Meier Nolan Ortiz Pohl Quick "
    "Reiter Stein Thaler Usher Vidal Wolff Young Ziegler Adler Berger Conrad Drexler Elias "
    "Fabian Geller Hobbs Ibsen Jacobi Kunze Lenz Manns Norris Orlov Pascal Queneau Ritter "
    "Sommer Tanner Urban Vogel Winter Abbott Becker Cramer Denham Easton Forster Glover "
    "Hanson Ingram Jarvis Kemper Larkin Mercer Newman Osborne Parker Quigley Ramsey Sutton "
    "Turner Upton Vernon Walker Yorke Zimmer Archer"
)
_WORKS = str.split(
    "bridge library harbour mill theatre station school tower museum brewery lighthouse hospital "
    "market chapel observatory dairy"
)
_PLACES = tuple(
    begin + end
    for end in ("berg", "ford", "mouth", "stad", "vale", "wick", "haven")
    for begin in str.split("Ar Bel Cor Del Es For Gra Hol Is Jor Kal Lin Mar Nor Os")
)
_FILLER = (
    "The drawings for it, {} in all, lie in the archive of the town.",
    "Its walls are of {} stone, and {} steps lead up to the door.",
    "A {} roof was added when the first one had burnt down.",
    "Visitors pay {} crowns, and the garden towards the river is free.",
    "In winter the gate closes early, and a guide is only there at weekends.",
)
_SHORT = 2  # sentences after the fact: a hundred chunks must fit into 8,192 tokens
_STONES = ("grey", "yellow", "black", "white", "red", "green", "brown")
_ROOFS = ("slate", "copper", "tiled", "thatched", "wooden")


@dataclass(frozen=True)
class Case:
    """Chunks, and an answer; each of its sentences rests on the chunks at these indices."""

    axis: str
    size: int
    documents: tuple[Document, ...]
    answer: str
    causes: tuple[frozenset[int], ...]

    @property
    def prompt(self) -> list[dict[str, str]]:
        texts = "\n\n".join(document.text for document in self.documents)
        asked = "Who built what, and when?"
        return [{"role": "user", "content": f"{texts}\n\nAnswer from the texts: {asked}"}]

    def citations(self, attribution: Attribution) -> tuple[int, int]:
        """Right ones, of as many as there are causes, and false ones."""
        right = false = 0
        judged = [verdict for verdict in attribution.verdicts if verdict.kind != "trivial"]
        for verdict, causes in zip(judged, self.causes, strict=True):
            cited = [attribution.sources[source].documents for source in verdict.source_ids]
            right += len({index for documents in cited for index in documents} & causes)
            false += sum(causes.isdisjoint(documents) for documents in cited)
        return right, false


@dataclass(frozen=True)
class Measurement:
    """Seconds are the processor's, tokens those that were read, without a cached prompt's.

    `right` of `num_causes` causes are cited, and `false` other sources.
    """

    axis: str
    size: int
    way: str
    prompt_tokens: int
    response_tokens: int
    generation: float
    seconds: float
    tokens: int
    passes: int
    bytes: int
    right: int
    false: int
    num_causes: int


def _fact(number: int) -> tuple[str, str, str, int]:
    """Who built what, where, when: no two names and places alike."""
    year = 1801 + (37 * number) % 190
    return _NAMES[number], _WORKS[number % len(_WORKS)], _PLACES[number], year


def _chunk(number: int, num_sentences: int) -> Document:
    name, work, place, year = _fact(number)
    stone, roof = _STONES[number % len(_STONES)], _ROOFS[number % len(_ROOFS)]
    rest = " ".join(_FILLER[:num_sentences])
    rest = rest.format(31 + number, stone, 211 + number, roof, 401 + number)
    return Document(f"{name} built the {work} of {place} in {year}. {rest}", id=str(number))


def _case(axis: str, size: int) -> Case:
    num_chunks = {"sentences": max(size, 5), "causes": 10}.get(axis, size)
    num_said = {"sentences": size, "eight sentences, chunks": 8}.get(axis, 1)
    facts = [_fact(number) for number in range(num_chunks)]
    num_sentences = _SHORT if num_chunks == 100 else len(_FILLER)
    documents = tuple(_chunk(number, num_sentences) for number in range(num_chunks))
    # Spread over the prompt, so that rows do not depend on one place of it.
    said = [(index * num_chunks) // num_said for index in range(num_said)]
    if axis == "causes":
        parts = [f"{facts[i][0]} the {facts[i][1]} of {facts[i][2]}" for i in range(size)]
        listed = parts[0] if size == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
        first, *rest = listed.split(" the ", 1)
        answer = f"{first} built the {rest[0]}."
        return Case(axis, size, documents, answer, (frozenset(range(size)),))
    sentences = [
        f"The {facts[i][1]} of {facts[i][2]} was built by {facts[i][0]} in {facts[i][3]}."
        for i in said
    ]
    causes = tuple(frozenset({index}) for index in said)
    return Case(axis, size, documents, " ".join(sentences), causes)


def cases() -> Iterator[Case]:
    for axis, sizes in SIZES.items():
        for size in sizes:
            yield _case(axis, size)


def measured(attributor: Attributor, case: Case, *, alone: bool) -> Iterator[Measurement]:
    """With the recorded cache, a second time, and with none; or the first of these alone."""
    language_model, clock = attributor.language_model, CLOCKS["cpu"]
    prompt_ids, ids = language_model.encode_prompt(case.prompt), language_model.encode(case.answer)
    started = clock()
    count = 1 if alone else len(ids)
    answered = generate_answer(
        language_model, prompt_ids, max_new_tokens=count, min_new_tokens=count
    )
    generation = clock() - started if count > 1 else 0.0
    assert answered is not None
    recorded = replace(answered, response_ids=ids, cut_at=None, unfinished=False)
    yield attributed(attributor, case, "recorded", recorded, generation)
    if not alone:
        again = recorded.without_cache()
        yield attributed(attributor, case, "second look", again, generation)
        attributor.recorder.clear()
        yield attributed(attributor, case, "not recorded", again, generation)


def counted(attributor: Attributor, case: Case) -> Measurement:
    """The tokens and passes with the recorded cache, whose seconds and bytes are not measured."""
    language_model = attributor.language_model
    prompt_ids, ids = language_model.encode_prompt(case.prompt), language_model.encode(case.answer)
    return attributed(attributor, case, "counted", Generation(prompt_ids, ids), 0.0)


def attributed(
    attributor: Attributor, case: Case, way: str, given: Generation, generation: float
) -> Measurement:
    clock = CLOCKS["cpu"]
    started = clock()
    with Stopwatch(attributor.language_model.device) as watch:
        attribution = attributor.attribute_generation(given, case.documents, case.prompt)
    seconds, provenance = clock() - started, attribution.provenance
    right, false = case.citations(attribution)
    return Measurement(
        axis=case.axis,
        size=case.size,
        way=way,
        prompt_tokens=len(given.prompt_ids),
        response_tokens=len(given.response_ids),
        generation=generation,
        seconds=seconds,
        tokens=provenance.prefilled_tokens + provenance.scored_tokens,
        passes=provenance.forward_passes,
        bytes=watch.bytes,
        right=right,
        false=false,
        num_causes=sum(map(len, case.causes)),
    )


def start(attributor: Attributor, *, cold: bool) -> str:
    """The seconds of the processor for ten attributions of the same answer, in a new process."""
    clock = CLOCKS["cpu"]
    began = clock()
    if not cold:
        attributor.warm_up()
    warming = clock() - began
    case = _case("chunks", 5)
    taken = [next(measured(attributor, case, alone=True)).seconds for _ in range(10)]
    listed = ", ".join(f"{seconds:.2f}" for seconds in taken)
    return (
        f"{hardware(attributor.language_model.device)}, one thread: {warming:.2f} s to warm up, "
        f"then {listed} s: the first took {taken[0] / taken[-1]:.2f} times as long as the tenth"
    )


def table(every: Sequence[Measurement]) -> str:
    header = ["", "way", "prompt", "answer", "generation, s", "attribution, s", "of generation"]
    header += ["tokens", "passes", "MiB", "right", "false"]
    rows = [
        [
            f"{each.axis}: {each.size}",
            each.way,
            f"{each.prompt_tokens:,}",
            f"{each.response_tokens:,}",
            f"{each.generation:.1f}" if each.generation else "",
            f"{each.seconds:.2f}" if each.way != "counted" else "",
            f"{each.seconds / each.generation:.2f}" if each.generation else "",
            f"{each.tokens:,}",
            str(each.passes),
            f"{each.bytes / 2**20:.0f}" if each.way != "counted" else "",
            f"{each.right} of {each.num_causes}",
            str(each.false),
        ]
        for each in every
    ]
    return markdown_table(header, rows)


def draw(every: Sequence[Measurement], path: Path) -> None:
    """Writes an SVG: tokens by sentences, and shares of the generation by sentences and chunks."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    ways = {"recorded": ("#0b5cad", "o", "-"), "second look": ("#00704f", "^", "--")}
    ways["not recorded"] = ("#b34700", "D", "-.")
    with mpl.rc_context(PLOT_STYLE):
        panels = Figure(figsize=(10.8, 3.6), layout="constrained").subplots(1, 3)
        for panel, axis in zip(panels, ("sentences", "sentences", "chunks"), strict=True):
            is_share = panel is not panels[0]
            for way, (colour, marker, dash) in ways.items():
                of_way = [each for each in every if (each.axis, each.way) == (axis, way)]
                values = [each.seconds / each.generation for each in of_way if is_share]
                values = values or [each.tokens for each in of_way]
                style = {"color": colour, "marker": marker, "linestyle": dash, "label": way}
                panel.plot([each.size for each in of_way], values, **style)
            panel.set_xlabel(f"{axis} of the {'answer' if axis == 'sentences' else 'prompt'}")
            panel.set_ylabel("share of the generation's time" if is_share else "tokens read")
            panel.set_ylim(bottom=0)
            panel.legend(labelcolor="linecolor")
        panels[0].figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_model(parser)
    parser.add_argument("--axes", nargs="+", choices=SIZES, default=[*SIZES])
    parser.add_argument("--sizes", type=int, nargs="+", help="only these; all by default")
    parser.add_argument("--pass-tokens", type=int, help="what a pass is worth; measured by default")
    parser.add_argument("--alone", action="store_true", help="recorded only, without generation")
    parser.add_argument("--count", action="store_true", help="tokens and passes, not seconds")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "growth")
    parser.add_argument("--plot", type=Path, metavar="SVG", help="draw into this file")
    parser.add_argument("--start", action="store_true", help="only the first attributions")
    parser.add_argument("--cold", action="store_true", help="without a warm-up before the first")
    options = parser.parse_args()
    torch.set_num_threads(1)
    language_model = load_chat_model(options.model)
    scoring = ScoringOptions(
        pass_tokens=options.pass_tokens, token_budget=1 << 16 if options.pass_tokens else None
    )
    options.folder.mkdir(parents=True, exist_ok=True)
    backend = CachingBackend(language_model, RowStore(options.folder)) if options.count else None
    attributor = Attributor(language_model, backend=backend, progress=False, scoring=scoring)
    if options.start:
        print(start(attributor, cold=options.cold))
        return
    every, is_warm = list[Measurement](), False
    for case in cases():
        if case.axis not in options.axes or case.size not in (options.sizes or [case.size]):
            continue
        if options.count:
            every.append(counted(attributor, case))
            continue
        name = f"{case.axis.replace(' ', '_')}-{case.size}-{options.pass_tokens}-{options.alone}"
        file = options.folder / f"{name}.json"
        if not file.exists():
            if not is_warm:
                attributor.warm_up()
                is_warm = True
            found = [asdict(each) for each in measured(attributor, case, alone=options.alone)]
            file.write_text(json.dumps(found))
        new = [Measurement(**each) for each in json.loads(file.read_text())]
        every += new
        print(*table(new).splitlines()[-len(new) :], sep="\n", flush=True)
    print(f"{hardware(language_model.device)}, one thread\n\n{table(every)}")
    if options.plot is not None:
        draw(every, options.plot)


if __name__ == "__main__":
    main()
