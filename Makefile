# Every target sets up what it needs in .venv: Python >= 3.11, a C compiler and make are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find shore -name '*.py' -o -name '*.pyx' -o -name '*.pxd' -o -name '*.pyi' -o -name '*.h') \
           pyproject.toml setup.py README.md MANIFEST.in
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: demo test lint bench bench-check bars peers clean

# The main job on a synthetic problem of the paper's kind.
demo: $(VENV)/installed
	$(BIN)/shore demo

# The tests, against the installed wheel and not the source tree.
test: $(VENV)/with-test
	$(BIN)/pytest tests

lint: $(VENV)/with-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PATH="$(CURDIR)/$(BIN):$$PATH" cython-lint shore
	$(BIN)/mypy

# The asv suites of the last commit, kept in asv_bench/results under the name MACHINE; then the pages of all that are kept.
MACHINE ?= $(shell uname -n)
bench: $(VENV)/with-bench
	cd asv_bench && ../$(BIN)/asv machine --yes --machine "$(MACHINE)" --os "$$(uname -s)" --arch "$$(uname -m)" \
	  --num_cpu "$$(nproc)" --cpu "$$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)"
	cd asv_bench && ../$(BIN)/asv run --machine "$(MACHINE)" --show-stderr --durations 10 HEAD^!
	cd asv_bench && ../$(BIN)/asv publish --html-dir html

# That the asv suites are sound, and that one of them runs: each once, on the installed wheel, keeping nothing.
bench-check: $(VENV)/with-bench
	cd asv_bench && ../$(BIN)/asv machine --yes > /dev/null
	cd asv_bench && ../$(BIN)/asv check --python=same
	cd asv_bench && ../$(BIN)/asv run --python=same --quick --dry-run --show-stderr --bench '^projection\.'

# The speed that is promised, as ratios measured in one process.
bars: $(VENV)/with-bench
	$(BIN)/python asv_bench/bars.py

# shore beside other packages, in an environment of its own: about half an hour. Tables and figures go to docs/ and README.md.
peers: .venv-peers/installed
	cd asv_bench && ../.venv-peers/bin/python -m peers

.venv-peers/installed: $(VENV)/installed asv_bench/peers/constraints.txt
	$(PYTHON) -m venv .venv-peers
	@echo "Installing the packages to compare with ..."
	.venv-peers/bin/python -m pip --disable-pip-version-check install --quiet --force-reinstall --no-deps dist/*.whl
	.venv-peers/bin/python -m pip --disable-pip-version-check install --quiet \
	  -c asv_bench/peers/constraints.txt "$$(ls dist/*.whl)[peers]"
	touch $@

clean:
	rm -rf $(VENV) .venv-peers build dist *.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache
	rm -f shore/_core/*.c shore/_core/*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "shore needs Python >= 3.11; say which one with: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/installed: $(VENV)/created $(SOURCES)
	@echo "Building the wheel (about a minute) ..."
	rm -rf dist build
	$(PIP) wheel --quiet --no-deps --wheel-dir dist .
	@echo "Installing it and what it needs ..."
	$(PIP) install --quiet --force-reinstall --no-deps dist/*.whl
	$(PIP) install --quiet "$$(ls dist/*.whl)"
	touch $@

$(VENV)/with-%: $(VENV)/installed
	$(PIP) install --quiet "$$(ls dist/*.whl)[$*]"
	touch $@
