PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

.PHONY: .venv demo test test-all check bench clean

.venv: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --constraint constraints.txt --editable '.[all,dev]'
	touch $@

demo: $(INSTALLED)
	$(BIN)/treet demo

test: $(INSTALLED)
	$(BIN)/pytest

test-all: $(INSTALLED)
	$(BIN)/pytest -m ''

check: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest tests/test_imports.py

bench: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[bench]'
	$(BIN)/python benchmarks/run.py

# .venv stays: delete it by hand for a fresh one.
clean:
	rm -rf build dist treet-demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -path ./.venv -prune -o -name __pycache__ -prune -exec rm -rf {} +
