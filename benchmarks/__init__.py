"""Programs that measure what the documents say; some use the tests' models and cases."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
