"""Models of a store in Ollama's layout, by Ollama's names."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from support.gguf_files import write_gguf
from support.ollama_store import CHATML, add_model
from support.tiny_models import byte_level

from attribot_rag import Attributor, LeaveOneOut, LocalModel, load_model
from attribot_rag.errors import InvalidInput
from attribot_rag.model import loading

LIBRARY = "registry.ollama.ai/library"
PARAMETERS = json.dumps({"stop": ["<|im_end|>"], "temperature": 0.2})
QUESTION = [{"role": "user", "content": "Who signed it?"}]


@pytest.fixture(scope="session")
def tiny_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf", byte_level())


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("converted")


@pytest.fixture(autouse=True)
def store(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ATTRIBOT_RAG_CACHE", str(cache))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(loading, "OLLAMA_SERVICE", tmp_path / "service")
    monkeypatch.delenv("OLLAMA_MODELS", raising=False)
    return tmp_path / "home" / ".ollama" / "models"


def layers(weights: Path, **more: Path | bytes | str) -> dict[str, Path | bytes | str]:
    return {"model": weights, "template": CHATML, "params": PARAMETERS, "license": "MIT", **more}


def rendered(model: LocalModel, messages: Any) -> str:
    return model.decode(model.encode_prompt(messages))


@pytest.mark.parametrize(
    ("stored", "name"),
    [
        (f"{LIBRARY}/treaty:latest", "treaty"),
        (f"{LIBRARY}/treaty:1b", "treaty:1b"),
        (f"{LIBRARY}/treaty3.2:1b-q4_K_M", "library/treaty3.2:1b-q4_K_M"),
        ("registry.ollama.ai/ann/treaty:latest", "ann/treaty"),
        ("hf.co/Ann/Treaty-GGUF:Q4_K_M", "hf.co/ann/treaty-gguf:q4_k_m"),
        ("127.0.0.1:5000/ann/treaty:latest", "127.0.0.1:5000/ann/treaty"),
    ],
)
def test_a_name_is_what_ollama_takes(stored: str, name: str, store: Path, tiny_gguf: Path) -> None:
    add_model(store, f"{LIBRARY}/other:latest", {"model": b"GGUF, but no more"})
    add_model(store, stored, layers(tiny_gguf))
    loaded = load_model(f"ollama:{name}", device="cpu")
    assert loaded.name == f"ollama:{name}"
    ids = torch.tensor([loaded.encode("The treaty was signed in 1648.")])
    with torch.no_grad():
        assert torch.equal(loaded.model(ids).logits, byte_level().model(ids).logits)


def test_a_store_is_the_users_or_the_services_or_another(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, name in ((store, "mine"), (tmp_path / "service", "ours"), (tmp_path, "other")):
        add_model(folder, f"{LIBRARY}/{name}:latest", {"model": b"in another format"})
    for name in ("mine", "ours"):
        with pytest.raises(InvalidInput, match="one GGUF file"):
            load_model(f"ollama:{name}", device="cpu")
    with pytest.raises(InvalidInput, match=r"has mine:latest, ours:latest in"):
        load_model("ollama:other", device="cpu")
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path))
    with pytest.raises(InvalidInput, match=r"has other:latest in"):
        load_model("ollama:mine", device="cpu")


@pytest.mark.parametrize("system", ["", 'Say "yes" {{ or }} {% no %}\\n.\n\nBe brief, Zoë 🙂.'])
@pytest.mark.parametrize("examples", [[], [("user", "Is it {old}?"), ("assistant", "It's old.")]])
def test_the_prompt_begins_as_ollama_begins_it(
    system: str, examples: list[tuple[str, str]], store: Path, tiny_gguf: Path
) -> None:
    before = [{"role": role, "content": content} for role, content in examples]
    more = {"system": system} if system else {}
    if before:
        more["messages"] = json.dumps(before)
    add_model(store, f"{LIBRARY}/treaty:latest", layers(tiny_gguf, **more))
    loaded, plain = load_model("ollama:treaty", device="cpu"), load_model(str(tiny_gguf))
    first = [{"role": "system", "content": system}] if system else []
    assert rendered(loaded, QUESTION) == rendered(plain, [*first, *before, *QUESTION])
    own = [{"role": "system", "content": "Be long."}, *QUESTION]
    assert rendered(loaded, own) == rendered(plain, [*before, *own])


def test_an_answer_is_attributed_and_said_to_be_of_another_arithmetic(
    store: Path, tiny_gguf: Path
) -> None:
    add_model(store, f"{LIBRARY}/treaty:latest", layers(tiny_gguf, system="Be brief."))
    document = "The treaty was signed in the old town hall. The harbour had been closed."
    messages = [{"role": "user", "content": f"{document}\n\nWhere was it signed?"}]

    def attribution(model: LocalModel, prompt: Any) -> Any:
        attributor = Attributor(model, method=LeaveOneOut(), verdicts=None, progress=False)
        return attributor.attribute(prompt, "In the town hall.", [document])

    made = attribution(load_model("ollama:treaty", device="cpu"), messages)
    prompt = [{"role": "system", "content": "Be brief."}, *messages]
    assert made.token_scores == attribution(byte_level(), prompt).token_scores
    assert made.provenance.model == "ollama:treaty" and made.provenance.retokenized
    assert any("quantized" in note and "Ollama" in note for note in made.notes)
    assert not any("quantized" in note for note in attribution(byte_level(), prompt).notes)


class TestRefusals:
    def refused(self, name: str, *told: str) -> None:
        with pytest.raises(InvalidInput) as error:
            load_model(f"ollama:{name}", device="cpu")
        message = str(error.value)
        for text in (f"'ollama:{name}' cannot be loaded", *told):
            assert text in message

    def test_without_a_store(
        self, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.refused("treaty", str(store), str(tmp_path / "service"), "OLLAMA_MODELS")
        monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "mine"))
        self.refused("treaty:1b", str(tmp_path / "mine"), "OLLAMA_MODELS")

    @pytest.mark.parametrize("name", ["treaty", "treaty:7b", "ann/treaty:1b", "../treaty:1b", ""])
    def test_a_name_that_is_not_there(self, name: str, store: Path) -> None:
        for stored in (f"{LIBRARY}/treaty:1b", "hf.co/ann/seals:Q8_0", f"{LIBRARY}/river:latest"):
            add_model(store, stored, {"model": b"GGUF"})
        self.refused(name, "hf.co/ann/seals:Q8_0, river:latest, treaty:1b", str(store), "pull")

    @pytest.mark.parametrize("kind", ["model", "system", "license"])
    @pytest.mark.parametrize("cut", [False, True])
    def test_what_was_pulled_in_part(
        self, kind: str, cut: bool, store: Path, tiny_gguf: Path
    ) -> None:
        # The weights are a copy, which may be cut.
        content = layers(tiny_gguf) | {"model": tiny_gguf.read_bytes(), "system": "Be brief."}
        manifest = add_model(store, f"{LIBRARY}/treaty:latest", content)
        (layer,) = (
            layer
            for layer in json.loads(manifest.read_text())["layers"]
            if layer["mediaType"].endswith(f".{kind}")
        )
        blob = store / "blobs" / layer["digest"].replace(":", "-")
        if cut:
            blob.write_bytes(blob.read_bytes()[:-1])
        else:
            blob.unlink()
        self.refused("treaty", kind, str(blob), "ollama pull treaty")

    @pytest.mark.parametrize("text", ["", "[]", '{"layers": [{}]}', '{"layers": 3}', '{"a": 1}'])
    def test_a_manifest_that_is_none(self, text: str, store: Path) -> None:
        manifest = add_model(store, f"{LIBRARY}/treaty:latest", {})
        manifest.write_text(text)
        self.refused("treaty", str(manifest), "ollama pull treaty")

    @pytest.mark.parametrize("kind", ["adapter", "projector"])
    def test_weights_that_are_not_read(self, kind: str, store: Path, tiny_gguf: Path) -> None:
        add_model(store, f"{LIBRARY}/treaty:latest", layers(tiny_gguf, **{kind: b"GGUF more"}))
        self.refused("treaty", f"its {kind} ", "is not read", "Hugging Face")

    @pytest.mark.parametrize(
        "content",
        [{}, {"tensor": b"0123"}, {"model": b"safetensors"}, {"license": "none"}],
    )
    def test_other_weights_than_one_file(
        self, content: dict[str, bytes | str], store: Path
    ) -> None:
        add_model(store, f"{LIBRARY}/treaty:latest", content)
        self.refused("treaty", "one GGUF file", "Hugging Face")
