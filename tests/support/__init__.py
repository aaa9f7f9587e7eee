"""Shared by tests: tiny models, attributions, processes and Hypothesis strategies."""
