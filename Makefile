# make demo   see texts rewritten, offline
# make test   lint, types, tests, docs: what CI runs
# Both make .venv and install what they need; a second run starts at once.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready

.PHONY: demo test format docs bench mutants clean

$(READY): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $(READY)

demo: $(READY)
	$(BIN)/python examples/demo.py

test: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(READY)
	$(BIN)/python docs/make_commands.py > docs/commands.md

bench: $(READY)
	$(BIN)/python benchmarks/rewriting.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/kills.py
	$(BIN)/python benchmarks/engines.py

# Break the code on purpose and see whether a test notices. All of it takes hours: ARGS='--sample 100' takes a part.
mutants: $(READY)
	$(BIN)/python -m benchmarks.mutants $(ARGS)

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis demo
