"""How often verdicts cite what they should, and what they should not.

    python -m benchmarks.verdicts --hotpotqa FILE --squad FILE

Answers are the embedded model's own, greedy. Three sets: SQuAD questions on four paragraphs with
two more of another article put among them (placebos, which cannot be the cause), HotpotQA questions
with their eight distractors, and SQuAD questions on paragraphs of another article only. The even
questions of each are for calibration, the odd ones are held apart.

What was judged once is kept next to this script as numbers, and not judged again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from tqdm import tqdm

from attribot_rag import Attribution, Attributor, LanguageModel, load_model
from benchmarks.examples import (
    Example,
    answer,
    hotpotqa,
    squad_irrelevant,
    squad_with_placebos,
)

RESULTS = Path(__file__).parent / "verdicts.jsonl"


@dataclass(frozen=True)
class JudgedSentence:
    """A judged sentence of an answer.

    `right`: it holds an annotator's answer. Of the cited sources, `evidence` hold marked evidence
    (for SQuAD the answer's text), `placebos` are only in placebos.
    """

    key: str
    held_apart: bool
    kind: str
    right: bool
    cited: int
    evidence: int
    placebos: int
    effect: float | None
    reliance: float | None
    seconds: float
    tokens: int

    @property
    def data_set(self) -> str:
        return self.key.split("/")[0]


def judge(
    example: Example, held_apart: bool, language_model: LanguageModel
) -> list[JudgedSentence]:
    answered = answer(example, language_model)
    if answered is None:
        return []
    attributor = Attributor(language_model, progress=False)
    attribution = attributor.attribute_generation(answered.generation, example.documents)
    found = []
    for verdict in attribution.verdicts:
        text = attribution.response[verdict.start : verdict.end].casefold()
        found.append(
            JudgedSentence(
                key=example.key,
                held_apart=held_apart,
                kind=verdict.kind,
                right=any(known.casefold() in text for known in example.answers),
                cited=len(verdict.source_ids),
                evidence=sum(_is_evidence(attribution, i, example) for i in verdict.source_ids),
                placebos=sum(_is_placebo(attribution, i) for i in verdict.source_ids),
                effect=verdict.effect,
                reliance=verdict.reliance,
                seconds=attribution.provenance.seconds,
                tokens=attribution.provenance.scored_tokens,
            )
        )
    return found


def _is_evidence(attribution: Attribution, source_id: int, example: Example) -> bool:
    text = attribution.sources[source_id].text.casefold()
    return any(one.casefold() in text or text in one.casefold() for one in example.evidence)


def _is_placebo(attribution: Attribution, source_id: int) -> bool:
    held = [attribution.documents[i] for i in attribution.sources[source_id].documents]
    return all(str(document.id).startswith("placebo") for document in held)


def report(judged: Iterable[JudgedSentence]) -> str:
    lines = [
        "| set | sentences judged | citing | citations | holding the evidence, in right sentences "
        "| right sentences citing evidence | citations of placebos | sentences citing a placebo |",
        "|---|---|---|---|---|---|---|---|",
    ]
    held = [one for one in judged if one.kind not in ("trivial", "reasoning")]
    for data_set in dict.fromkeys(one.data_set for one in held):
        for apart in (False, True):
            own = [one for one in held if one.data_set == data_set and one.held_apart == apart]
            right = [one for one in own if one.right]
            cited = sum(one.cited for one in own)
            cells = [
                f"{data_set}, {'held apart' if apart else 'calibration'}",
                str(len(own)),
                _share(sum(one.cited > 0 for one in own), len(own)),
                str(cited),
                _share(sum(one.evidence for one in right), sum(one.cited for one in right)),
                _share(sum(one.evidence > 0 for one in right), len(right)),
                _share(sum(one.placebos for one in own), cited),
                _share(sum(one.placebos > 0 for one in own), len(own)),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / whole:.0%})" if whole else "–"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--hotpotqa", type=Path, required=True, help="JSON, distractor setting")
    parser.add_argument("--squad", type=Path, required=True, help="SQuAD 2.0 JSON")
    parser.add_argument("--results", type=Path, default=RESULTS, help="JSON lines")
    parser.add_argument("--only", help="one set: squad-placebo, hotpotqa or squad-irrelevant")
    arguments = parser.parse_args()
    examples = [
        *squad_with_placebos(arguments.squad, 40),
        *hotpotqa(arguments.hotpotqa, 20),
        *squad_irrelevant(arguments.squad, 20),
    ]
    path: Path = arguments.results
    lines = path.read_text().splitlines() if path.exists() else []
    judged = [JudgedSentence(**json.loads(line)) for line in lines if line.endswith("}")]
    known = {one.key for one in judged}
    language_model = load_model()
    for number, example in enumerate(tqdm(examples, unit="question")):
        wanted = not arguments.only or example.key.startswith(arguments.only)
        if example.key not in known and wanted:
            new = judge(example, bool(number % 2), language_model)
            judged += new
            with path.open("a") as file:
                file.write("".join(json.dumps(asdict(one)) + "\n" for one in new))
    print(report(judged))


if __name__ == "__main__":
    main()
