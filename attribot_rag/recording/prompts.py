"""Prompts as text, by which an answer is tied to the generation that gave it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from attribot_rag.model.language_model import LanguageModel


class RecordedPrompt:
    """The ids of a prompt, decoded when its text is first asked for."""

    def __init__(self, prompt_ids: Sequence[int], language_model: LanguageModel) -> None:
        self._prompt_ids = prompt_ids
        self._language_model = language_model

    @cached_property
    def texts(self) -> tuple[str, str]:
        """The prompt with its special tokens and without them."""
        ids, decode = self._prompt_ids, self._language_model.decode
        return decode(ids), decode(ids, skip_special_tokens=True)

    @cached_property
    def _bare(self) -> tuple[str, ...]:
        return tuple(without_bos(text, self._language_model) for text in self.texts)

    def equals(self, prompt: str) -> bool:
        """Whether this is the whole prompt, with or without its special tokens."""
        return without_bos(prompt, self._language_model) in self._bare

    def fits(self, prompt: str | None, contains: Sequence[str]) -> bool:
        """Whether it equals `prompt`, unless that is None, and contains all these texts.

        A prompt of embeddings may have been any prompt.
        """
        if not self._prompt_ids:
            return True
        if prompt is not None and not self.equals(prompt):
            return False
        return all(text.strip() in self.texts[0] for text in contains)


def without_bos(prompt: str, language_model: LanguageModel) -> str:
    """A prompt without the BOS before it, which is there once, twice or not at all."""
    bos = language_model.tokenizer.bos_token
    prompt = prompt.strip()
    while bos and prompt.startswith(bos):
        prompt = prompt[len(bos) :].strip()
    return prompt
