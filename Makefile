# Each target sets up all it needs: a virtual environment of its own, with the versions in constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt

.PHONY: paper numbers demo test lint kernels wheel bench clean

paper: $(VENV)/run
	$(BIN)/idbandits paper --out report

# the paper's evaluation, its results in docs/results/paper.json, and these and benchmarks/results.md in all pages
numbers: $(VENV)/run
	$(BIN)/python -m benchmarks.pages --report report

demo: $(VENV)/run
	$(BIN)/python examples/demo.py --out demo

# the documentation site, site/html/index.html; scripts of the gallery run again only if they changed
docs: $(VENV)/docs kernels
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

test: $(VENV)/test
	$(MAKE) --jobs=2 lint kernels
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal

lint: $(VENV)/test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# machine code of all kernels for this processor: all processes of an evaluation and all workers of pytest load it
kernels: $(VENV)/run
	$(BIN)/python -m idbandits.kernel.build_pack

# sdist and wheels in dist, with machine code for each version of Python that is installed: make wheel PYTHONS="python3.11"
wheel: $(VENV)/release
	$(BIN)/python tools/build_wheels.py $(PYTHONS:%=--python %)

bench: $(VENV)/bench
	$(BIN)/python -m benchmarks --out benchmarks/results.md

# what simulations need is compiled while pip installs other libraries, and the rest while it installs those of tests
$(VENV)/run: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) numba numpy scipy
	$(BIN)/python -m idbandits.kernel.build_pack --simulations & $(INSTALL) --editable . && wait $$!
	touch $@

$(VENV)/test: $(VENV)/run
	$(BIN)/python -m idbandits.kernel.build_pack & $(INSTALL) --editable '.[test]' && wait $$!
	touch $@

$(VENV)/bench: $(VENV)/run
	$(INSTALL) --editable '.[bench]'
	touch $@

$(VENV)/release: $(VENV)/run
	$(INSTALL) --editable '.[release]'
	touch $@

clean:
	rm -rf $(VENV) demo report dist
