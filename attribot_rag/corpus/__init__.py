"""Files of a folder as chunks of text, and their retrieval. Needs the extra `cli`."""
