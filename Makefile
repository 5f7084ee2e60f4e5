# Two commands: `make audit` shows what the package is for, `make check` is every check there is, the same in CI.
# Needs nothing but make and a Python >= 3.11 with venv. A pip index and proxies are taken from pip's own configuration.

PYTHON ?= python3
VENV ?= .venv
ARGS ?=
# Test processes: one more than there are cores, for those that test processes of their own mostly wait.
JOBS ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))

BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
DEVELOPMENT := $(VENV)/.development
SITE := .cache/site

SHELL := /bin/sh
.SHELLFLAGS := -ec
.DELETE_ON_ERROR:
.NOTPARALLEL:
# Another project's modules on the path would be tested in place of the pinned ones.
unexport PYTHONPATH PYTHONHOME
# Hundreds of processes would each compile the package, and pytest rewrite all asserts in each worker, at every run.
unexport PYTHONDONTWRITEBYTECODE

# $(call step,name,commands): says what runs and how long it took; the first command that fails stops it.
step = @echo "== $(1)"; start=$$(date +%s); $(2); echo "== $(1): done in $$(( $$(date +%s) - start )) s"

# Each test process has one thread: kernels that share the cores among them would wait for each other. Each
# begins with a part of the files, and takes tests from another one when it has none left, so that none is idle.
ALONE := NUMBA_NUM_THREADS=1 OMP_NUM_THREADS=1
PYTEST := $(ALONE) $(BIN)/python -m pytest -q --tb=short -n $(JOBS) --dist worksteal
NOTEBOOKS := tests/repository/test_notebooks.py

# Hypothesis draws other examples in each run, in CI too; the seed is printed, and ARGS=--hypothesis-seed=N repeats it.
SEED := $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
SEEDED = $(if $(findstring --hypothesis-seed,$(ARGS)),,--hypothesis-seed=$(SEED))

HASHED := --require-hashes --no-deps

# $(call pip,python,log,arguments): what pip says is shown when it fails, in full.
pip = $(1) -m pip --disable-pip-version-check install $(3) > $(2) 2>&1 || { cat $(2); exit 1; }

.PHONY: audit check environment lint types docs pictures tests notebooks mutants fuzz newest wheel constraints clean
.DEFAULT_GOAL := check

audit: $(RUNTIME)
	@$(BIN)/fgl-secure audit $(ARGS)

# Tests and notebooks are one run of pytest, so that there is one end at which cores are idle and not two. What begins it
# waits for most of its time, and meanwhile types and pages, which keep one core busy, are looked at; they give way, for
# tests with processes have deadlines. What they say is shown when the tests are over, and each one's failure is the
# whole's.
check: lint
	@aside=$$(mktemp); status=0; \
	nice -n 19 $(MAKE) --no-print-directory types docs > "$$aside" 2>&1 & others=$$!; \
	trap 'kill $$others 2> /dev/null || true; rm -f "$$aside"' EXIT; \
	$(MAKE) --no-print-directory tests NOTEBOOKS= || status=$$?; \
	wait $$others || status=$$?; \
	cat "$$aside"; \
	[ $$status = 0 ] || { echo "== a check failed"; exit $$status; }
	@echo "== all checks passed"

environment: $(DEVELOPMENT)

lint: $(DEVELOPMENT)
	$(call step,lint,$(BIN)/ruff check --quiet .; $(BIN)/ruff format --check --quiet .)

types: $(DEVELOPMENT)
	$(call step,types,$(BIN)/mypy)

# The pages as a site, in $(SITE): warnings are errors, and so is whatever a page would load from the network. Not with
# --quiet, which drops warnings before --strict counts them.
docs: $(DEVELOPMENT)
	$(call step,docs,NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --site-dir $(SITE); \
		$(BIN)/python tests/repository/site_contents.py $(SITE))

# What pages say of schemes and methods, and their pictures, made anew.
pictures: $(DEVELOPMENT)
	$(call step,pictures,$(BIN)/python -m tests.repository.page_tables; $(BIN)/python -m tests.repository.pictures)

tests: $(DEVELOPMENT)
	$(if $(SEEDED),@echo "== tests: to repeat the drawn examples: make tests ARGS=$(SEEDED)")
	$(call step,tests,$(PYTEST) $(addprefix --ignore=,$(NOTEBOOKS)) $(SEEDED) $(ARGS))

