"""Puts the element's script into the wheel as one file, which a page without Python can serve."""

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_SCRIPT = "attribot_rag/display/script.py"
_FOLDER = "attribot_rag/display/html"


class ScriptFile(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        script = runpy.run_path(str(Path(self.root, _SCRIPT)))["element_script"]()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(script, encoding="utf-8")
        build_data["force_include"][str(self._path)] = f"{_FOLDER}/{self._path.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        self._path.unlink()  # the folder is for what is uploaded

    @property
    def _path(self) -> Path:
        return Path(self.directory, "attribot-answer.js")
