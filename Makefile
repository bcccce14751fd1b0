# Everything calls `setup`, which builds .venv with every extra. `make test` is what the gate runs.
PYTHON ?= python3.11
BIN := .venv/bin
READY := .venv/.ready

.PHONY: setup system demo test check bench prove docs clean

setup: $(READY)

$(READY): pyproject.toml
	@echo "== building .venv (the CPU build of torch first, so that nothing pulls another)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet --editable '.[exact,torch,jax,keras,cluster,sign,onnx,report,dev]'
	@touch $@

system:
	@sh tools/system.sh

demo: setup
	@$(BIN)/python examples/demo.py

test: setup system check
	$(BIN)/python -m pytest -n 2

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup
	@for script in bench/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

prove: setup system
	$(MAKE) -C proofs

docs: setup
	$(BIN)/python tools/docs.py
	$(BIN)/python proofs/matrix.py

clean:
	rm -rf .venv out
