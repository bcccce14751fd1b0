# make setup builds .venv with every extra; every other target calls it.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready

.PHONY: setup demo test check bench prove docs clean system

setup: $(STAMP)

$(STAMP): pyproject.toml
	@echo "== building $(VENV) (Python packages; the CPU build of torch first, so that nothing pulls another)"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet torch==2.13.0
	$(BIN)/pip install --quiet --editable '.[exact,torch,jax,keras,cluster,sign,dev]'
	touch $@

# System packages that some checks use: the proof kernel, a browser, a memory checker, node for the peer.
system:
	@sh tools/system.sh

test: setup system
	$(BIN)/python -m pytest -n 2 -q

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:
	rm -rf $(VENV) out
