# make demo   see texts rewritten, offline
# make test   lint, types, tests, docs: what CI runs
# Both make .venv. demo installs the core, and test all extras and the tools of development on top. A second run starts
# at once.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
TOOLS := .venv/tools

.PHONY: demo test browser format docs bench mutants clean

$(READY): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	touch $(READY)

$(TOOLS): $(READY)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[all,dev]'
	touch $(TOOLS)

demo: $(READY)
	$(BIN)/python examples/demo.py

# The tests of the page need a Chromium. Without one they fail, and say so.
browser: $(TOOLS)
	@which chromium chromium-browser google-chrome google-chrome-stable | grep -q . \
	|| { apt-get update -qq && apt-get install -qq --yes --no-install-recommends chromium; } \
	|| $(BIN)/playwright install chromium \
	|| echo "No Chromium could be installed. The tests of the page will fail."

test: $(TOOLS) browser
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --python-version 3.10 # the oldest that we claim; ruff reads it from pyproject.toml
	$(BIN)/pytest --numprocesses 2 --dist loadfile --ignore tests/page
	$(BIN)/pytest tests/page # by themselves: a browser and its server take a core each

format: $(TOOLS)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(TOOLS)
	$(BIN)/python docs/make_docs.py
	$(BIN)/python docs/make_screenshot.py

bench: $(TOOLS)
	$(BIN)/python benchmarks/answers.py
	$(BIN)/python benchmarks/rewriting.py
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/decoding.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/kills.py
	$(BIN)/python benchmarks/synthesizing.py
	$(BIN)/python benchmarks/engines.py
	$(BIN)/python benchmarks/serving.py
	$(BIN)/python benchmarks/people.py

# Break the code on purpose and see whether a test notices. All of it takes hours: ARGS='--sample 100' takes a part.
mutants: $(TOOLS)
	$(BIN)/python -m benchmarks.mutants $(ARGS)

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis demo
