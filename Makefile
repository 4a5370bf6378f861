# Everything from a bare clone: `make demo` to see it work, `make test` to check it.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: demo test format lint types unit bench clean

demo: $(VENV)/installed
	$(BIN)/manyheads demo

test: format lint types unit

format: $(VENV)/installed
	$(BIN)/ruff format --check .

lint: $(VENV)/installed
	$(BIN)/ruff check .

types: $(VENV)/installed
	$(BIN)/mypy

unit: $(VENV)/installed
	$(BIN)/pytest -n 2

bench: $(VENV)/installed
	$(BIN)/python bench/attention.py

$(VENV)/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "manyheads needs Python 3.11 or newer: make PYTHON=python3.12"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache
