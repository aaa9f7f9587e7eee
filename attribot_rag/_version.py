"""The version of the package, for its metadata and the provenance of results."""

__version__ = "0.1.0"
