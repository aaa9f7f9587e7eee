"""Locating documents in the prompt, whatever their form there."""
