"""Long answers: what attributing them costs, beside their first sentences alone."""
