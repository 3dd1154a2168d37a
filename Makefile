# Every target sets up what it needs in .venv: Python >= 3.11, a C compiler and make are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find shore -name '*.py' -o -name '*.pyx' -o -name '*.pxd' -o -name '*.pyi' -o -name '*.h') \
           pyproject.toml setup.py README.md MANIFEST.in
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: demo test lint docs sanitize sanitize-quick deep wheel wheel-check bench bench-check bars peers clean

# The main job on a synthetic problem of the paper's kind.
demo: $(VENV)/installed
	$(BIN)/shore demo

# The tests, against the installed wheel and not the source tree.
test: $(VENV)/with-test
	$(BIN)/pytest tests

lint: $(VENV)/with-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PATH="$(CURDIR)/$(BIN):$$PATH" cython-lint shore examples
	$(BIN)/mypy
	PATH="$(CURDIR)/$(BIN):$$PATH" pyright

# The site, in build/site. A warning is an error.
docs: $(VENV)/with-docs
	rm -rf docs/api docs/examples
	$(BIN)/sphinx-build -W --keep-going -q -d build/doctrees docs build/site

# The tests on builds with AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer; the last needs clang. The
# quick run: the tests of the kernels, on the first build alone.
sanitize: $(VENV)/with-test
	cd tools && ../$(BIN)/python -m deep.sanitizers

sanitize-quick: $(VENV)/with-test
	cd tools && ../$(BIN)/python -m deep.sanitizers --quick

# Fuzzers, faults, sanitizers, leaks, certificates and forward errors at length; needs clang. The figures go
# to docs/reliability.md.
deep: $(VENV)/with-test $(VENV)/with-deep
	cd tools && ../$(BIN)/python -m deep

# The wheel for other machines: from the source distribution, with the libraries it needs inside.
wheel: $(VENV)/with-wheel
	rm -rf wheelhouse
	$(BIN)/python -m build --outdir wheelhouse/plain
	mv wheelhouse/plain/*.tar.gz wheelhouse
	PATH="$(CURDIR)/$(BIN):$$PATH" auditwheel repair --wheel-dir wheelhouse wheelhouse/plain/*.whl

# What that wheel is, and that it is enough: a client builds against it in an environment with nothing but it and the
# build tools, and the source distribution installs where there are none.
wheel-check: wheel
	$(BIN)/auditwheel show wheelhouse/*.whl
	$(BIN)/python tools/check_wheel.py wheelhouse/*.whl
	rm -rf .venv-wheel .venv-sdist
	$(PYTHON) -m venv .venv-wheel
	.venv-wheel/bin/python -m pip install --quiet wheelhouse/*.whl 'setuptools>=77' 'Cython>=3.1'
	.venv-wheel/bin/python -m pip install --quiet --no-build-isolation --no-deps ./examples/embedding
	.venv-wheel/bin/python -m pip list
	.venv-wheel/bin/python -P examples/embedding/demo.py
	$(PYTHON) -m venv .venv-sdist
	.venv-sdist/bin/python -m pip install --quiet wheelhouse/*.tar.gz
	! .venv-sdist/bin/python -m pip show --quiet Cython
	.venv-sdist/bin/python -P -c 'import shore; shore.show_versions()'

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
	rm -rf $(VENV) .venv-* build dist wheelhouse *.egg-info docs/api docs/examples
	rm -rf .pytest_cache .hypothesis .mypy_cache .ruff_cache asv_bench/.asv asv_bench/env asv_bench/html
	rm -rf shore/_core/*.c shore/_core/*.so
	cd examples/embedding && rm -rf build *.egg-info texttags/*.c
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "shore needs Python >= 3.11; say which one with: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/installed: $(VENV)/created $(SOURCES)
	@echo "Building the wheel (about a minute) ..."
	rm -rf dist build/lib* build/temp* build/bdist*
	$(PIP) wheel --quiet --no-deps --wheel-dir dist .
	@echo "Installing it and what it needs ..."
	$(PIP) install --quiet --force-reinstall --no-deps dist/*.whl
	$(PIP) install --quiet "$$(ls dist/*.whl)"
	touch $@

$(VENV)/with-%: $(VENV)/installed
	$(PIP) install --quiet "$$(ls dist/*.whl)[$*]"
	touch $@
