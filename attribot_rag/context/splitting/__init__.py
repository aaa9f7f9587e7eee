"""Splits texts into sentences and blocks."""
