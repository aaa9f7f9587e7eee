"""What tests share: tiny models, attributions, processes and Hypothesis strategies."""
