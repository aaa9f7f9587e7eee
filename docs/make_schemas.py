"""`python docs/make_schemas.py` writes the JSON schemas of docs/schemas again."""

import json
from pathlib import Path

from attribot_rag.attribution import attribution_schema, summary_schema

FOLDER = Path(__file__).parent / "schemas"

for name, schema in (("attribution", attribution_schema()), ("summary", summary_schema())):
    text = json.dumps(schema, ensure_ascii=False, indent=2)
    (FOLDER / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")
