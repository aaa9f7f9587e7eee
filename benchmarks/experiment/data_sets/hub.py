"""The data sets from the Hugging Face hub, converted to their public formats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attribot_rag.errors import InvalidInput

Row = Mapping[str, Any]


def hotpotqa_rows(rows: Iterable[Row]) -> list[Row]:
    """From rows of `hotpotqa/hotpot_qa`, whose lists of pairs are pairs of lists."""
    return [
        {
            "_id": row["id"],
            "question": row["question"],
            "supporting_facts": list(zip(facts["title"], facts["sent_id"], strict=True)),
            "context": list(zip(context["title"], context["sentences"], strict=True)),
        }
        for row in rows
        for facts, context in [(row["supporting_facts"], row["context"])]
    ]


def squad_rows(rows: Iterable[Row]) -> Row:
    """From rows of `rajpurkar/squad_v2`: a row for each question, in the order of the articles."""
    articles: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        answers = _records(row["answers"])
        question = {**row, "answers": answers, "is_impossible": not answers}
        articles.setdefault(row["title"], {}).setdefault(row["context"], []).append(question)
    return {
        "data": [
            {
                "title": title,
                "paragraphs": [
                    {"context": text, "qas": questions} for text, questions in paragraphs.items()
                ],
            }
            for title, paragraphs in articles.items()
        ]
    }


def qasper_rows(rows: Iterable[Row]) -> Row:
    """From rows of `allenai/qasper`."""
    return {
        row["id"]: {
            "full_text": _records(row["full_text"]),
            "qas": [
                {**question, "answers": _records(question["answers"])}
                for question in _records(row["qas"])
            ],
        }
        for row in rows
    }


def _records(columns: Row) -> list[Row]:
    """A record for each place of the lists, which are of one length."""
    rows = zip(*columns.values(), strict=True)
    return [dict(zip(columns, values, strict=True)) for values in rows]


_Conversion = Callable[[Iterable[Row]], Any]

# The address of a data set, the part that is read, and the conversion of its rows.
_HUB: dict[str, tuple[tuple[str, ...], dict[str, str], _Conversion]] = {
    "hotpotqa": (("hotpotqa/hotpot_qa", "distractor"), {"split": "validation"}, hotpotqa_rows),
    "squad": (("rajpurkar/squad_v2",), {"split": "validation"}, squad_rows),
    "qasper": (
        ("allenai/qasper",),
        # its main revision is a script, which `datasets` no longer runs
        {"split": "train", "revision": "refs/convert/parquet"},
        qasper_rows,
    ),
}


def from_hub(name: str) -> Any:
    """The split of the AttriBoT paper in its public format, downloaded by the package `datasets`.

    Raises InvalidInput if that is not installed, or the hub cannot be reached.
    """
    try:
        import datasets
    except ImportError as error:
        raise InvalidInput(f"--{name} hub needs the package: pip install datasets") from error
    path, part, convert = _HUB[name]
    try:
        rows = datasets.load_dataset(*path, **part)
    except (OSError, RuntimeError, ValueError) as error:
        raise InvalidInput(
            f"{'/'.join(path)} cannot be downloaded from the hub ({error}); "
            "download the file and pass it"
        ) from error
    return convert(rows)
