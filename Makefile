# Everything a person does with this repository. `make help` lists it.
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
KAFKA_VERSION ?= 4.4.0
BROKERS ?= 1
PORT ?= 9092
SEEDS ?= 2000
COORDINATOR_SEEDS ?= 0-199
SECONDS ?= 60
UNTIL_MS ?= 5000
FAULTS ?= 1
TAKES := about half an hour

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
	$(BIN)/python -m tools.pipeline_docs

docs-build: setup ## build the documentation site into build/site, with every warning an error
	@$(BIN)/python -m tools.docs_site.mermaid
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs --quiet build --strict

docs-serve: setup ## serve the documentation site on loopback, and rebuild it at each change (DOCS_PORT=8000)
	@$(BIN)/python -m tools.docs_site.mermaid
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs serve --strict --dev-addr 127.0.0.1:$(or $(DOCS_PORT),8000)

lint: setup $(VENV)/.pipeline ## ruff, mypy --strict and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint ## all checks and the tests, on a real Kafka (ARGS="-k heartbeat" for some of them)
	-@$(BIN)/python -m tools.chart build
	$(if $(LONG),-@$(BIN)/python -m tools.s3_server.built)
	@echo "== testing ($(TAKES); the integration tests start Kafka brokers of their own)"
	$(BIN)/python -m pytest -n $(or $(WORKERS),3) --dist loadfile --no-loadscope-reorder --cache-clear --tb short --durations 20 --durations-min 10 $(LONG) $(ARGS) \
	    || { [ $$? -eq 1 ] && $(BIN)/python -m tests.again $(LONG); }

test-long: LONG := --long
test-long: TAKES := several hours
test-long: test ## the same with what make test leaves out (ARGS="-m long" for only that): more libraries and assignors

test-unit: setup $(VENV)/.pipeline ## the tests that need no Kafka (a minute or two)
	$(BIN)/python -m pytest --ignore tests/integration -m "not kafka" $(ARGS)

chart-tools: setup ## helm, kubeconform and helm-docs, built from source once (build/tools; two minutes)
	@$(BIN)/python -m tools.chart build

chart: setup ## write what follows from the chart: its README and the tests' golden manifests
	$(BIN)/python -m tools.chart docs
	$(BIN)/python -m tools.chart golden

simulate: setup ## histories in virtual time on the real translation (SEEDS=2000, SEEDS=201-300, SEED=7 for a story)
	$(BIN)/python -m tests.simulation $(if $(SEED),--seed $(SEED),--seeds $(SEEDS) --jobs 2)

fuzz: setup ## every decoder and the stream of a connection under atheris (SECONDS=60 for each target; ARGS=connection)
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS) $(ARGS)

explore: setup ## every interleaving of a small group with at most one fault (hours; UNTIL_MS=5000 FAULTS=1)
	$(BIN)/python -m tests.simulation.explore --until-ms $(UNTIL_MS) --faults $(FAULTS) --jobs 2

explore-fleet: setup ## every interleaving of one member, two replicas and the member log with at most one fault (minutes; MOVES=1 UNTIL_MS=4500)
	$(BIN)/python -m tests.simulation.explore --fleet --until-ms $(if $(filter file,$(origin UNTIL_MS)),4500,$(UNTIL_MS)) --faults $(FAULTS) --moves $(or $(MOVES),1) --jobs 2

mutants: setup ## break the translation on purpose, and show what notices it (a table; minutes)
	$(BIN)/python -m tests.simulation.mutants --jobs 2

kafka-up: ## start a real Kafka on loopback (KAFKA_VERSION=4.4.0, BROKERS=1|3, PORT=9092)
	@$(PYTHON) -m tools.kafka up --version $(KAFKA_VERSION) --brokers $(BROKERS) --port $(PORT)

kafka-down: ## stop it and remove its data
	@$(PYTHON) -m tools.kafka down

cluster-up: setup ## a real Kubernetes on this machine, as root (NODES=1; building it takes ten minutes, once)
	@$(BIN)/python -m tools.kubernetes up --nodes $(or $(NODES),1)

cluster-down: setup ## end it and restore what it changed
	@$(BIN)/python -m tools.kubernetes down

cluster-kafka: setup ## three brokers in that cluster, with TLS, SCRAM and ACLs (after make image)
	@$(BIN)/python -m tools.kubernetes.kafka

cluster-prometheus: setup ## the Prometheus operator and a Prometheus in that cluster (building it takes minutes, once)
	@$(BIN)/python -m tools.kubernetes.prometheus

