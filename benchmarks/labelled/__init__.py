"""A labelled set of answers about fictional facts, whose causes are known, and its report."""
