"""Puts the element's script into the wheel as one file, which a page without Python can serve."""

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_FOLDER = "attribot_rag/display/html"


class ScriptFile(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        script = runpy.run_path(str(Path(self.root, _FOLDER, "script.py")))["element_script"]()
        path = Path(self.directory, "attribot-answer.js")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(script, encoding="utf-8")
        build_data["force_include"][str(path)] = f"{_FOLDER}/attribot-answer.js"