image: setup ## the Dockerfile's image by podman, handed to the cluster if one is up (TAG=0.1.0 TARGET=epochgate|pipeline)
	@$(BIN)/python -m tools.kubernetes image $(if $(TAG),--tag $(TAG)) $(if $(TARGET),--target $(TARGET))

demo: setup ## move a group at work beside one that stays classic, and show what each change costs, on a real Kafka (without Java: on the embedded coordinator); ARGS="--plain ..."
	@KAFKA_VERSION=$(KAFKA_VERSION) $(BIN)/python tools/demo.py $(ARGS)

bench-codecs: setup ## the codecs beside kio and kafka-python (table, build/bench-codecs.json)
	$(BIN)/python -m benchmarks.codecs

bench: setup ## what Epochgate costs beside the same work without it (table, build/bench.json; ARGS="--only latency")
	$(BIN)/python -m benchmarks $(ARGS)

bench-resources: setup ## processor and memory of one process by members, connections and MB/s (table, build/bench-resources.json)
	$(BIN)/python -m benchmarks.resources

soak: setup ## traffic, churn and broker restarts (MINUTES=10; 60 for an hour): memory, descriptors and tasks must stay flat; FIRE=1: two replicas among hostile peers instead
	$(BIN)/python -m benchmarks.soak$(if $(FIRE),_under_fire) --minutes $(or $(MINUTES),10)

bench-versions: setup ## earlier versions beside this one (table, build/versions.json; COMMITS="3bef796 42857bb")
	$(BIN)/python -m benchmarks.versions $(COMMITS) $(ARGS)

bench-hostile: setup ## a member among strangers: what floods and huge calls cost it, with and without us (table, build/hostile.json; ARGS="--calls 20000")
	$(BIN)/python -m benchmarks.hostile $(ARGS)

bench-tls: setup ## the TLS of the proxy beside trio's own (table)
	$(BIN)/python -m benchmarks.tls_streams

bench-visibility: setup ## what metrics, observer and journal cost a heartbeat, and 10,000 groups (table, build/bench-visibility.json)
	$(BIN)/python -m benchmarks.visibility

screenshots: setup ## the status page during a migration and of Kafka Connect, into docs/images (needs Chromium; ARGS=connect)
	$(BIN)/python tools/screenshots.py $(ARGS)

bench-policy: setup ## what a policy of 20,000 groups costs: reading, lookups, memory (seconds; a table; ARGS="--groups 1000")
	$(BIN)/python -m benchmarks.policy $(ARGS)

bench-commits: setup ## 60,000 asynchronous commits of one consumer at a stock broker, straight and through Epochgate (a minute; table, build/bench-commits.json; ARGS="--rounds 3")
	nice $(BIN)/python -m benchmarks.commits $(ARGS)

bench-coordinator: setup ## the embedded coordinator by size of group (table, build/bench-coordinator.json)
	$(BIN)/python -m benchmarks.coordinator

coordinator-random: setup ## random scenarios on a real Kafka and on the embedded coordinator (COORDINATOR_SEEDS=0-199)
	$(BIN)/python -m tests.coordinator --seeds $(COORDINATOR_SEEDS)

bench-report: setup ## the report's page for 20,000 groups: how long it takes to make, load and print (a minute; a table; ARGS="--groups 100000")
	nice $(BIN)/python -m benchmarks.report_page $(ARGS)

bench-rebalance: setup ## what a rebalance costs: classic, through Epochgate, native (table, build/bench-rebalance.json)
	nice $(BIN)/python -m benchmarks.rebalance $(ARGS)

bench-failover: setup ## how long a killed client's partitions have no owner, on a stock broker (a minute; a table)
	nice $(BIN)/python -m benchmarks.failover

bench-shadow: setup ## what shadows of 1,000 observed groups cost (two minutes; table, build/bench-shadow.json; ARGS="--seconds 300")
	nice $(BIN)/python -m benchmarks.shadow $(ARGS)

bench-preflight: setup ## how long epochgate preflight takes at 1,000 groups (a minute; a table; ARGS="--groups 5000")
	nice $(BIN)/python -m benchmarks.preflight $(ARGS)

bench-fleet: setup ## the same behind three replicas that are one fleet, 20 kills and all figures (ROUNDS=5; table, build/bench-fleet.json)
	nice $(BIN)/python -m benchmarks.fleet --rounds $(or $(ROUNDS),5) $(ARGS)

