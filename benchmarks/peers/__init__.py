"""Other attribution libraries on the same answers, judged by exact leave-one-out."""
