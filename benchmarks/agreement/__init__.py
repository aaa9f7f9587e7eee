"""What a reader cites for a model's answers, compared with what caused them."""
