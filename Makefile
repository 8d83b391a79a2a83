# make demo    replay real flights and a simulated day, show the incidents (SERVE=0: then end)
# make test    everything that must hold before a change lands; needs nothing installed before
# make check   the quick part of it: style, types, import contracts
# make coverage  the tests in one process, and which lines they ran (slower)
# make soak    the long runs: SOAK=1000 kills while SOAK_ROWS=2000000 rows flow, simulated months,
#              ten million fuzzed records
# make screenshots  take the pictures of docs/console.md anew, in a real Chromium
# make docs    the site, strictly, into out/site
# make release wheel, sdist, what they are made of (SBOM) and their digests, in dist/; the library's wheel
# make bench   all benchmarks; rows in out/*.json
# make images  the image, one for reading only, and those of the stand; starts it, breaks it, stops it. As root it
#              brings a Docker engine where there is none, and makes its base where no registry is reached
# make stand   with these: Kafka, PostgreSQL, Prometheus, Alertmanager, two monitors; an incident, a killed leader
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
export PATH := $(CURDIR)/.tools/usr/bin:$(PATH)
export TF_CPP_MIN_LOG_LEVEL ?= 2
PYTEST_ARGS ?=
BENCHMARKS := $(patsubst benchmarks/%.py,%,$(filter-out benchmarks/_%.py benchmarks/soak.py,$(wildcard benchmarks/*.py)))

.PHONY: images stand docs release sbom help demo test coverage check bench bench-% tools dashboards requirements clean distclean migration soak screenshots

help:
	@sed -n 's/^# make/make/p' Makefile

# Stamps say which requirements a virtual environment holds, so that a second run installs nothing.
$(VENV)/pyvenv.cfg:
	@.ci/venv $(VENV)

$(VENV)/.runtime: requirements.txt pyproject.toml .ci/install | $(VENV)/pyvenv.cfg
	@.ci/install $(VENV) requirements.txt
	@touch $@

$(VENV)/.dev: requirements-dev.txt pyproject.toml .ci/install | $(VENV)/pyvenv.cfg
	@.ci/install $(VENV) requirements-dev.txt
	@touch $@ $(VENV)/.runtime  # the development set contains the runtime set

demo: $(VENV)/.runtime
	@$(BIN)/least-monitor demo

check: $(VENV)/.dev
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

# Apache Kafka among them: .ci/kafka/bring.
tools:
	@.ci/tools

test: $(VENV)/.dev tools check
	@$(BIN)/pytest -n 2 --dist loadfile $(PYTEST_ARGS)

# The same in one process, and which lines it ran.
coverage: $(VENV)/.dev tools
	@$(BIN)/pytest --cov=least --cov=monitor --cov-report=term:skip-covered --cov-report=xml $(PYTEST_ARGS)

screenshots: $(VENV)/.dev tools
	@SCREENSHOTS=1 $(BIN)/pytest tests/browser/test_screenshots.py $(PYTEST_ARGS)

soak: export SOAK ?= 1000
soak: $(VENV)/.dev tools
	@FUZZED_RECORDS=10000000 $(BIN)/pytest -s -rs tests/services/test_chaos.py \
		tests/services/test_kafka_daemon.py tests/contracts/test_kafka_trouble.py \
		tests/contracts/test_fuzzed_records.py $(PYTEST_ARGS)
	@mkdir -p out
	@$(BIN)/python -m benchmarks.soak --json out/soak.json

bench: $(addprefix bench-,$(BENCHMARKS))

bench-%: $(VENV)/.dev
	@mkdir -p out
	@$(BIN)/python -m benchmarks.$* --json out/$*.json

# Pin again after a change of pyproject.toml; the addresses of indexes stay out of the files.
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --no-annotate --no-header
requirements: $(VENV)/.dev
	@$(COMPILE) pyproject.toml --extra postgres --extra apprise -o requirements.txt
	@$(COMPILE) pyproject.toml --extra postgres --extra apprise --group dev -c requirements.txt -o requirements-dev.txt
	@echo setuptools | $(COMPILE) pyproject.toml - --extra postgres --overrides requirements-reading.in \
		-c requirements.txt -o requirements-reading.txt  # setuptools makes the package; TensorFlow brought it

# Draft the next revision of the store's tables: make migration SAYS="silences".
migration: $(VENV)/.dev
	@$(BIN)/python -m monitor.edge.store.migrations "$(SAYS)"

docs: $(VENV)/.dev
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The pinned requirements in an environment of their own: an SBOM tells what is deployed, not what tests.
VERSION = $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' monitor/__init__.py)
sbom: $(VENV)/.dev
	@mkdir -p dist
	@rm -rf out/release && $(BIN)/uv venv --quiet --python $(BIN)/python out/release
	@mirror=$$($(BIN)/python -m pip config get global.index-url 2>/dev/null || true); \
		$${mirror:+env UV_DEFAULT_INDEX=$$mirror} $(BIN)/uv pip install --quiet --python out/release/bin/python \
		--require-hashes -r requirements.txt
	@$(BIN)/cyclonedx-py environment out/release --pyproject pyproject.toml --output-reproducible \
		--sv 1.6 --validate -o dist/least-monitor-$(VERSION).cdx.json

release: sbom
	@rm -f dist/*.whl dist/*.tar.gz
	@$(BIN)/uv build --quiet --no-build-isolation --python $(BIN)/python --out-dir dist
	@$(BIN)/uv build --quiet --no-build-isolation --python $(BIN)/python --out-dir dist --wheel packages/least
	@cd dist && sha256sum least*$(VERSION)*.whl least*$(VERSION)*.tar.gz least-monitor-$(VERSION).cdx.json | tee SHA256SUMS

dashboards: $(VENV)/.dev
	@$(BIN)/python -m dashboards.generate

# Each is one run of the engine.
images:
	@deploy/engine bash -c 'deploy/make-images && python3 deploy/try_image.py'

stand:
	@deploy/engine python3 deploy/stand.py

clean:
	rm -rf build packages/least/build packages/least/*.egg-info dist out .coverage coverage.xml .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find least monitor tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV) .tools *.egg-info
