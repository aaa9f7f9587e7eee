"""`python -m attribot_rag.attribution FOLDER` writes the JSON schemas as files."""

import sys
from pathlib import Path

from attribot_rag.attribution.attribution import write_schemas

write_schemas(Path(sys.argv[1]))
