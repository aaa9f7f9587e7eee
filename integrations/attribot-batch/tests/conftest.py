import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest
from support.browser import chromium as chromium
from support.browser import new_page as new_page
from support.deprecations import no_deprecations as no_deprecations
from support.marks import mark
from support.patience import pytest_configure as pytest_configure
from support.session_models import tiny_model as tiny_model


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark(items)
