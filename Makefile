PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin
FAST    = "not (process or train or docs or fuzz or scale or wheel or browser or java or gpu)"

.PHONY: default demo test test-all check lint types docs clients wheel clean
default: test lint types

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --editable .
	touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --editable ".[test]"
	touch $@ $(VENV)/.installed

demo: $(VENV)/.installed
	$(BIN)/telerank demo

test: $(VENV)/.test  # the fast tests
	$(BIN)/pytest -n 2 -m $(FAST) $(PYTEST_ARGS)

test-all: $(VENV)/.test  # every test, once; none may be skipped but for a reason that tests/conftest.py lists
	$(BIN)/pytest -n 2 --dist worksteal --every-test $(PYTEST_ARGS)

check: $(VENV)/.test  # of the changed files, or of FILES=…: lint, types, and the fast tests that import them
	$(BIN)/python scripts/check.py $(FILES)

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy

docs: $(VENV)/.test  # writes what the documents' code prints now into the documents
	$(BIN)/python tests/documents.py

clients: $(VENV)/.test  # packages that speak to the service, each in an environment of its own
	$(BIN)/python scripts/clients.py $(CLIENTS)

wheel: $(VENV)/.test  # dist/telerank-VERSION-py3-none-any.whl and .tar.gz
	$(BIN)/hatchling build

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache
