"""`python -m attribot_rag` is the command `attribot-rag`."""

import sys

from attribot_rag.cli import main

sys.exit(main())
