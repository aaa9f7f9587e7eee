"""Models in the layout of Ollama's store."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

KIND = "application/vnd.ollama.image."
CHATML = (
    "{{- range .Messages }}<|im_start|>{{ .Role }}\n{{ .Content }}<|im_end|>\n{{ end }}"
    "<|im_start|>assistant\n"
)


def add_model(store: Path, name: str, layers: Mapping[str, Path | bytes | str]) -> Path:
    """Add 'host/namespace/model:tag', with a layer for each kind; returns the manifest.

    Files become blobs as hard links.
    """
    blobs = store / "blobs"
    blobs.mkdir(parents=True, exist_ok=True)
    described = []
    for kind, content in layers.items():
        data = content.encode() if isinstance(content, str) else content
        data = data.read_bytes() if isinstance(data, Path) else data
        digest = hashlib.sha256(data).hexdigest()
        blob = blobs / f"sha256-{digest}"
        if not blob.exists():
            if isinstance(content, Path):
                _link(content, blob)
            else:
                blob.write_bytes(data)
        media_type = kind if "/" in kind else KIND + kind
        described.append({"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)})
    path, _, tag = name.rpartition(":")
    manifest = store / "manifests" / path / tag
    manifest.parent.mkdir(parents=True, exist_ok=True)
    manifest.write_text(json.dumps({"schemaVersion": 2, "layers": described}), "utf-8")
    return manifest


def _link(file: Path, blob: Path) -> None:
    try:
        os.link(file, blob)
    except OSError:  # on another device
        blob.write_bytes(file.read_bytes())
