# Everything a person does with this repository. `make help` lists it.
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
KAFKA_VERSION ?= 4.4.0

# What a benchmark or a judge is given: `make natives ROUNDS=60 SEED=7 ARGS="--folder build/n"`. Each has defaults of its own.
OPTIONS = $(foreach one,minutes seed seeds rounds rate seconds,$(if $(GIVEN_$(one)),--$(one) $(GIVEN_$(one)))) \
    $(if $(BESIDE),--beside $(BESIDE)) $(JOB) $(SIZES) $(COMMITS) $(ARGS)
GIVEN_minutes = $(MINUTES)
GIVEN_seed = $(SEED)
GIVEN_seeds = $(SEEDS)
GIVEN_rounds = $(ROUNDS)
GIVEN_rate = $(RATE)
GIVEN_seconds = $(SECONDS)

.DEFAULT_GOAL := help
.PHONY: help setup lock docs docs-build docs-serve lint test test-fast test-slow test-long chart simulate explore \
    explore-fleet kafka-up kafka-down image demo bench dist clean

help: ## show this list
	@grep -hE '^[a-z$$()JUDGES.%-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^\$$\(JUDGES\)/JUDGE/; s/%/.../' \
	    | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'
	@printf '\n  JUDGE is one of: %s\n\n  bench-...: %s\n' '$(JUDGES)' '$(BENCHES)' | fold -s -w 110

setup: $(VENV)/.ready ## make the virtual environment with the pinned dependencies

$(VENV)/.ready: requirements/dev.lock pyproject.toml
	@echo "== setting up $(VENV) with the pinned dependencies (a minute on a fresh machine)"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/dev.lock
	@PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.pipeline: $(VENV)/.ready requirements/pipeline.lock
	@echo "== adding Spark to $(VENV) (400 MB the first time; a minute or two)"
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/pipeline.lock
	@touch $@

lock: ## resolve the dependencies again (versions and hashes only)
	$(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-emit-index-url \
	    --no-emit-trusted-host --no-emit-find-links --no-header --extra demo --extra fleet --extra dev --extra docs \
	    --output-file requirements/dev.lock pyproject.toml
	$(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-emit-index-url \
	    --no-emit-trusted-host --no-emit-find-links --no-header --extra pipeline \
	    --constraint requirements/dev.lock --output-file requirements/pipeline.lock pyproject.toml
	$(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-emit-index-url \
	    --no-emit-trusted-host --no-emit-find-links --no-header --extra demo --extra fleet \
	    --constraint requirements/dev.lock --output-file requirements/image.lock pyproject.toml
	$(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-emit-index-url \
	    --no-emit-trusted-host --no-emit-find-links --no-header --build-deps-for wheel --only-build-deps \
	    --constraint requirements/dev.lock --output-file requirements/build.lock pyproject.toml

docs: setup $(VENV)/.pipeline ## write the pages of docs/ that follow from the code
	$(BIN)/python -m tools.docs
	$(BIN)/python -m tools.first_join
	$(BIN)/python -m tools.pipeline_docs

docs-build: setup ## the documentation site into build/site, with every warning an error; docs-serve: on loopback (DOCS_PORT=8000)
docs-serve: setup
docs-build docs-serve:
	@$(BIN)/python -m tools.docs_site.mermaid
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs $(if $(filter docs-build,$@),--quiet build --strict,\
	    serve --strict --dev-addr 127.0.0.1:$(or $(DOCS_PORT),8000))

lint: setup $(VENV)/.pipeline ## ruff, mypy --strict and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The tests of a tier (tests/tiers.txt), or those that ARGS names whatever their tier is; few that fail run once more, alone.
TESTS = $(BIN)/python -m pytest -n $(or $(WORKERS),3) --dist loadfile --no-loadscope-reorder --cache-clear --tb short \
    --durations 20 --durations-min 10 --durations-file=build/durations-$@.json
AGAIN = || { [ $$? -eq 1 ] && $(BIN)/python -m tests.again
.PHONY: test-tools
test-tools: setup $(VENV)/.pipeline
	-@$(BIN)/python -m tools.chart build

test-fast: setup $(VENV)/.pipeline ## the tests that need no Kafka, Spark or browser (two minutes)
	$(TESTS) --tier=fast $(ARGS)

test: lint test-tools ## all checks, the fast tests, and each client library on a real Kafka (twelve minutes; ARGS="-k heartbeat" for some tests)
	$(TESTS) --tier=test $(ARGS) $(AGAIN); }

test-slow: test-tools ## what make test leaves out: more of Kafka, Spark, and thousands of histories (half an hour)
	$(TESTS) --tier=slow $(ARGS) $(AGAIN); }

test-long: lint test-tools ## all of them and the long ones (hours; ARGS="--tier=long" for only those)
	-@$(BIN)/python -m tools.s3_server.built
	$(TESTS) --long $(ARGS) $(AGAIN) --long; }

chart: setup ## write what follows from the chart: its README and the tests' golden manifests
	$(BIN)/python -m tools.chart docs
	$(BIN)/python -m tools.chart golden

simulate: setup ## histories in virtual time on the real translation (SEEDS=2000, SEEDS=201-300, SEED=7 for a story)
	$(BIN)/python -m tests.simulation $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),2000) --jobs 2) $(ARGS)

