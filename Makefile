# Everything a person does with this repository. `make help` lists it.
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
KAFKA_VERSION ?= 4.3.1
BROKERS ?= 1
PORT ?= 9092
SEEDS ?= 1-2000

.DEFAULT_GOAL := help
.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*\#\#.*/\1/p' Makefile)

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: $(VENV)/.ready ## make the virtual environment with the pinned dependencies

$(VENV)/.ready: requirements/dev.lock pyproject.toml
	@echo "== setting up $(VENV) with the pinned dependencies (a minute on a fresh machine)"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/dev.lock
	@PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

lock: ## resolve the dependencies again (versions and hashes only)
	$(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-emit-index-url \
	    --no-emit-trusted-host --no-emit-find-links --no-header --extra demo --extra dev \
	    --output-file requirements/dev.lock pyproject.toml

docs: setup ## write the pages of docs/ that follow from the code
	$(BIN)/python -m tools.docs

lint: setup ## ruff, mypy --strict and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint ## all checks and all tests, on a real Kafka (ARGS="-k heartbeat" for some of them)
	@echo "== testing (about a quarter of an hour; the integration tests start a Kafka of their own)"
	$(BIN)/python -m pytest $(ARGS)

test-unit: setup ## the tests that need no Kafka (a minute or two)
	$(BIN)/python -m pytest --ignore tests/integration -m "not kafka" $(ARGS)

simulate: setup ## histories in virtual time on the real translation (SEEDS=1-2000)
	$(BIN)/python -m tests.simulation --seeds $(SEEDS) --jobs 2

kafka-up: ## start a real Kafka on loopback (KAFKA_VERSION=4.3.1, BROKERS=1|3, PORT=9092)
	@$(PYTHON) -m tools.kafka up --version $(KAFKA_VERSION) --brokers $(BROKERS) --port $(PORT)

kafka-down: ## stop it and remove its data
	@$(PYTHON) -m tools.kafka down

demo: setup ## show a migration on a real Kafka (without Java: on the embedded coordinator); ARGS="--plain ..."
	@KAFKA_VERSION=$(KAFKA_VERSION) $(BIN)/python tools/demo.py $(ARGS)

bench-codecs: setup ## the codecs beside kio and kafka-python (table, build/bench-codecs.json)
	$(BIN)/python -m benchmarks.codecs

clean: ## remove the virtual environment and everything built
	rm -rf $(VENV) build
