"""Attention in which each token of a packed row sees what its row sees."""
