# Everything works on a fresh clone with python3, git and make: the targets create the virtual environment themselves.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Or each of a few hundred processes would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help venv check test fuzz controlplane cluster schemas grammar demo demo-fleet faults golden bench format lock clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

venv: $(READY) ## the virtual environment, with kubectl in it

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

check: venv ## style, types, direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: venv controlplane ## all tests; builds the control plane once (about five minutes)
	$(BIN)/python -m pytest --numprocesses 3 --dist worksteal

fuzz: venv ## random inputs for long: FUZZ=20 times the examples of the tests, then SECONDS=600 guided by coverage
	LEVELGATE_FUZZ=$(or $(FUZZ),20) $(BIN)/python -m pytest --numprocesses 2 --dist worksteal -m "not cluster" \
		tests/properties tests/gitops/rollouts tests/gitops/decisions tests/gitops/windows/test_naive.py \
		tests/renderer/cel/test_oracles.py tests/renderer/cel/test_type_check.py
	$(BIN)/python -m pip install --quiet "atheris>=3"
	$(BIN)/python -m tests.support.fuzz $(or $(SECONDS),600)

controlplane: venv ## the real kube-apiserver of the tests, built once and kept in the cache
	@$(BIN)/python tests/support/cluster/build.py > /dev/null

cluster: controlplane ## a control plane in the foreground: .cluster/kubeconfig; CLUSTERS=3 further ones: .cluster/c0.kubeconfig ...
	$(BIN)/python -m tests.support.cluster.serve $(if $(CLUSTERS),--clusters $(CLUSTERS))

schemas: controlplane ## what the program knows about built-in kinds, read anew from the API server
	$(BIN)/python -m tests.support.cluster.schemas

grammar: venv ## the tables of the parser of expressions, made anew from its grammar
	$(BIN)/python -m tests.support.cel.grammar_tables

demo: venv ## the main job on sample-repo, without a cluster: deploy, change, roll out, prune, break
	$(BIN)/python -m tests.support.demo.one_cluster

demo-fleet: venv ## several clusters, without any: placements, a cluster that hangs and comes back, one that is removed
	$(BIN)/python -m tests.support.demo.fleet

faults: controlplane ## kill it, and its API server, wherever that can be done; ONLY=kills,fleet-kills,histories,mutants,model,tests
	$(BIN)/python -m tests.support.faults $(if $(ONLY),--only $(ONLY))

golden: controlplane ## does the outside of the program differ from its golden record; RENEW=yes records it anew
	$(BIN)/python -m tests.support.golden $(if $(RENEW),record,compare)
	$(BIN)/python -m tests.support.golden local

bench: controlplane ## figures, as ratios against others in the same run
	$(BIN)/python -m bench

format: venv ## format and sort
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: venv ## renew requirements.lock from pyproject.toml
	$(BIN)/python -m piptools compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-emit-index-url \
		--no-emit-find-links --no-emit-trusted-host --extra dev --output-file requirements.lock pyproject.toml

clean: ## everything that these targets made, except the cached control plane
	rm -rf $(VENV) .cluster build *.egg-info .mypy_cache .ruff_cache .import_linter_cache
