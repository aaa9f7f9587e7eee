"""The model's own answers to held-out questions, with their citations judged by plain prompts."""
