"""The AttriBoT paper's experiment on any model and data file. Needs the group `experiment`."""
