"""The services of several models, for integrations that learn of a model when it answers."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from transformers import PreTrainedModel

from attribot_rag.errors import InvalidInput
from attribot_rag.language_model import LanguageModel
from attribot_rag.methods import make_method
from attribot_rag.runtime.run_store import RunStore
from attribot_rag.runtime.service import AttributionService


class ServiceRegistry:
    """One service for each model, made when it is first asked for; all share one `store`.

    The services of the `max_models` models that were asked for last are kept, each with what was
    prepared for scoring. They record on demand only. `options` are those of AttributionService.
    """

    def __init__(self, store: RunStore, *, max_models: int = 4, **options: Any) -> None:
        if max_models < 1:
            raise InvalidInput(f"max_models={max_models!r}; use at least 1")
        self.store = store
        make_method(options.get("method", "auto"), options.get("proxy"), options.get("keep"))
        self._max_models = max_models
        self._options = options
        self._services: OrderedDict[PreTrainedModel, AttributionService] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._services)

    def service_for(self, language_model: LanguageModel) -> AttributionService:
        model = language_model.model
        with self._lock:
            if model not in self._services:
                self._services[model] = AttributionService(
                    language_model, store=self.store, record_always=False, **self._options
                )
            self._services.move_to_end(model)
            if len(self._services) > self._max_models:
                self._services.popitem(last=False)
            return self._services[model]

    def close(self) -> None:
        """Stop recording all models, and let go of what was prepared for them."""
        with self._lock:
            while self._services:
                self._services.popitem()[1].close()
