# searchbus: `make run` and `make test` need git, make and Python 3.11+; they set themselves up.
PY := .venv/bin/python
PYTEST := $(PY) -m pytest --dist loadfile --no-loadscope-reorder
PORT ?= 8080
BASE ?= python:3.11-slim
TAG ?= dev
# The plugin, or the one that setup brings.
COMPOSE ?= $(shell docker compose version >/dev/null 2>&1 && echo docker compose || echo .venv/bin/docker-compose)
ifdef OFFLINE
BASE := searchbus/base:offline
export COMPOSE_FILE := docker-compose.yml:deploy/offline/compose.yml
endif
export PORT TAG
IMAGES := $(notdir $(patsubst %/,%,$(dir $(wildcard services/*/pyproject.toml)))) cli
.DEFAULT_GOAL := help
.PHONY: help setup run test test-all check bench cluster chaos proto site lock dist release images up down clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' $(MAKEFILE_LIST) | expand -t 18
setup: ## .venv with packages, model and searchbus; returns at once when it is up to date
	@scripts/setup
run: setup ## start the stack on this machine, show that it works, stay up (PORT=8080 DATA=folder)
	@PATH="$(CURDIR)/.venv/bin:$$PATH" scripts/run $(if $(DATA),--data "$(DATA)") --port "$(PORT)"
test: setup ## the tests that need nothing but this machine, in about four minutes
	@$(PYTEST) -n 5 -m "not slow"
test-all: setup ## and those with containers, npm, linters of manifests and long storms
	@$(PYTEST) -n 6
check: setup ## lint, format, types; types also as on macOS
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy --platform darwin --no-warn-unreachable --cache-dir .mypy_cache/darwin libs/*/src services/*/src & \
		$(PY) -m mypy libs/*/src services/*/src; linux=$$?; wait $$! && exit $$linux
bench: setup ## measure; build/bench.json, docs/performance.md; PEERS=1: beside others, build/peers.json
	@$(PY) -m tests.bench$(if $(PEERS),.peers)
cluster: setup ## manifests, chart and drills at a real Kubernetes API server (Debian's etcd-server, ../shared/bin)
	@$(PYTEST) tests/cluster
chaos: setup ## inject faults into real processes; build/scorecard.json (ROWS=killed,stopped RUNS=3)
	@$(PY) -m tests.chaos $(if $(ROWS),--rows $(ROWS)) $(if $(RUNS),--runs $(RUNS)) $(if $(LONG),--long)
proto: setup ## generate proto/, and the services' blocks for Compose and Kubernetes, from the code
	@$(PY) proto/generate.py && $(PY) deploy/generate.py
site: setup ## build the documentation's site, check its links; build/site/index.html
	@$(PY) -m scripts.site
lock: ## resolve the lock files again (needs uv)
	@scripts/lock --upgrade
dist: setup ## wheel, sdist, constraints, licences into dist/, tried by every installer
	@scripts/dist dist && SEARCHBUS_DIST="$(CURDIR)/dist" $(PYTEST) tests/dist && cat build/dist.json
release: setup ## a release on this machine, of which nothing is published: VERSION=1.2.3, docs/release.md
	@$(PY) -m scripts.release "$(VERSION)"
images: ## one container image a service (BASE=python:3.11-slim TAG=dev OFFLINE=1)
	@$(if $(OFFLINE),scripts/setup && deploy/offline/images)
	@for service in $(IMAGES); do docker build -f services/Dockerfile --build-arg BASE="$(BASE)" \
		--build-arg VERSION="$(TAG)" --build-arg SOURCE="$(SOURCE)" --build-arg REVISION="$$(git rev-parse HEAD)" \
		--build-arg CREATED="$$(git show -s --format=%cI)" --build-arg SERVICE=$$service -t searchbus/$$service:$(TAG) . || exit 1; done
up: images ## the stack in containers (OFFLINE=1 without a registry)
	@$(COMPOSE) up -d --wait
down: ## stop the containers; documents stay
	@$(COMPOSE) --profile '*' down
clean: ## remove what setup, tests and runs made; your documents stay
	@rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
