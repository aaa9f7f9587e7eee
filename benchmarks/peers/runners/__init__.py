"""Programs that run a peer each, in its own environment; `runner` is what they share."""
