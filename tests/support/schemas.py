"""Validators of what the package writes, after its schemas."""

import jsonschema

from attribot_rag.attribution import attribution_schema, summary_schema

SCHEMA = attribution_schema()
SUMMARY_SCHEMA = summary_schema()
SUMMARIES = jsonschema.Draft202012Validator(SUMMARY_SCHEMA)
