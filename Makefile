# Everything that is done to the course. `make` alone lists it.

SHELL := /bin/bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory --no-builtin-rules

PYTHON ?= $(shell python3.11 -c 'print("python3.11")' 2>/dev/null || echo python3)
VENV ?= .venv
TORCH ?= auto
BROWSER ?= auto
JOBS ?= 2
PORT ?= 8000
PY ?= python3

BIN = $(VENV)/bin
RUN = $(BIN)/python -m
PIP = $(RUN) pip install -qq --disable-pip-version-check
LIGHTHOUSE = tests/lighthouse/node_modules/.package-lock.json

.PHONY: help book serve lab env torch browser grading new notebooks lint stamp test \
  test-tracecheck lighthouse test-accelerator check-address check-setup lock latest clean

help:
	@echo 'JAX for PyTorch Developers'
	@awk -F ':.*## ' '/^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo 'Settings, with what stands now:'
	@echo '  PYTHON=$(PYTHON)  VENV=$(VENV)  TORCH=$(TORCH)  BROWSER=$(BROWSER)  JOBS=$(JOBS)  PORT=$(PORT)'

##@ Read and learn
book: env ## build the site into _build/html
	@echo 'Building the site from the committed notebooks'
	@$(BIN)/jupyter-book build . -W -n --keep-going -q >/dev/null
	@! grep -qF '/OWNER/' _build/html/intro.html || \
	  echo 'Its links still say OWNER: set repository.url in _config.yml, then make stamp'
	@echo 'Open $(CURDIR)/_build/html/index.html'

serve: book ## build the site and serve it on 127.0.0.1:PORT
	@echo 'Serving http://127.0.0.1:$(PORT), Ctrl-C stops'
	@$(RUN) http.server $(PORT) --bind 127.0.0.1 --directory _build/html >/dev/null

lab: env ## copy new exercises to work/ and open them in JupyterLab
	@$(RUN) coursekit lab

##@ Write
new: env ## start a chapter: make new NAME=08_optax TITLE='Optax for optimisers'
	@test -n '$(NAME)' || { echo 'Say which: make new NAME=08_optax'; exit 1; }
	@$(RUN) coursekit new '$(NAME)' $(if $(TITLE),--title '$(TITLE)')

notebooks: env $(VENV)/.torch-auto ## run the sources that changed, and write their notebooks
	@$(RUN) coursekit build

lint: env ## hold sources and notebooks to the rules of the course
	@$(RUN) coursekit lint

stamp: env ## write the repository's address into the notebooks, running nothing
	@$(RUN) coursekit stamp

##@ Test
test: env $(VENV)/.torch-$(TORCH) ## run all tests and notebooks; TORCH and BROWSER=auto|require|skip
	@echo 'Testing with $(JOBS) processes; the first run fills JAX'\''s cache in .cache/'
	@TORCH=$(TORCH) BROWSER=$(BROWSER) $(RUN) pytest -q -n $(JOBS)

test-tracecheck: env ## test the library alone
	@$(RUN) pytest -q tests/tracecheck

lighthouse: book $(LIGHTHOUSE) ## audit four pages of the site; needs a Chromium, Node.js and minutes
	@$(RUN) tests.lighthouse.run _build/html

test-accelerator: ## run the notebooks on this machine's GPU or TPU, with the Python PY
	@$(PY) .ci/require_accelerator.py
	@XLA_PYTHON_CLIENT_PREALLOCATE=false PYTHONPATH='$(CURDIR)' \
	  $(PY) -m pytest -q chapters solutions reference

check-setup: ## run the notebooks' setup cell with PY, as Colab does
	@$(PY) .ci/check_setup.py

check-address: book ## fail while OWNER stands in what would be published
	@echo 'Looking for the placeholder OWNER, and for notebooks with another address'
	@! grep -rlF '/OWNER/' _build/html --include='*.html' --include='*.ipynb' || \
	  { echo 'These hold OWNER: set repository.url in _config.yml, run make stamp, commit'; exit 1; }
	@$(RUN) coursekit stamp --check

##@ Install
env: $(VENV)/.installed ## make the environment VENV from the lock

torch: $(VENV)/.torch-require ## add PyTorch to it

browser: ## install what the browser tests need: Chromium (apt) and axe-core (npm)
	@.ci/install_browser

grading: env ## install what the tests of the grader need: bubblewrap, Dask, nbgrader
	@.ci/install_grading $(BIN)/python

lock: ## compile requirements.in into requirements.txt (needs uv)
	@echo 'Locking requirements.in for Python 3.11 to 3.13'
	@uv pip compile requirements.in --quiet --universal --python-version 3.11 \
	  --generate-hashes --no-header --no-emit-index-url --no-emit-find-links \
	  --output-file requirements.txt

latest: env ## replace the locked jax, flax and optax in VENV by their newest
	@echo 'Installing the newest jax, flax and optax into $(VENV)'
	@$(PIP) --upgrade jax jaxlib flax optax

clean: ## remove what was built and cached; environments and work/ stay
	rm -rf _build build dist .cache .pytest_cache .hypothesis *.egg-info

$(VENV)/.installed: requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; (3, 11) <= v[:2] <= (3, 13) or sys.exit( \
	  f"The course needs Python 3.11, 3.12 or 3.13, and $(PYTHON) is {v[0]}.{v[1]}: pass PYTHON=python3.11.")'
	@echo 'Installing the locked packages into $(VENV): a minute or two'
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --require-hashes -r requirements.txt
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.torch-%: $(VENV)/.installed requirements-torch.txt
	@$(BIN)/python .ci/install_torch.py --mode $*
	@touch $@

$(LIGHTHOUSE): tests/lighthouse/package-lock.json
	@echo 'Installing Lighthouse from npm into tests/lighthouse'
	@npm ci --silent --prefix tests/lighthouse
	@touch $@
