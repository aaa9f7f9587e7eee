# Setup that tasks share, to be sourced: they run in the repository, with what `make install` installs.
#
# VENV, PYTHON, WORKERS, TORCH_INDEX are those of the Makefile.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PIP_COMPILE=0 PIP_DISABLE_PIP_VERSION_CHECK=1 OMP_NUM_THREADS=1
PYTHON=${PYTHON:-python3}
VENV=${VENV:-.venv}
case $VENV in /*) BIN=$VENV/bin ;; *) BIN=$PWD/$VENV/bin ;; esac
WORKERS=${WORKERS:-2}
BATCH=integrations/attribot-batch
CHECKS=integrations/attribot-checks
SERVER=integrations/attribot-server
LANGCHAIN=integrations/langchain-attribot
LLAMA_INDEX=integrations/llama-index-postprocessor-attribot
spread=(-n "$WORKERS" --dist loadfile --no-loadscope-reorder)

tests() { "$BIN/pytest" "$@"; }

# PyTorch, first and alone into the environment of this Python, so that nothing else decides on its build.
torch() {
  local index=${TORCH_INDEX-$(.ci/torch-index)}
  "$1" -m pip install -qq "${@:2}" ${index:+--extra-index-url "$index"} torch
}

# Whether a folder is to be made: it is not complete, or older than one of these files.
outdated() {
  for file in "${@:2}"; do [ "$1/installed" -nt "$file" ] || return 0; done
  return 1
}

# Packages without their dependencies, which are there, into a folder that only one task's tests see.
beside() {
  outdated "$1" constraints.txt || return 0
  "$BIN/python" -m pip install -qq --constraint constraints.txt --no-deps --upgrade --target "$1" "${@:2}"
  touch "$1/installed"
}
