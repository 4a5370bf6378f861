# Everything from a bare clone: `make demo` to see it work, `make test` to check it.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: demo test format lint types unit browser bench clean

demo: $(VENV)/package
	$(BIN)/manyheads demo

test: format lint
	@$(MAKE) --no-print-directory -j2 types unit

format: $(VENV)/tools
	$(BIN)/ruff format --check .

lint: $(VENV)/tools
	$(BIN)/ruff check .
	$(BIN)/python tests/counts.py

types: $(VENV)/tools
	$(BIN)/mypy

unit: $(VENV)/tools
	$(BIN)/pytest -n 2 --dist worksteal --ignore tests/browser

# The attention page in a real browser: apt-get install chromium, else these tests are skipped.
browser: $(VENV)/tools
	$(BIN)/pytest tests/browser -rs -s

bench: $(VENV)/package
	$(BIN)/python bench/attention.py

# Python compiles a module when it is first imported: to compile all of torch takes longer than to install it.
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt

$(VENV)/package: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "manyheads needs Python 3.11 or newer: make PYTHON=python3.12"; exit 2; }
	@echo "setting up $(VENV), once"
	@$(PYTHON) -m venv $(VENV)
	@$(INSTALL) -e .
	@touch $@

$(VENV)/tools: $(VENV)/package
	@$(INSTALL) -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache
