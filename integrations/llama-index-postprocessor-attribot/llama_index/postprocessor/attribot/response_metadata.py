"""The attribution in a response's metadata."""

from __future__ import annotations

from typing import Any

KEY = "attribution"


class ResponseMetadata(dict[str, Any]):
    """A response's metadata, and its attribution under the key 'attribution'.

    LlamaIndex keeps the metadata of each node here, by the node's id, and people iterate over them:
    `[one["file_name"] for one in response.metadata.values()]`. So the attribution is found by its
    key, but is none of the items.
    """

    attribution: dict[str, Any] | None = None

    def __missing__(self, key: str) -> Any:
        if key == KEY and self.attribution is not None:
            return self.attribution
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or (key == KEY and self.attribution is not None)

    def __bool__(self) -> bool:
        return len(self) > 0 or self.attribution is not None

    def get(self, key: str, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    def copy(self) -> ResponseMetadata:
        copied = ResponseMetadata(self)
        copied.attribution = self.attribution
        return copied
