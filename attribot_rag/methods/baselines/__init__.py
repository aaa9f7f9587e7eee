"""Baselines: other attribution methods, by their papers' definitions."""

from attribot_rag.methods.baselines.context_cite import ContextCite
from attribot_rag.methods.baselines.internals import AttentionWeights, GradientNorm
from attribot_rag.methods.baselines.similarity import Similarity

__all__ = ["AttentionWeights", "ContextCite", "GradientNorm", "Similarity"]
