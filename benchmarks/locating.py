"""What it takes to locate documents in a prompt: large inputs, and inputs made to take long.

    python -m benchmarks.locating

Each input is located in a process of its own, with one thread. Seconds are CPU time of
`locate_context` (of decoding or splitting, where the line says so), megabytes the most that it adds
to the process, pairs those of characters that edit distances compare.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from attribot_rag.context import ContextOptions, TokenizedText, locate_context
from attribot_rag.context.locating.retrieval import locate_documents
from attribot_rag.context.locating.text_index import Work
from attribot_rag.context.splitting.splitter import sentences, split_spans
from attribot_rag.errors import DocumentsNotLocated
from attribot_rag.model import load_model

_SYLLABLES = [
    *("ta", "re", "mi", "lo", "ku", "sen", "da", "vor", "ni", "pel"),
    *("ga", "rit", "os", "um", "ba", "tel", "fin", "or", "ash", "el"),
]
_PROMPT = "Answer from the context.\n\n{context}\n\nQuestion: who signed it?"


class Texts:
    """Random prose: words as frequent as in a language, in sentences and documents."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._words = [
            "".join(self._random.choices(_SYLLABLES, k=self._random.choice([1, 2, 2, 3, 3, 4])))
            for _ in range(8_000)
        ]
        self._weights = [1 / (rank + 2.7) for rank in range(1, len(self._words) + 1)]

    def sentence(self) -> str:
        chosen = self._random.choices(self._words, self._weights, k=self._random.randint(7, 18))
        if not self._random.randrange(4):
            chosen[3] = str(self._random.randint(2, 2_000))
        return " ".join(chosen).capitalize() + "."

    def document(self, length: int) -> str:
        """About this number of characters, at most."""
        said = [self.sentence()]
        while sum(map(len, said)) + len(said) < length - 60:
            said.append(self.sentence())
        return " ".join(said)

    def misspelled(self, text: str, every: int = 150) -> str:
        letters = list(text)
        for start in range(0, len(letters) - every, every):
            at = start + self._random.randrange(every)
            if letters[at].isalpha():
                letters[at] = "x"
        return "".join(letters)


def retrieval(length: int, number: int) -> tuple[str, list[str]]:
    """A prompt of about this length with documents: a tenth is changed in it, a tenth is absent."""
    texts = Texts()
    changes: list[Callable[[str], str]] = [
        texts.misspelled,
        str.lower,
        partial(textwrap.fill, width=60),
        lambda text: text[: 2 * len(text) // 3],
        lambda text: text.replace(". ", ".\n\n* "),
    ]
    documents = [texts.document(length // (number * 9 // 10)) for _ in range(number)]
    shown = [
        changes[index // 10 % len(changes)](text) if index % 10 == 5 else text
        for index, text in enumerate(documents)
        if index % 10
    ]
    context = "\n\n".join(f"[{index}] {text}" for index, text in enumerate(shown, 1))
    return _PROMPT.format(context=context), documents


def _near_equal(length: int) -> tuple[str, list[str]]:
    document = Texts().document(length)
    return _PROMPT.format(context=Texts(1).misspelled(document, 700)), [document]


def _absent() -> tuple[str, list[str]]:
    texts = Texts()
    documents = [texts.document(950) for _ in range(999)]
    shown = [texts.document(950) for _ in range(8)]
    return _PROMPT.format(context="\n\n".join(shown)), [*documents, shown[0]]


def _identical() -> tuple[str, list[str]]:
    document = Texts().document(950)
    return _PROMPT.format(context="\n\n".join([document] * 8)), [document] * 400


INPUTS: dict[str, Callable[[], tuple[str, list[str]]]] = {
    "1 MB of prompt, 500 documents": lambda: retrieval(1_000_000, 500),
    "100 KB of prompt, 50 documents": lambda: retrieval(100_000, 50),
    "'a ' x 7,900, 500 documents 'a'": lambda: ("a " * 7_900, ["a"] * 500),
    "'a ' x 7,900, 100 documents 'a'": lambda: ("a " * 7_900, ["a"] * 100),
    "'a ' x 7,900, 'a' to 'a ' x 500": lambda: ("a " * 7_900, ["a " * n for n in range(1, 501)]),
    "a near-equal document of 32 KB": lambda: _near_equal(32_000),
    "a near-equal document of 10 KB": lambda: _near_equal(10_000),
    "a near-equal document of 1 MB": lambda: _near_equal(1_000_000),
    "999 absent documents of 950 characters": _absent,
    "400 identical documents": _identical,
    "200 KB of quotation marks": lambda: ('"' * 200_000, ['"' * 199_990]),
    "200 KB of quotations": lambda: ('"A. b" ' * 30_000, ['"A. b" ' * 29_999]),
}


@dataclass(frozen=True)
class Measured:
    seconds: float
    megabytes: float
    pairs: int


def _measured(work: Callable[[], int]) -> Measured:
    """The peak of memory is Linux's, which writing 5 to clear_refs sets back."""
    Path("/proc/self/clear_refs").write_text("5")
    before = _peak()
    begin = time.process_time()
    pairs = work()
    return Measured(time.process_time() - begin, _peak() - before, pairs)


def _peak() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) / 1_000


def locating(name: str) -> Measured:
    prompt, documents = INPUTS[name]()
    text = TokenizedText((), prompt, ())

    def run() -> int:
        with suppress(DocumentsNotLocated):
            locate_context(text, documents, ContextOptions())
        return 0

    measured = _measured(run)
    work = Work()
    locate_documents(prompt, dict.fromkeys(documents), threshold=0.9, work=work)
    return Measured(measured.seconds, measured.megabytes, work.pairs)


def splitting(text: str) -> Measured:
    return _measured(lambda: len(split_spans(text, sentences)) * 0)


def decoding(length: int) -> Measured:
    language_model = load_model()
    ids = language_model.encode("\ufffd" * length)
    TokenizedText.of(ids[:10], language_model)
    return _measured(lambda: len(TokenizedText.of(ids, language_model).ids) * 0)


def _cases() -> Iterator[tuple[str, Callable[[], Measured]]]:
    for name in INPUTS:
        yield name, partial(locating, name)
    for mark in ('"', "'", "“", "(", ".", "!", "* ", "a. ", '" '):
        yield f"splitting {mark!r} up to 200 KB", partial(splitting, mark * (200_000 // len(mark)))
    for length in (2_000, 4_000, 8_000):
        yield f"decoding U+FFFD x {length:,}", partial(decoding, length)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="inputs whose name contains this")
    only = parser.parse_args().only
    print("| input | seconds | MB | pairs |\n|---|--:|--:|--:|")
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for name, case in _cases():
            if only in name:
                one = pool.apply(case)
                row = f"| {name} | {one.seconds:.2f} | {one.megabytes:.0f} | {one.pairs:,} |"
                print(row, flush=True)


if __name__ == "__main__":
    main()
