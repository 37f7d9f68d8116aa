PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin

.PHONY: default demo test lint types docs clients wheel clean
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

test: $(VENV)/.test
	$(BIN)/pytest -n 2 $(PYTEST_ARGS)

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
