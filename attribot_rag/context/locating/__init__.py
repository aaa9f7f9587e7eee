"""Documents found in the prompt that the model saw, whatever form they have there."""
