"""Models in the store of a local Ollama: a manifest for each name, and blobs."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from attribot_rag.errors import InvalidInput
from attribot_rag.model.gguf import is_gguf

PREFIX = "ollama:"
ORIGINAL = "load the Hugging Face model that it was made of, by its id or the path of its folder"
SERVICE = Path("/usr/share/ollama/.ollama/models")  # of the user that runs it as a service
_DEFAULTS = ("registry.ollama.ai", "library")  # host and namespace
_KIND = "application/vnd.ollama.image."
_MOST_NAMED = 20


@dataclass(frozen=True)
class OllamaModel:
    """A model's GGUF file, and what Ollama puts before the messages of a prompt.

    `system` comes first unless they begin with a system message, then `examples`.
    """

    weights: Path
    system: str
    examples: Sequence[Mapping[str, str]]

    @classmethod
    def of(cls, name: str) -> OllamaModel:
        """The model of 'ollama:NAME', for a name as `ollama run` takes it.

        Raises InvalidInput if it is not there, or is more or less than one GGUF file.
        """
        layers = _layers(name, _manifest(name))
        if unread := [kind for kind in ("adapter", "projector") if layers[kind]]:
            raise _refused(
                name, f"its {unread[0]} ({layers[unread[0]][0]}) is not read; {ORIGINAL}"
            )
        weights = layers["model"]
        if len(weights) != 1 or not is_gguf(weights[0]):
            raise _refused(
                name,
                "it is not one GGUF file here: it runs in Ollama's cloud, or it has several parts "
                f"or another format; {ORIGINAL}",
            )
        return cls(
            weights[0],
            "".join(file.read_text("utf-8") for file in layers["system"]),
            [each for file in layers["messages"] for each in json.loads(file.read_text("utf-8"))],
        )

    def completed(self, template: str) -> str:
        """The chat template that also writes what Ollama puts before the messages."""
        system = [{"role": "system", "content": self.system}] if self.system else []
        examples = [{"role": each["role"], "content": each["content"]} for each in self.examples]
        if not system and not examples:
            return template
        return (
            f"{{% set messages = ({_literal(system)} if messages[0]['role'] != 'system' else [])"
            f" + {_literal(examples)} + messages | list %}}{template}"
        )


def _literal(messages: Sequence[Mapping[str, str]]) -> str:
    """The messages as a literal of Jinja's, which knows no pairs of surrogates."""
    return json.dumps(messages, ensure_ascii=False)


def _manifest(name: str) -> Path:
    """The file that says which blobs the model consists of."""
    own = os.environ.get("OLLAMA_MODELS")
    looked_in = [Path(own)] if own else [Path.home() / ".ollama" / "models", SERVICE]
    stores = [store for store in looked_in if os.access(store / "manifests", os.R_OK | os.X_OK)]
    if not stores:
        raise _refused(
            name,
            f"there is no store of Ollama that can be read in {' or '.join(map(str, looked_in))}; "
            "set OLLAMA_MODELS to the folder that has its manifests and blobs, and let this user "
            "read it",
        )
    found: dict[str, Path] = {}
    for store in stores:
        for file in sorted(store.glob("manifests/*/*/*/*")):
            found.setdefault("/".join(file.parts[-4:-1]) + f":{file.name}", file)
    wanted = _full_name(name.removeprefix(PREFIX)).casefold()
    for full, file in found.items():
        if full.casefold() == wanted:
            return file
    names = [
        full.removeprefix(f"{_DEFAULTS[0]}/").removeprefix(f"{_DEFAULTS[1]}/") for full in found
    ]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    raise _refused(
        name,
        f"Ollama has {', '.join(names[:_MOST_NAMED]) or 'no model'}{more} in "
        f"{' and '.join(map(str, stores))}; pass one of these with its tag, pull the model, or set "
        "OLLAMA_MODELS to another store",
    )


def _full_name(name: str) -> str:
    """Host, namespace, model and tag, of which a name may leave out all but the model."""
    path, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:  # the colon before a host's port
        path, tag = name, "latest"
    missing = max(0, len(_DEFAULTS) - path.count("/"))
    return "/".join([*_DEFAULTS[:missing], path]) + f":{tag}"


def _layers(name: str, manifest: Path) -> Mapping[str, list[Path]]:
    """The blobs of each kind of layer; raises InvalidInput if one cannot be read as a whole."""
    again = f"let this user read it, or pull it again: ollama pull {name.removeprefix(PREFIX)}"
    try:
        described = [
            (
                layer["mediaType"].removeprefix(_KIND),
                layer["digest"].replace(":", "-"),
                layer["size"],
            )
            for layer in json.loads(manifest.read_bytes())["layers"]
        ]
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise _refused(
            name, f"its manifest {manifest} cannot be read ({error!r}); {again}"
        ) from error
    layers: dict[str, list[Path]] = defaultdict(list)
    for kind, digest, size in described:
        blob = manifest.parents[4] / "blobs" / digest
        if not os.access(blob, os.R_OK) or blob.stat().st_size != size:
            raise _refused(name, f"its {kind}, {blob}, cannot be read as a whole; {again}")
        layers[kind].append(blob)
    return layers


def _refused(name: str, reason: str) -> InvalidInput:
    return InvalidInput(f"the model {name!r} cannot be loaded: {reason}")
