"""Makes an `Attribution` of a prompt, an answer and its documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attribot_rag._lazy import lazily

if TYPE_CHECKING:
    from attribot_rag.attributor.attributor import Attributor as Attributor
    from attribot_rag.attributor.options import AttributorOptions as AttributorOptions
    from attribot_rag.attributor.options import Options as Options
    from attribot_rag.attributor.prompts import rag_prompt as rag_prompt
    from attribot_rag.attributor.words_reader import WordsReader as WordsReader
    from attribot_rag.context.document import Documents as Documents
else:
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            ".attributor": ["Attributor"],
            ".options": ["AttributorOptions", "Options"],
            ".prompts": ["rag_prompt"],
            ".words_reader": ["WordsReader"],
            "..context.document": ["Documents"],
        },
    )
