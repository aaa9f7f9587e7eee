"""The data sets from the Hugging Face hub, converted to their public formats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from attribot_rag.errors import InvalidInput

Row = Mapping[str, Any]


def hotpotqa_rows(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """From rows of `hotpotqa/hotpot_qa`, whose lists of pairs are pairs of lists."""
    return [
        {
            "_id": row["id"],
            "question": row["question"],
            "supporting_facts": _pairs(row["supporting_facts"], "title", "sent_id"),
            "context": _pairs(row["context"], "title", "sentences"),
        }
        for row in rows
    ]


def squad_rows(rows: Iterable[Row]) -> dict[str, Any]:
    """From rows of `rajpurkar/squad_v2`: a row for each question, in the order of the articles."""
    articles: dict[str, dict[str, list[Any]]] = {}
    for row in rows:
        starts = _pairs(row["answers"], "text", "answer_start")
        question = {
            "id": row["id"],
            "question": row["question"],
            "is_impossible": not starts,
            "answers": [{"text": text, "answer_start": start} for text, start in starts],
        }
        articles.setdefault(row["title"], {}).setdefault(row["context"], []).append(question)
    return {
        "data": [
            {
                "title": title,
                "paragraphs": [{"context": text, "qas": held} for text, held in paragraphs.items()],
            }
            for title, paragraphs in articles.items()
        ]
    }


def qasper_rows(rows: Iterable[Row]) -> dict[str, Any]:
    """From rows of `allenai/qasper`."""
    return {
        row["id"]: {
            "full_text": [
                {"section_name": name, "paragraphs": paragraphs}
                for name, paragraphs in _pairs(row["full_text"], "section_name", "paragraphs")
            ],
            "qas": [
                {
                    "question_id": name,
                    "question": question,
                    "answers": [{"answer": answer} for answer in answers["answer"]],
                }
                for name, question, answers in zip(
                    *(row["qas"][key] for key in ("question_id", "question", "answers")),
                    strict=True,
                )
            ],
        }
        for row in rows
    }


class Published(NamedTuple):
    """A split on the hub, and the conversion of its rows to the public format."""

    path: tuple[str, ...]
    split: str
    convert: Callable[[Iterable[Row]], Any]
    revision: str | None = None


HUB = {
    "hotpotqa": Published(("hotpotqa/hotpot_qa", "distractor"), "validation", hotpotqa_rows),
    "squad": Published(("rajpurkar/squad_v2",), "validation", squad_rows),
    # its main revision is a script, which `datasets` no longer runs
    "qasper": Published(("allenai/qasper",), "train", qasper_rows, "refs/convert/parquet"),
}


def from_hub(name: str) -> Any:
    """The split of the AttriBoT paper in its public format, downloaded by the package `datasets`.

    Raises InvalidInput if that is not installed, or the hub cannot be reached.
    """
    try:
        import datasets
    except ImportError as error:
        raise InvalidInput(f"--{name} hub needs the package: pip install datasets") from error
    published = HUB[name]
    try:
        rows = datasets.load_dataset(
            *published.path, split=published.split, revision=published.revision
        )
    except (OSError, RuntimeError, ValueError) as error:
        raise InvalidInput(
            f"{'/'.join(published.path)} cannot be downloaded from the hub ({error}); "
            "download the file and pass it"
        ) from error
    return published.convert(rows)


def _pairs(lists: Row, first: str, second: str) -> list[tuple[Any, Any]]:
    return list(zip(lists[first], lists[second], strict=True))
