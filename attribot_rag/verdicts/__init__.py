"""Decides which sources each sentence of an answer has, if any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attribot_rag._lazy import lazily

if TYPE_CHECKING:
    from attribot_rag.methods.limits import VerdictOptions as VerdictOptions
    from attribot_rag.verdicts.judging import Judgement as Judgement
    from attribot_rag.verdicts.judging import judge as judge
else:
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            "..methods.limits": ["VerdictOptions"],
            ".judging": ["Judgement", "judge"],
        },
    )