notebooks: $(DEVELOPMENT)
	$(call step,notebooks,$(PYTEST) $(NOTEBOOKS))

# Each mutant makes one promise untrue in a copy of the source; its tests must notice. ARGS="--sample 10" takes ten, and
# leaves out what follows: statistics at production size with a run of the protocol for each sample, 20 minutes of them.
mutants: $(DEVELOPMENT)
	$(call step,mutants,$(ALONE) $(BIN)/python -m tests.mutants $(ARGS))
	$(if $(ARGS),,$(call step,statistics with a run for each sample,FGL_SECURE_ENTRIES=1 $(ALONE) $(BIN)/python -m pytest -v --tb=short -n $(JOBS) --dist load --maxschedchunk 1 -k entries_a_run tests/protocols))

# 100,000 messages that somebody who means harm makes of genuine ones, for all schemes and Flower. ARGS="--seed N" repeats.
fuzz: $(DEVELOPMENT)
	$(call step,fuzz,$(ALONE) $(BIN)/python -m tests.fuzz $(ARGS))

# The Flower layer with the newest Flower that pyproject.toml admits, in an environment on top of this one.
newest: $(DEVELOPMENT)
	$(call step,newest Flower,.ci/newest $(BIN)/python)

# What users get: sdist and wheel, built from a copy, tested in a second environment away from this tree.
wheel: $(DEVELOPMENT)
	@.ci/wheel $(BIN)/python $(ARGS)

# The package is installed editable: who changes a line sees the change in the next `make audit`, and `make check`
# checks what is on disk. That the package also works when it is really installed is what `make wheel` is for.
# pip refuses an editable install among requirements with hashes. So first come all pinned files of a section, each checked
# against its hashes and without looking for what they need; then the package, with what is left: nothing here, GPU
# libraries where the build of torch wants them. A build of torch among pip's find-links comes before that of the index:
# with hashes pip would prefer files whose hash the index lists, and take gigabytes of GPU libraries. setuptools comes
# before all, and builds without isolation: an isolated build would fetch an unpinned one.
# A change of pyproject.toml or constraints.txt updates the environment in place; `make clean` makes the next one afresh.
define install
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; found " + sys.version.split()[0])'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@sed '/^# -- $(2)$$/,$$d' constraints.txt > $(VENV)/pins.txt
	@grep '^setuptools==' $(VENV)/pins.txt > $(VENV)/setuptools.txt
	@sed 's/ .*//' constraints.txt > $(VENV)/versions.txt
	@$(call pip,$(BIN)/python,$(VENV)/pip.log,$(HASHED) -r $(VENV)/setuptools.txt)
	@grep '^torch==' $(VENV)/pins.txt > $(VENV)/torch.txt
	@$(BIN)/python -m pip --disable-pip-version-check install --no-index $(HASHED) -r $(VENV)/torch.txt \
		> $(VENV)/pip.log 2>&1 || true
	@$(call pip,$(BIN)/python,$(VENV)/pip.log,$(HASHED) --no-build-isolation -r $(VENV)/pins.txt)
	@$(call pip,$(BIN)/python,$(VENV)/pip.log,-c $(VENV)/versions.txt --no-build-isolation -e '$(1)')
	@$(call pip,$(BIN)/python,$(VENV)/pip.log,--no-deps --no-build-isolation -e ./reproduction)
	@touch $@
endef

$(RUNTIME): pyproject.toml reproduction/pyproject.toml constraints.txt
	@echo "== environment in $(VENV): about three minutes, once"
	$(call install,.,development)

$(DEVELOPMENT): pyproject.toml reproduction/pyproject.toml constraints.txt
	@echo "== development environment in $(VENV): about three minutes, once"
	$(call install,.[dev],other extras)
	@touch $(RUNTIME)

# Pins the newest versions that pyproject.toml admits and the index has, with the hashes of their files. To hold a package
# back: make constraints ARGS='torch==2.13.0'
constraints:
	@$(PYTHON) .ci/pins.py $(ARGS)

clean:
	@rm -rf $(VENV) .cache build dist *.egg-info
