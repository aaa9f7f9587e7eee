"""How many hand-written cases of each kind get the verdicts that they were written for.

    python -m benchmarks.verdict_cases

Sentence by sentence the kind of verdict, the cited documents and the audit of the model's own
markers have to be right. `tests/verdicts/test_cases.py` holds the floors for the held-out half.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

from tqdm import tqdm

from attribot_rag import Attributor, load_model

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from support.verdict_cases import CASES, attribute, is_right  # noqa: E402


def main() -> None:
    language_model = load_model()
    attributor = Attributor(language_model, progress=False)
    found: dict[tuple[str, str], list[bool]] = defaultdict(list)
    wrong = []
    for case in tqdm(CASES, unit="case"):
        right = is_right(attribute(attributor, case), case)
        found[case["kind"], case["split"]].append(right)
        wrong += [] if right else [case["id"]]
    print("| kind | calibration | held out |\n|---|---|---|")
    for kind in dict.fromkeys(kind for kind, _ in found):
        halves = (found[kind, split] for split in ("calibration", "held_out"))
        cells = (f"{sum(half)} of {len(half)}" for half in halves)
        print(f"| {' | '.join([kind, *cells])} |")
    print(f"\nwrong: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
