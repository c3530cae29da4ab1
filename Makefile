# Every target sets up first; what is in place already costs a fraction of a second.
# `make help` lists the targets. ARGS reaches the command: make test ARGS="-k windower", make demo ARGS="--parity".

BIN := .venv/bin
ARGS ?=
# The first Python here that recd supports. A shim that names a version it does not have is passed over.
PYTHON = $(shell for python in python3.11 python3.12 python3; do \
	"$$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))' 2>/dev/null \
	&& echo "$$python" && break; done)

.DEFAULT_GOAL := help
.PHONY: help setup demo test check audit up down clean require-kafka require-python

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

require-python:
	@test -n "$(PYTHON)" || { echo 'setup: error: no Python 3.11 or 3.12 here' >&2; \
	echo 'what to do: apt-get install python3.11 (Debian 12 has it as python3), or install one with pyenv' >&2; exit 1; }

setup: require-python ## .venv from uv.lock, Kafka's jars by Maven; warns without a JDK
	@$(PYTHON) -m infra.setup

require-kafka: require-python
	@$(PYTHON) -m infra.setup --require-kafka

demo: setup ## real log -> Kafka -> sessions -> IKJT -> trained model, with a picture in demo-report/
	@$(BIN)/recd demo $(ARGS)

# Three processes, each with services of its own: two cores wait for Kafka a third of the time. A file's tests stay
# together and in order. Without: ARGS="-n 0".
test: require-kafka ## all tests, on real Kafka and Redis; about a quarter of an hour
	@$(BIN)/pytest -n 3 --dist loadscope --no-loadscope-reorder $(ARGS)

check: setup ## format, lint, types and layers, as CI runs them; changes nothing
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

audit: require-kafka ## the long bars: kills, fuzz, soak; hours
	@$(BIN)/pytest -m audit --timeout=0 $(ARGS)

up: setup ## start local Kafka and Redis
	@$(BIN)/recd up $(ARGS)

down: setup ## stop them; their data stays
	@$(BIN)/recd down $(ARGS)

clean: ## stop the services and remove all that make made, their data included
	@if [ -x $(BIN)/recd ]; then $(BIN)/recd down; fi
	rm -rf .recd .kafka .kafka.new .tools .venv demo-report .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find streams sessionizer trainer state infra tests -name __pycache__ -type d -prune -exec rm -rf {} +
