"""Ways to compute the log-likelihoods of rows, and the choice among them."""
