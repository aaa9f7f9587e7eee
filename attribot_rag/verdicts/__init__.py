"""What the scores allow to be said: which sources stand out."""
