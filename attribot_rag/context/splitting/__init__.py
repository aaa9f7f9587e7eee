"""Cuts texts into sentences and blocks."""
