"""Texts cut into sources: sentences, list items, rows, members of JSON."""
