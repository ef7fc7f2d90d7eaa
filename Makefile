# make render · make book · make release · make archive · make test · make lint · make findings · make lab · make help
# Everything happens in .venv, which is set up when a lock file changes.
# `make render STACK=newest` alone has an environment of its own, .venv-newest.
# TORCH=cuda or TORCH=cpu: which build of torch; left out, .ci/torch_index.py decides.
PYTHON ?= python3
EDITION ?= demo
CORES ?= all
FAST ?=
TORCH ?=
STACK ?=
NAME ?=
export PYTHONUNBUFFERED = 1
BIN = .venv/bin
NEWEST = .venv-newest/bin
READY = .venv/.ready

.PHONY: help render book release archive test lint findings lab clean
help:  ## this list
	@grep -E '^[a-z]+:.*##' Makefile | sed 's/:.*## /\t/' | expand -t 10
	@echo "Settings: EDITION=$(EDITION) CORES=$(CORES) PYTHON=$(PYTHON); such as make book EDITION=released CORES=4"

$(READY): requirements.lock requirements-builds.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed; name one: make PYTHON=python3.11"; exit 1; }
	@echo "Setting up .venv (once, a few minutes) ..."
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	@index=$$($(PYTHON) .ci/torch_index.py) && $(BIN)/pip install --quiet --disable-pip-version-check \
		--no-deps -r requirements-builds.lock $$index
	@# What a platform needs besides the pins: torch's CUDA on Linux, appnope on macOS.
	@$(BIN)/pip install --quiet --disable-pip-version-check -e ".[dev]"
	@touch $@

render: $(if $(filter newest,$(STACK)),.venv-newest/.ready,$(READY))  ## render the released pages as they are; run nothing (STACK=newest: by the newest Sphinx)
ifeq ($(STACK),newest)
	@rm -rf build/newest && mkdir -p build/newest
	@cp -r book/*.* book/_static book/_ext book/notebooks build/newest/
	@cd build/newest && "$(CURDIR)/$(NEWEST)/jupyter-book" config sphinx . \
		&& PYTHONPATH=_ext "$(CURDIR)/$(NEWEST)/sphinx-build" -q -W -n --keep-going -d _build/doctrees . _build/html
	@echo "The book: $(CURDIR)/build/newest/_build/html/index.html"
else
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/jupyter-book build book
endif

.venv-newest/.ready: .ci/newest.txt pyproject.toml
	@echo "Setting up .venv-newest (once, a few minutes) ..."
	@$(PYTHON) -m venv .venv-newest
	@index=$$($(PYTHON) .ci/torch_index.py) && $(NEWEST)/pip install --quiet --disable-pip-version-check \
		-r .ci/newest.txt -e ".[train,report]" $$index
	@$(NEWEST)/pip install --quiet --disable-pip-version-check --no-deps "jupyter-book>=1.0.4,<2"
	@touch $@

book: $(READY)  ## train the demo, run the notebooks, render the book (EDITION=cifar10 [TRAIN=1 [YES=1]])
	@$(if $(TRAIN),$(BIN)/python book/before.py $(EDITION) --cores $(CORES) $(if $(YES),--yes))
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/snakemake --cores $(CORES) --config edition=$(EDITION) $(if $(TRAIN),train=1)
	@echo "The book: $(CURDIR)/build/$(EDITION)/book/_build/html/index.html"

release: $(READY)  ## remake book/notebooks: the pages of the released edition, from its records
	@mkdir -p build/records && rm -rf build/records/runs  # the tables, and no folder of runs
	@rm -rf build/released/book/notebooks  # a page also depends on the packages: execute every page
	@[ -L build/records/released ] || ln -s $(CURDIR)/data_cache/released build/records/
	@CALIBKIT_CACHE=$(CURDIR)/build/records $(MAKE) --no-print-directory book EDITION=released
	@mkdir -p book/notebooks && cp build/released/book/notebooks/*.ipynb book/notebooks/
	@$(BIN)/nbstripout --keep-output --keep-count --keep-id --extra-keys \
		"metadata.papermill cell.metadata.papermill cell.metadata.execution" book/notebooks/*.ipynb
	@$(BIN)/python book/cover.py
	@echo "Render it with: make render"

archive: render  ## sources, records, the rendered book and their sums in one file, for Zenodo
	@$(BIN)/python .ci/archive.py

test: $(READY)  ## the whole test suite (FAST=1: without the slow tests)
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest -n auto --maxprocesses 4 \
		--dist loadfile --no-loadscope-reorder $(if $(FAST),-m "not slow")

lint: $(READY)  ## style, the rule that imports run downward, and the types promised to users
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports --no-cache \
		&& $(BIN)/python .ci/public_types.py

findings:  ## what other tools do that one would not guess (NAME=script: one of them); installs each tool
	@failed=; for script in $(if $(findstring command,$(origin NAME)),findings/$(NAME).sh,$(sort $(wildcard findings/*.sh))); do \
		echo "== $$script"; PYTHON=$(PYTHON) bash $$script || failed="$$failed $$script"; done; \
		[ -z "$$failed" ] || { echo "No longer as found:$$failed"; exit 1; }

lab: $(READY)  ## JupyterLab on the notebooks
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/jupyter lab --notebook-dir=notebooks

clean:  ## delete rendered books and scratch files; records and data stay
	rm -rf build book/_build .snakemake
