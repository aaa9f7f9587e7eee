"""attribot-rag: which retrieved text caused the answer of a retrieval-augmented chatbot.

This package has the names for everyday use. Results are described in `attribot_rag.attribution`,
errors in `attribot_rag.errors`, and recorded generations in `attribot_rag.recording`. Integrations
use `attribot_rag.runtime`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attribot_rag._lazy import lazily
from attribot_rag._version import __version__ as __version__

_NAMES = {
    ".attribution": ["Attribution"],
    ".attributor": ["Attributor", "AttributorOptions", "Options", "WordsReader"],
    ".context": ["ContextOptions", "Document"],
    ".errors": ["AttributionError"],
    ".methods": [
        *("Auto", "Hierarchical", "LeaveOneOut", "Masked", "Method", "Proxy", "Pruned", "Thorough")
    ],
    ".model": ["load_model"],
    ".model.language_model": ["LanguageModel"],
    ".model.local_model": ["LocalModel"],
    ".model.served_model": ["ServedModel"],
    ".model.server": ["ServerOptions"],
    ".scoring": ["Budget", "ScoringOptions"],
    ".verdicts": ["VerdictOptions"],
}

if TYPE_CHECKING:  # the same names, as type checkers read them
    from attribot_rag.attribution import Attribution as Attribution
    from attribot_rag.attributor import Attributor as Attributor
    from attribot_rag.attributor import AttributorOptions as AttributorOptions
    from attribot_rag.attributor import Options as Options
    from attribot_rag.attributor import WordsReader as WordsReader
    from attribot_rag.context import ContextOptions as ContextOptions
    from attribot_rag.context import Document as Document
    from attribot_rag.errors import AttributionError as AttributionError
    from attribot_rag.methods import Auto as Auto
    from attribot_rag.methods import Hierarchical as Hierarchical
    from attribot_rag.methods import LeaveOneOut as LeaveOneOut
    from attribot_rag.methods import Masked as Masked
    from attribot_rag.methods import Method as Method
    from attribot_rag.methods import Proxy as Proxy
    from attribot_rag.methods import Pruned as Pruned
    from attribot_rag.methods import Thorough as Thorough
    from attribot_rag.model import load_model as load_model
    from attribot_rag.model.language_model import LanguageModel as LanguageModel
    from attribot_rag.model.local_model import LocalModel as LocalModel
    from attribot_rag.model.served_model import ServedModel as ServedModel
    from attribot_rag.model.server import ServerOptions as ServerOptions
    from attribot_rag.scoring import Budget as Budget
    from attribot_rag.scoring import ScoringOptions as ScoringOptions
    from attribot_rag.verdicts import VerdictOptions as VerdictOptions
else:
    __getattr__, __dir__, __all__ = lazily(__name__, _NAMES)
    __all__ = ["__version__", *__all__]
