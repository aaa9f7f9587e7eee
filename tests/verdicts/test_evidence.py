"""Which sources stand out for a sentence, and how far scores are from others that are as good."""
