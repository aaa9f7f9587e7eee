"""Baselines: other attribution methods, by their papers' definitions."""

from benchmarks.experiment.baselines.context_cite import ContextCite
from benchmarks.experiment.baselines.internals import AttentionWeights, GradientNorm
from benchmarks.experiment.baselines.similarity import Similarity

__all__ = ["AttentionWeights", "ContextCite", "GradientNorm", "Similarity"]
