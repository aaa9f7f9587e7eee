"""How often a reader's support is what people found."""
