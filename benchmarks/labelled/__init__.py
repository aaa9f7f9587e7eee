"""Answers whose causes are known because their facts are made up, and how they are judged."""