explore: setup ## every interleaving of a small group with at most one fault (hours; UNTIL_MS=5000 FAULTS=1); explore-fleet: of one member, two replicas and their log (minutes; MOVES=1)
explore-fleet: setup
explore explore-fleet:
	$(BIN)/python -m tests.simulation.explore --faults $(or $(FAULTS),1) --jobs 2 $(if $(filter explore,$@),\
	    --until-ms $(or $(UNTIL_MS),5000),--fleet --until-ms $(or $(UNTIL_MS),4500) --moves $(or $(MOVES),1)) $(ARGS)

# Longer judges than tests; each one's --help says more.
JUDGES := mutants fuzz natives held truth jepsen jepsen-migration soak judges verify-seeds coordinator-random
judge-module = $(or $(MODULE_$@),tests.$@)
MODULE_mutants := tests.simulation.mutants
MODULE_jepsen-migration := tests.jepsen
MODULE_soak = benchmarks.soak$(if $(FIRE),_under_fire)
MODULE_judges := tools.judges
MODULE_verify-seeds := tests.pipeline.rules.journals
MODULE_coordinator-random := tests.coordinator
jepsen-migration verify-seeds: $(VENV)/.pipeline
soak: GIVEN_minutes = $(or $(MINUTES),10)
coordinator-random: GIVEN_seeds = $(COORDINATOR_SEEDS)
jepsen-migration: GIVEN_minutes = $(or $(MINUTES),3)
jepsen-migration: GIVEN_seed = $(or $(SEED),11)
jepsen-migration: OPTIONS += --migrate --folder build/jepsen/migration
.PHONY: $(JUDGES)
$(JUDGES): setup ## mutants, natives, soak and others (below) for as long as you like (MINUTES=60 ROUNDS=300 SEED=7 SEEDS=2000 SECONDS=60 FIRE=1 ARGS=...)
	nice $(BIN)/python -m $(judge-module) $(OPTIONS)
	$(if $(filter jepsen-migration,$@),nice $(BIN)/python -m tests.pipeline.real_journal build/jepsen/migration)

kafka-up: ## a real Kafka on loopback (KAFKA_VERSION=4.4.0, BROKERS=1|3, PORT=9092); kafka-down ends it and removes its data
	@$(PYTHON) -m tools.kafka up --version $(KAFKA_VERSION) --brokers $(or $(BROKERS),1) --port $(or $(PORT),9092)

kafka-down:
	@$(PYTHON) -m tools.kafka down

cluster-%: setup ## -up: a real Kubernetes on this machine, as root (NODES=1; built once, ten minutes), -kafka (after make image), -prometheus, -down
	@$(BIN)/python -m tools.kubernetes$(if $(filter up down,$*), $* $(if $(filter up,$*),--nodes $(or $(NODES),1)),.$*)

image: setup ## the Dockerfile's image by podman, handed to the cluster if one is up (TAG=0.1.0 TARGET=epochgate|pipeline)
	@$(BIN)/python -m tools.kubernetes image $(if $(TAG),--tag $(TAG)) $(if $(TARGET),--target $(TARGET))

demo: setup ## move a group at work beside one that stays classic, and show what each change costs, on a real Kafka (without Java: on the embedded coordinator); ARGS="--plain ..."
	@KAFKA_VERSION=$(KAFKA_VERSION) $(BIN)/python tools/demo.py $(ARGS)

bench: setup ## what Epochgate costs beside the same work without it (table, build/bench.json; ARGS="--only latency")
	$(BIN)/python -m benchmarks $(ARGS)

# benchmarks/fleet_members.py is bench-fleet-members, and so on; its docstring says what it measures and how long it takes.
BENCH_tls := tls_streams
BENCH_report := report_page
BENCH_ownership := ownership_in_sql
HELPERS := soak soak_under_fire
BENCHES := $(subst _,-,$(filter-out $(HELPERS) $(BENCH_tls) $(BENCH_report) $(BENCH_ownership),\
    $(patsubst benchmarks/%.py,%,$(shell grep -l __main__ benchmarks/[a-z]*.py)))) tls report ownership attacks
bench-stream bench-pipeline bench-pipeline-scale bench-ownership: $(VENV)/.pipeline
bench-ownership: OPTIONS = $(or $(EVENTS),1000000) $(ARGS)
bench-%: setup ## one benchmark (below): a table and build/bench-*.json (ROUNDS, MINUTES, RATE, COMMITS, JOB, SIZES, BESIDE, ARGS="--rounds 3")
	nice $(BIN)/python -m benchmarks.$(or $(BENCH_$*),$(subst -,_,$*)) $(OPTIONS)

dist: setup ## wheel and sdist of this commit, with checksums, into build/dist
	@$(BIN)/python -m tools.dist

clean: ## remove the virtual environment and everything built
	rm -rf $(VENV) build
