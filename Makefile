# Each target sets up all it needs: a virtual environment of its own, with the versions in constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: paper numbers demo test lint kernels bench clean

paper: $(VENV)/run
	$(BIN)/idbandits paper --out report

# the paper's evaluation, its results in docs/results/paper.json, and these and benchmarks/results.md in all pages
numbers: $(VENV)/run
	$(BIN)/python -m benchmarks.pages --report report

demo: $(VENV)/run
	$(BIN)/python examples/demo.py --out demo

# the documentation site, site/html/index.html; scripts of the gallery run again only if they changed
docs: $(VENV)/docs
	$(BIN)/python -m sphinx --fail-on-warning --builder html --doctree-dir site/doctrees docs site/html
	$(BIN)/python -m sphinx --quiet --builder linkcheck --doctree-dir site/doctrees docs site/links
	$(BIN)/python -m pytest tests/docs/test_built_site.py

$(VENV)/docs: $(VENV)/run
	$(INSTALL) --editable '.[docs]'
	touch $@

clean: clean-docs
clean-docs:
	rm -rf site docs/generated
.PHONY: docs clean-docs

# kernels are compiled once before the tests, else each worker of pytest would compile them
test: $(VENV)/test
	$(MAKE) --jobs=2 lint kernels
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal

lint: $(VENV)/test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

kernels: $(VENV)/test
	$(BIN)/python tests/support/compile_kernels.py

bench: $(VENV)/bench
	$(BIN)/python -m benchmarks --out benchmarks/results.md

$(VENV)/run: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable .
	touch $@

$(VENV)/test: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable '.[test]'
	touch $(VENV)/run $@

$(VENV)/bench: $(VENV)/run
	$(INSTALL) --editable '.[bench]'
	touch $@

clean:
	rm -rf $(VENV) demo report
