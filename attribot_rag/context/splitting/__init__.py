"""Splits texts into sentences and blocks: public evaluations import `splitter` from here."""
