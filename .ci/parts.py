"""Runs targets of `make` in turn, whatever becomes of each, and tells of all at the end.

python .ci/parts.py TARGET ...
"""

import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

RESULTS = Path("build/results")
NO_BROWSER = "make chromium"
"""What the reason of a test names that was skipped because there is no browser."""

OPTIONAL = ("chromium",)
"""A target without which the others do less, which the last lines say."""


def run(target: str) -> tuple[bool, str]:
    """Whether a target succeeded, and its line of the summary."""
    began = time.monotonic()
    environment = {**os.environ, "RESULTS": str((RESULTS / target).resolve())}
    succeeded = subprocess.run(["make", "--keep-going", target], env=environment).returncode == 0
    minutes, seconds = divmod(round(time.monotonic() - began), 60)
    outcome = "ok" if succeeded else "not available" if target in OPTIONAL else "FAILED"
    counts = ", ".join(f"{number} {outcome}" for outcome, number in count(target).items())
    return succeeded, f"{target:12} {outcome:14} {minutes:3}:{seconds:02}   {counts}"


def tests(pattern: str) -> list[ElementTree.Element]:
    paths = sorted(RESULTS.glob(pattern))
    return [test for path in paths for test in ElementTree.parse(path).iter("testcase")]


def count(target: str) -> Counter[str]:
    """How many tests of a target passed, failed and so on."""
    names = {"failure": "failed", "error": "failed", "skipped": "skipped"}
    outcomes = ((names.get(child.tag) for child in test) for test in tests(f"{target}/*.xml"))
    return Counter(next(filter(None, outcome), "passed") for outcome in outcomes)


def without_browser() -> int:
    """How many tests were skipped because there is no browser."""
    skipped = (skip for test in tests("*/*.xml") for skip in test.iter("skipped"))
    return sum(NO_BROWSER in skip.get("message", "") for skip in skipped)


def main(targets: list[str]) -> int:
    shutil.rmtree(RESULTS, ignore_errors=True)
    results = {target: run(target) for target in targets}
    print("", *(line for _, line in results.values()), sep="\n")
    skipped = without_browser()
    if skipped:
        print(f"{skipped} tests that need a browser were skipped; `{NO_BROWSER}` brings one.")
    failed = [target for target, (succeeded, _) in results.items() if not succeeded]
    return int(bool(set(failed) - set(OPTIONAL)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
