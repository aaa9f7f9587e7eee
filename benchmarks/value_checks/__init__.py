"""How often the checks of values are right, and how many altered values they miss."""
