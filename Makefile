# Needs Python 3.11 or newer with pip, or uv; everything else is installed into .venv.

PYTHON ?= python3
BIN := .venv/bin
# Tests often wait: three for each core keep it busy. Slow ones start engines, so two are enough.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(3 * (os.cpu_count() or 1))')
SLOW_WORKERS ?= $(shell $(PYTHON) -c 'import os; print(2 * (os.cpu_count() or 1))')
STAMP := .venv/.installed
DATA_STAMP := .venv/.data-tools
RELEASE_STAMP := .venv/.release-tools
DOCS := .venv-docs
LOWEST := .venv-lowest
# The quick tests of what uses a dependency: both transports, the node, the command line, fsspec.
LOWEST_NAMES := transport.py lifecycle.py connection_loss.py wrong_replies.py limits_of_replies.py
LOWEST_TESTS := $(addprefix tests/_async/test_,$(LOWEST_NAMES)) $(addprefix tests/_sync/test_,$(LOWEST_NAMES)) \
  $(wildcard tests/test_cli_*.py) \
  $(addprefix tests/test_,age.py cancel.py connections.py filesystem.py keys.py library_parts.py node.py request_parser.py)

.PHONY: help setup data demo test lint unit test-slow test-lowest test-pythons release-check docs browser clock exfat proxies engines fuzz bench bench-quick bench-against generate format clean

help:
	@echo "make demo | data | test (lint, unit) | test-slow (test-lowest) | test-pythons | release-check | docs | browser | clock | exfat | proxies | engines | fuzz | bench, bench-quick, bench-against | generate | format | clean"

# Without ensurepip, which some systems keep in a package of its own: pip installs from outside.
$(STAMP): pyproject.toml src/holdfast/_version.py
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
	@echo "Setting .venv up; the first time takes a minute"
	test -x $(BIN)/python || $(PYTHON) -m venv --without-pip .venv
	scripts/pip_install.sh "$(PYTHON)" .venv --editable '.[dev]'
	touch $@

# pandas, pyarrow, DuckDB, Dask, zarr and xarray are large, and only tests and a guide need them.
$(DATA_STAMP): $(STAMP)
	scripts/pip_install.sh "$(PYTHON)" .venv --editable '.[data]'
	touch $@

setup: $(STAMP)

data: $(DATA_STAMP)

demo: $(STAMP)
	$(BIN)/holdfast demo

# The checks take half a minute of one core: they run beside the tests, which often wait.
test: $(DATA_STAMP)
	$(MAKE) --no-print-directory --jobs 2 lint unit

lint: $(STAMP)
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/python scripts/generate_sync.py --check
	$(BIN)/python scripts/generate_reference.py --check
	$(BIN)/lint-imports
	$(BIN)/mypy
	@echo "make lint: passed"

# Neighbouring tests stay on one worker, so that a module's fixtures are set up once; idle workers
# take tests from the others. Pytest keeps the test modules that it has compiled.
unit: export PYTHONDONTWRITEBYTECODE =
unit: $(DATA_STAMP)
	$(BIN)/pytest --numprocesses $(WORKERS) --dist worksteal -m "not slow"

test-slow: $(DATA_STAMP) test-lowest
	$(BIN)/pytest --numprocesses $(SLOW_WORKERS) --dist worksteal -m slow --durations 40

# The dependencies at the lowest versions that pyproject.toml allows; the tools of the tests as usual.
$(LOWEST)/.installed: pyproject.toml $(STAMP)
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(LOWEST)
	$(BIN)/uv pip install --quiet --python $(LOWEST) --resolution lowest-direct --requirements pyproject.toml --extra all
	$(BIN)/uv pip install --quiet --python $(LOWEST) --editable '.[all,test]'
	touch $@

# The tests that old versions of fsspec bring along have fixtures of which the newest pytest warns.
test-lowest: $(LOWEST)/.installed
	$(LOWEST)/bin/pytest --numprocesses $(WORKERS) --dist worksteal -m "not slow" \
	  -W ignore::pytest.PytestRemovedIn10Warning $(LOWEST_TESTS)

# The quick tests on every Python from 3.11 on that is here or that Debian has, some five minutes for
# each; at the end, which did not run. PYTHONS="3.12 3.13" chooses.
test-pythons: $(STAMP)
	$(BIN)/python scripts/test_pythons.py --workers $(WORKERS) $(PYTHONS)

# Wheel, source distribution and SBOM into dist/, installed and used in empty environments; some two
# minutes. Nothing is published.
$(RELEASE_STAMP): $(STAMP)
	scripts/pip_install.sh "$(PYTHON)" .venv --editable '.[release]'
	touch $@

release-check: $(RELEASE_STAMP)
	$(BIN)/python scripts/release_check.py

# A broken link or any warning fails the build; a test of `make test-slow` builds it as well.
docs: $(DOCS)/.installed
	$(DOCS)/bin/python scripts/build_docs.py

# Only what builds the site: the package itself is read, and not imported.
$(DOCS)/.installed: pyproject.toml
	test -x $(DOCS)/bin/python || $(PYTHON) -m venv --without-pip $(DOCS)
	scripts/pip_install.sh "$(PYTHON)" $(DOCS) '.[docs]'
	touch $@

# What the tests of the page run in; without it they are skipped. Asks for root where it must.
browser:
	command -v chromium || command -v chromium-browser || command -v google-chrome || scripts/install_package.sh chromium

# What gives a process of a slow test another clock; without it that part is skipped. As above.
clock:
	ls /usr/lib/*/faketime/libfaketime.so.1 2>/dev/null || scripts/install_package.sh libfaketime

# A file system that takes names of other case for the same; without it some tests are skipped.
exfat:
	command -v mount.exfat-fuse || scripts/install_package.sh exfat-fuse
	command -v mkfs.exfat || scripts/install_package.sh exfatprogs

# Reverse proxies that slow tests put in front of gateways; without them these are skipped. No
# daemon is started: the tests start their own.
proxies: export PATH := $(PATH):/usr/sbin
proxies:
	command -v nginx || scripts/install_package.sh nginx
	command -v caddy || scripts/install_package.sh caddy
	command -v haproxy || scripts/install_package.sh haproxy

# Kubo, IPFS Cluster and age, which some tests run against, into a cache folder of the user; without
# them these are skipped. Needs Go; the first time takes up to ten minutes for each. Prints Kubo's path.
engines:
	$(PYTHON) scripts/build_engines.py

# Bounded: 10^5 inputs for each decoder, a minute or two.
fuzz: $(STAMP)
	$(BIN)/python fuzz/run.py

# Ours and the peers in turns, 12 to 15 minutes on a quiet machine; writes docs/benchmarks.md. The
# first time it installs the peers. The quick one takes two minutes and only prints.
bench: $(STAMP)
	$(BIN)/python -m bench --output bench/results/latest.json --page

bench-quick: $(STAMP)
	$(BIN)/python -m bench --quick

# This version and an older one in turns, some ten minutes; fails if this one is slower.
bench-against: $(STAMP)
	$(BIN)/python -m bench --against $(or $(REVISION),$(error set REVISION, for example REVISION=main~20))

generate: $(STAMP)
	$(BIN)/python scripts/generate_sync.py
	$(BIN)/python scripts/generate_reference.py

format: $(STAMP)
	$(BIN)/ruff format --quiet .
	$(BIN)/ruff check --fix --quiet .

clean:
	rm -rf .venv .venv-pythons $(DOCS) $(LOWEST) build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
