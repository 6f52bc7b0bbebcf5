# `make demo` and `make test` need Python 3.11+ and make, and nothing else.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys; raise SystemExit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
BIN := .venv/bin
RUNNING := .venv/.running
STAMP := .venv/.installed
JOBS ?= 2
# Neighbours stay in one process, which keeps what they share, until the other has run out.
PYTEST := $(BIN)/pytest -n $(JOBS) --dist worksteal

.PHONY: pages demo test lint types rooms certificates release-check certify checks unit test-core slow nightly tensorrt versions bench yardstick-quick yardstick yardstick-full docs pictures site wheel clean help

help:  ## show the targets
	@grep -hE '^[a-z-]+:.*##' Makefile | sed -E 's/:[^#]*## /\t/'

define install
@test -n "$(PYTHON)" || { echo "onnx-passes needs Python 3.11 or later on the PATH (or: make PYTHON=/path/to/python)"; exit 1; }
@echo "installing into .venv"
@$(PYTHON) -m venv .venv
@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '$(1)'
endef

# What running needs is a third of what the tests need.
$(RUNNING): pyproject.toml constraints.txt
	$(call install,.)
	@touch $@

$(STAMP): pyproject.toml constraints.txt
	$(call install,.[dev])
	@touch $(RUNNING) $@

demo: $(RUNNING)  ## optimise a real model, verified, and print the report
	cd examples/digits && ../../$(BIN)/onnx-passes -c pipeline.yaml -o ../../out/digits.onnx model.onnx

test: lint checks unit  ## everything that CI runs

checks: $(STAMP)
	$(MAKE) -j2 types certificates rooms

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

rooms: $(STAMP)
	$(BIN)/lint-imports

# Children import the package anew, and where PYTHONDONTWRITEBYTECODE is set would compile it.
unit: $(STAMP)
	$(BIN)/python -m compileall -q onnx_passes
	$(PYTEST)

# Data sets, tuning, compilers, the bench (compare, reduce, surgery, view) and certify.
ANNEXES := data tuning surgery benchmarks runtime/tensorrt certifying bench
ANNEXES += $(addprefix cli/test_, build* certify* compare* edit* extract* hostile* inspect_data* reduce* sanitize* tune* view*)
ANNEXES += test_bench* corpus/test_tensorrt* pipeline/test_compiling* report/test_model_page* report/test_comparison*

test-core: $(STAMP)  ## the tests without those of annexes
	$(BIN)/python -m compileall -q onnx_passes
	$(PYTEST) $(ANNEXES:%=--ignore-glob='tests/%')

certificates: $(STAMP)  ## has each pass a certificate that holds? warns of stale ones
	$(BIN)/onnx-passes certify --check

release-check: $(STAMP)  ## the same, and none is stale
	$(BIN)/onnx-passes certify --check --strict

certify: $(STAMP)  ## certify anew what changed (all rules: about an hour)
	$(BIN)/onnx-passes certify --stale --write -j $(JOBS)
	$(BIN)/python -m tests.certifying.frozen_set renew

slow: $(STAMP)  ## the tests that take minutes
	$(PYTEST) -m slow

nightly: $(STAMP)  ## all 2,033 backend test models and 2,000 random ones through every preset (hours)
	$(PYTEST) -m slow tests/corpus

# In an environment of its own: `make test` has to pass without NVIDIA's compiler. The bindings
# of tensorrt itself are there to be read, not called: its libraries are on no public index.
TENSORRT := .venv-tensorrt
tensorrt:  ## the tests that need NVIDIA's compiler, and no GPU (with one: those that execute, too)
	@test -n "$(PYTHON)" || { echo "onnx-passes needs Python 3.11 or later on the PATH (or: make PYTHON=/path/to/python)"; exit 1; }
	test -x $(TENSORRT)/bin/python || $(PYTHON) -m venv $(TENSORRT)
	$(TENSORRT)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,tensorrt-rtx]'
	for version in 10 11; do $(TENSORRT)/bin/python -m pip install --quiet --disable-pip-version-check \
		--no-deps --upgrade --target $(TENSORRT)/bindings-$$version "tensorrt-cu13-bindings==$$version.*"; done
	TENSORRT_BINDINGS=$(TENSORRT)/bindings-10:$(TENSORRT)/bindings-11 \
		$(TENSORRT)/bin/pytest -m "(tensorrt or gpu) and not slow"

versions: $(STAMP)  ## try each Python that is found with the oldest and the newest packages
	$(BIN)/python -m benchmarks versions

wheel: $(STAMP)  ## build the package: dist/onnx_passes-*.whl
	$(BIN)/python -m build --wheel --no-isolation

clean:  ## remove the environment and what was built
	rm -rf .venv .venv-tensorrt out build dist .mypy_cache .ruff_cache .pytest_cache

docs: $(STAMP)  ## write the generated pages
	$(BIN)/python docs/generate.py

site: $(STAMP)  ## build the documentation as pages in out/site, warnings as errors
	$(BIN)/sphinx-build -q -W --keep-going -b html docs out/site
	@echo "open out/site/index.html"

# Needs npm for axe-core, and Chromium. SITE_PAGES='*.html' checks every page (half an hour);
# pages of the passes are alike.
PAGES := out/pages
SITE_PAGES ?= [ms]*.html
pages: $(STAMP) site  ## check report, view, tune, data and site by axe in headless Chromium
	mkdir -p $(PAGES) && cd $(PAGES) && npm pack --silent axe-core@4.14.1 && tar xzf axe-core-4.14.1.tgz package/axe.min.js
	AXE=$(PAGES)/package/axe.min.js $(PYTEST) -m browser tests/docs/test_in_browser.py
	$(BIN)/python docs/check_pages.py --axe $(PAGES)/package/axe.min.js out/site/*.html out/site/passes/$(SITE_PAGES) out/site/maintainers/*.html out/site/maintainers/decisions/*.html

pictures: $(STAMP)  ## take the pictures of pages in docs/pictures anew, in headless Chromium
	$(BIN)/python docs/take_pictures.py

# Exported networks need PyTorch: benchmarks/README.md says how to make the folder NETWORKS.
NETWORKS ?= $(wildcard out/networks)
YARDSTICK := $(BIN)/python -m benchmarks yardstick run --jobs $(JOBS)$(if $(NETWORKS), --networks $(NETWORKS))

yardstick-quick: $(STAMP)  ## does the program say what it said? compared with frozen lines (5 minutes)
	$(YARDSTICK) quick

yardstick: $(STAMP)  ## the same of more models (40 minutes)
	$(YARDSTICK) room

yardstick-full: $(STAMP)  ## the same of all models; an interrupted run continues
	$(YARDSTICK) full

bench: $(STAMP)  ## measure; prints the tables of docs/benchmarks.md
	$(BIN)/python -m benchmarks
