# Everything works on a fresh clone with python3, git and make: the targets create the virtual environment themselves.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Without bytecode files, each of a few hundred processes would compile every module.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help venv check test fuzz controlplane cluster schemas grammar demo demo-fleet faults golden bench format lock clean

help: ## print this list
	@awk -F ':.*## ' '/^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Work on a change

venv: $(READY) ## create the virtual environment, kubectl included

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

format: venv ## format and sort the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

check: venv ## check style, types and the direction of imports (seconds)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: venv controlplane ## run all tests; the first time this builds the control plane (five minutes)
	$(BIN)/python -m pytest --numprocesses 3 --dist worksteal

##@ Try it

demo: venv ## show the main job on sample-repo, on a sandbox: deploy, change, roll out, prune, break (a minute)
	$(BIN)/python -m tests.support.demo.one_cluster

demo-fleet: venv ## show several clusters on sandboxes: placement, an outage, a removal (two minutes)
	$(BIN)/python -m tests.support.demo.fleet

controlplane: venv ## build the real kube-apiserver of the tests, once, and keep it in the cache
	@$(BIN)/python tests/support/cluster/build.py > /dev/null

cluster: controlplane ## run a control plane in the foreground: .cluster/kubeconfig; CLUSTERS=3 adds .cluster/c0.kubeconfig and so on
	$(BIN)/python -m tests.support.cluster.serve $(if $(CLUSTERS),--clusters $(CLUSTERS))

##@ Test longer

golden: controlplane ## compare writes and outputs with the golden record; RENEW=yes replaces the record (five minutes)
	$(BIN)/python -m tests.support.golden $(if $(RENEW),record,compare)
	$(BIN)/python -m tests.support.golden local

faults: controlplane ## kill the program and its API server at every write; ONLY=kills,fleet-kills,histories,mutants,model,tests (an hour)
	$(BIN)/python -m tests.support.faults $(if $(ONLY),--only $(ONLY))

fuzz: venv ## random inputs: FUZZ=20 times the examples of the tests, then SECONDS=600 guided by coverage (an hour)
	LEVELGATE_FUZZ=$(or $(FUZZ),20) $(BIN)/python -m pytest --numprocesses 2 --dist worksteal -m "not cluster" \
		tests/properties tests/gitops/rollouts tests/gitops/decisions tests/gitops/windows/test_naive.py \
		tests/renderer/cel/test_oracles.py tests/renderer/cel/test_type_check.py
	$(BIN)/python -m pip install --quiet "atheris>=3"
	$(BIN)/python -m tests.support.fuzz $(or $(SECONDS),600)

bench: controlplane ## measure, as ratios against other programs in the same run
	$(BIN)/python -m bench

##@ Generate and clean up

schemas: controlplane ## read the schemas of built-in kinds from the API server
	$(BIN)/python -m tests.support.cluster.schemas

grammar: venv ## generate the parser tables of expressions from their grammar
	$(BIN)/python -m tests.support.cel.grammar_tables

lock: venv ## renew requirements.lock from pyproject.toml
	$(BIN)/python -m piptools compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-emit-index-url \
		--no-emit-find-links --no-emit-trusted-host --extra dev --output-file requirements.lock pyproject.toml

clean: ## remove everything that these targets made, except the cached control plane
	rm -rf $(VENV) .cluster build *.egg-info .mypy_cache .ruff_cache .import_linter_cache
