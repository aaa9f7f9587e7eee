"""Attention of packed rows, in which no token sees another row."""