bench-fleet-members: setup ## 10,000 members of one process beside as many of three replicas, and one restarted (tables, build/bench-fleet-members.json; ARGS="--members 2000")
	nice $(BIN)/python -m benchmarks.fleet_members $(ARGS)

bench-rolling-restart: setup ## three replicas ended, killed and stopped under 40 clients of four libraries (tables, build/bench-rolling-restart.json; ARGS="--rounds 1")
	nice $(BIN)/python -m benchmarks.rolling_restart $(ARGS)

judges: setup ## client libraries' own group tests, straight at Kafka and through Epochgate, compared test by test (ARGS="librdkafka --tests 0102 --runs 5")
	nice $(BIN)/python -m tools.judges $(ARGS)

natives: setup ## native and classic members in one group, straight and through the proxy (ROUNDS=20 SEED=1)
	nice $(BIN)/python -m tests.natives --rounds $(or $(ROUNDS),20) --seed $(or $(SEED),1)

held: setup ## a real group held at half of its members: scaled, restarted, its coordinator failed over (MINUTES=60 SEED=1; ARGS="--assignor range")
	nice $(BIN)/python -m tests.held --minutes $(or $(MINUTES),60) --seed $(or $(SEED),1) $(ARGS)

jepsen: setup ## kill consumers, proxies and the broker at random, judge by the consumers' logs (MINUTES=10 SEED=7; three replicas: ARGS=--fleet)
	nice $(BIN)/python -m tests.jepsen --minutes $(or $(MINUTES),10) --seed $(or $(SEED),7) $(ARGS)

jepsen-migration: setup $(VENV)/.pipeline ## move a group there and back under faults; its journal judged by audit and plain checker (MINUTES=3 SEED=11)
	nice $(BIN)/python -m tests.jepsen --migrate --minutes $(or $(MINUTES),3) --seed $(or $(SEED),11) --folder build/jepsen/migration
	nice $(BIN)/python -m tests.pipeline.real_journal build/jepsen/migration

bench-kubernetes: setup ## proxies replaced in a real Kubernetes under clients in pods (after make cluster-up image cluster-kafka; table, build/bench-kubernetes.json)
	$(BIN)/python -m benchmarks.kubernetes $(ARGS)

bench-verify: setup ## epochgate verify on a million events, beside a plain read of the same lines (table, build/bench-verify.json; ARGS="--rounds 3")
	nice $(BIN)/python -m benchmarks.verify $(ARGS)

verify-seeds: setup $(VENV)/.pipeline ## simulated journals judged by verify and by the plain checker, one in ten live, one in a hundred by the audit on Spark too (SEEDS=2000; a quarter of an hour)
	nice $(BIN)/python -m tests.pipeline.rules.journals --seeds $(SEEDS)

bench-stream: setup $(VENV)/.pipeline ## a journal's topic fed for MINUTES (60) at RATE (2000) events a second, followed with the live audit: lag, state, memory
	nice $(BIN)/python -m benchmarks.stream --minutes $(or $(MINUTES),60) --rate $(or $(RATE),2000)

bench-pipeline: setup $(VENV)/.pipeline ## what the pipeline costs by size (ARGS="--records 2000000 --events 1000000 50000000 --progress 1000000 --cluster"; an hour)
	$(BIN)/python -m benchmarks.pipeline $(ARGS)

bench-pipeline-scale: setup $(VENV)/.pipeline ## one JOB (readiness, audit, progress) by SIZES, or all at the sizes to show; BESIDE=folder of another version to compare with: CPU, memory, shuffle and spill by step (hours)
	$(if $(JOB),$(BIN)/python -m benchmarks.pipeline_scale $(JOB) $(SIZES) $(if $(BESIDE),--beside $(BESIDE)),\
	$(BIN)/python -m benchmarks.pipeline_scale readiness 1000000 10000000 50000000 && \
	$(BIN)/python -m benchmarks.pipeline_scale progress 2000000 20000000 && \
	$(BIN)/python -m benchmarks.pipeline_scale audit 1000000 10000000 100000000)

bench-ownership: setup $(VENV)/.pipeline ## what finding owners costs in the audit's Python, and by Spark SQL alone (a prototype; EVENTS=1000000)
	$(BIN)/python -m benchmarks.ownership_in_sql $(or $(EVENTS),1000000)

dist: setup ## wheel and sdist of this commit, with checksums, into build/dist
	@$(BIN)/python -m tools.dist

clean: ## remove the virtual environment and everything built
	rm -rf $(VENV) build
