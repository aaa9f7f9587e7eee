import json
import pickle
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from support.attributions import attribution
from support.schemas import SCHEMA
from support.scripted_generation import ANSWER, DOCUMENTS, rendered
from support.strategies import attributions
from support.tiny_models import byte_level

from attribot_rag import Attribution, Attributor, Document
from attribot_rag.attribution import SCHEMA_VERSION, attribution_schema, summary_schema
from attribot_rag.errors import SchemaError

ROOT = Path(__file__).parents[2]
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def test_the_published_schemas_are_those_of_the_types() -> None:
    """`python docs/make_schemas.py` writes them again."""
    for name, schema in (("attribution", attribution_schema()), ("summary", summary_schema())):
        published = ROOT / "docs" / "schemas" / f"{name}.json"
        text = json.dumps(schema, ensure_ascii=False, indent=2)
        assert published.read_text("utf-8") == f"{text}\n"


@given(attributions())
def test_json_and_pickle_give_the_same_attribution_again(result: Attribution) -> None:
    data = result.to_dict()
    VALIDATOR.validate(data)
    assert json.loads(result.to_json()) == data
    for copy in (
        Attribution.from_dict(data),
        Attribution.from_json(result.to_json()),
        Attribution.from_json(result.to_json(indent=2)),
        pickle.loads(pickle.dumps(result)),
    ):
        assert type(copy) is Attribution
        assert copy == result
        assert copy.to_cited_text() == result.to_cited_text()


@pytest.mark.parametrize("method", ["auto", "hierarchical", "masked_hierarchical"])
def test_a_real_attribution_follows_the_schema(method: str) -> None:
    documents: list[str | Document] = [
        *(Document(DOCUMENTS[0], "a", {"page": 3}), *DOCUMENTS[1:], "Penguins swim.")
    ]
    attributor = Attributor(byte_level(), method=method, progress=False)
    result = attributor.attribute(rendered(byte_level()), ANSWER, documents)
    assert bool(result.groups) == (method != "auto")
    VALIDATOR.validate(result.to_dict())
    VALIDATOR.validate(json.loads(result.to_json()))
    assert Attribution.from_json(result.to_json()) == result
    assert result.to_dict()["schema_version"] == SCHEMA_VERSION
    assert result.to_dict()["not_located"] == [3]


def test_an_attribution_of_the_first_schema_is_read() -> None:
    """Fields that a minor version added have a value when they are not there."""
    data = attribution("ab", [[1, 2]]).to_dict()
    for name in ("groups", "context_reliance", "incomplete", "verdicts", "markers"):
        del data[name]
    for name in ("proxy_tokens", "flops", "naive_tokens"):
        del data["provenance"][name]
    data["schema_version"] = "1.0"
    VALIDATOR.validate(data)
    assert Attribution.from_dict(data) == attribution("ab", [[1, 2]])


def test_metadata_of_types_unknown_to_json_become_text() -> None:
    class Loader:
        def __str__(self) -> str:
            return "the loader"

    metadata: dict[Any, Any] = {
        "score": np.float32(0.5),
        "missing": float("nan"),
        "by": Loader(),
        "tags": ("x", "y"),
        "nested": {"vector": [np.float64(1.5)], ("a", 1): True},
        3: None,
    }
    result = attribution("ab", [[1, 2]], documents=1)
    result = Attribution(**{**vars(result), "documents": (Document("A fact.", "a", metadata),)})
    data = result.to_dict()
    VALIDATOR.validate(data)
    assert data["documents"][0]["metadata"] == {
        "score": 0.5,
        "missing": "nan",
        "by": "the loader",
        "tags": ["x", "y"],
        "nested": {"vector": [1.5], "('a', 1)": True},
        "3": None,
    }
    assert json.loads(result.to_json()) == data
    assert Attribution.from_dict(data).to_dict() == data


def changed(**fields: Any) -> dict[str, Any]:
    return {**attribution("ab", [[1, 2]]).to_dict(), **fields}


def verdict(**fields: Any) -> dict[str, Any]:
    return {
        **{"start": 0, "end": 1, "kind": "grounded", "source_ids": [0], "relation": "each"},
        **{"effect": 1.0, "reliance": None, "follows": None, **fields},
    }


@pytest.mark.parametrize("version", ["2.0", "one"])
def test_another_major_version_is_refused(version: str) -> None:
    with pytest.raises(SchemaError, match=f"schema_version is '{version}'; this release reads 1.x"):
        Attribution.from_dict(changed(schema_version=version))
    assert Attribution.from_dict(changed(schema_version="1.7")) == attribution("ab", [[1, 2]])


def test_a_missing_field_is_named() -> None:
    for name in {*SCHEMA["required"]} - {"schema_version"}:
        data = changed()
        del data[name]
        with pytest.raises(jsonschema.ValidationError):
            VALIDATOR.validate(data)
        with pytest.raises(SchemaError, match=f"'{name}' is missing"):
            Attribution.from_dict(data)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"response": 3}, "'response'"),
        ({"token_spans": [[0, "b"]]}, r"'token_spans\.0\.1'"),
        ({"documents": [{"id": "a"}]}, r"'documents\.0\.text' is missing"),
        ({"sources": [{"id": 0, "text": "a"}]}, ""),
        ({"verdicts": [verdict(kind="certain")]}, r"'verdicts\.0\.kind'.*'grounded'"),
        ({"provenance": {**changed()["provenance"], "speed": 3}}, r"'provenance\.speed'"),
    ],
)
def test_a_field_of_a_wrong_kind_is_named(fields: dict[str, Any], named: str) -> None:
    data = changed(**fields)
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(data)
    with pytest.raises(SchemaError, match=f"the field {named}" if named else None):
        Attribution.from_dict(data)


@pytest.mark.parametrize(
    "fields",
    [
        {"exact": []},
        {"token_scores": [[1.0]]},
        {"not_located": [9]},
        {"groups": [{"source_ids": [0], "token_scores": [1.0], "exact": True}]},
        {"verdicts": [verdict(end=3)]},
        {"markers": [{"start": 0, "end": 1, "number": 1, "document": 9, "supported": None}]},
    ],
)
def test_fields_that_do_not_fit_together_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(SchemaError, match="do not fit the other fields"):
        Attribution.from_dict(changed(**fields))


def test_json_of_no_object_is_refused() -> None:
    for text in ("", "{", "not json"):
        with pytest.raises(SchemaError, match="this is not JSON"):
            Attribution.from_json(text)
    data: Any
    for data in ([], "a", 3, None):
        with pytest.raises(SchemaError, match="an attribution is an object"):
            Attribution.from_dict(data)
        with pytest.raises(SchemaError, match="an attribution is an object"):
            Attribution.from_json(json.dumps(data))
