# Draftscope: `make run` opens the dashboard, `make test` runs everything. Both set up .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: run test lint bench gpu space-test clean

run: $(READY)
	$(BIN)/draftscope serve

# Two files at a time, a thread each: threads of two that wait for each other take longer than both in turn.
test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist loadfile

lint: $(READY)
	$(BIN)/ruff check engine app tests
	$(BIN)/ruff format --check engine app tests
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)
	$(BIN)/draftscope bench --out bench

# On a machine with CUDA; needs torch, transformers, pydantic, scipy, but no environment of ours and no gradio.
gpu:
	PYTHONPATH=engine $(PYTHON) -m draftscope.measure.gpu --out $${OUT:-bench}

# The Space as a Space has it: its folder, an environment of its requirements, its start, and a browser.
space-test: $(READY)
	rm -rf build/space build/space-venv
	$(BIN)/draftscope space build build/space
	$(PYTHON) -m venv build/space-venv
	build/space-venv/bin/python -m pip install --quiet --requirement build/space/requirements.txt
	DRAFTSCOPE_SPACE=build/space DRAFTSCOPE_SPACE_PYTHON=build/space-venv/bin/python DRAFTSCOPE_REQUIRE_BROWSER=1 \
		$(BIN)/python -m pytest tests/test_space_page.py

$(READY): pyproject.toml tests/constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint tests/constraints.txt --editable '.[app,dev]'
	touch $(READY)

clean:
	rm -rf $(VENV) build dist bench runs tests/artifacts
