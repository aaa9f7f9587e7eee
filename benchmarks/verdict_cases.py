"""Hand-written cases of each kind that get the verdicts that they were written for.

    python -m benchmarks.verdict_cases

Sentence by sentence the kind of verdict, the cited documents and the audit of the model's own
markers have to be right. `tests/verdicts/test_cases.py` holds the floors for the held-out half.
"""

from __future__ import annotations

from collections import defaultdict

from support.verdict_cases import CASES, attribute, is_right
from tqdm import tqdm

from attribot_rag import Attributor, load_model
from benchmarks.experiment.tables import markdown_table
from benchmarks.halves import SPLITS


def main() -> None:
    attributor = Attributor(load_model(), progress=False)
    kinds: dict[str, dict[str, list[bool]]] = defaultdict(lambda: {half: [] for half in SPLITS})
    wrong = []
    for case in tqdm(CASES, unit="case"):
        right = is_right(attribute(attributor, case), case)
        kinds[case["kind"]][case["split"]].append(right)
        wrong += [] if right else [case["id"]]
    rows = (
        [kind, *(f"{sum(half)} of {len(half)}" for half in halves.values())]
        for kind, halves in kinds.items()
    )
    print(markdown_table(["kind", "calibration", "held out"], rows))
    print(f"\nwrong: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
