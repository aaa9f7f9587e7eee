"""The shares of right checks of values, and of altered values that they miss."""
