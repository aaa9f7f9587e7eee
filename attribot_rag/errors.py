"""All errors that attribot-rag raises on purpose."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from importlib.util import find_spec


class AttributionError(Exception):
    """The base of all errors of this package. Its message names the value and the fix."""


class InvalidInput(AttributionError, ValueError):
    """A prompt, response, document or option that cannot be attributed."""


class UnknownOption(InvalidInput):
    """An option that does not exist. The message lists the options that do."""

    @classmethod
    def check(cls, owner: str, names: Iterable[str], options: Iterable[str]) -> None:
        """Raises UnknownOption for the first name that is no option of the owner."""
        options = sorted(options)
        for name in names:
            if name not in options:
                close = get_close_matches(name, options, 1)
                meant = f"; did you mean {close[0]!r}?" if close else "."
                listed = ", ".join(options)
                raise cls(f"{owner} has no option {name!r}{meant} Its options: {listed}")


class MissingExtra(InvalidInput):
    """A package of an extra that is not installed."""

    @classmethod
    def check(cls, purpose: str, extra: str, *modules: str, folder: str = ".") -> None:
        """Raises MissingExtra for modules of the extra that are not installed.

        The modules are top-level ones, and are not imported. `folder` is the folder, in a clone, of
        the package that has the extra.
        """
        missing = [module for module in modules if find_spec(module) is None]
        if missing:
            raise cls(f"{purpose} needs {', '.join(missing)}: {installing(extra, folder=folder)}")


def installing(*extras: str, folder: str = ".") -> str:
    """The command that installs extras, from a clone until there is a release."""
    return f"pip install '{folder}[{','.join(extras)}]' in a clone of attribot-rag"


class NoText(InvalidInput):
    """A file that has no text, or whose text cannot be read."""


class DocumentsNotLocated(InvalidInput):
    """The prompt that the model saw contains none of the documents."""


class ContextTooLong(InvalidInput):
    """Prompt and response together exceed the model's positions."""


class TokenizerMismatch(InvalidInput):
    """The tokenizer does not belong to the model."""


class UnknownRun(InvalidInput, KeyError):
    """An id of no run, or of a run that is not kept or was never attributed. This error is also a
    KeyError."""

    __str__ = Exception.__str__  # a KeyError shows its message in quotes


class UnsupportedModel(AttributionError):
    """The model's architecture does not allow the request."""


class ScoringFailed(AttributionError):
    """The model gave numbers that are no valid score."""


class ScoringOutOfMemory(AttributionError, MemoryError):
    """Even a single ablation does not fit into memory."""


class ServerFailed(AttributionError):
    """A server that did not answer, or broke its protocol."""


class Refused(ServerFailed):
    """A request that the server refuses, however often it is sent."""


class Rejected(Refused):
    """A request whose content the server refuses. Another request may succeed."""


class UnsupportedServer(AttributionError):
    """A server that gives no log-probabilities of a prompt."""


class NotRecorded(AttributionError):
    """An answer for which no generation of the model was recorded."""


class AttributionCancelled(AttributionError):
    """An attribution in the background that was cancelled before its turn."""


class QueueFull(AttributionError):
    """More answers wait for their attribution than `max_pending` allows."""


class SchemaError(AttributionError, ValueError):
    """A serialized attribution that does not follow the schema."""
