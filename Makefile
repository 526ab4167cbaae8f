# Everything is installed into .venv; only python3 (3.11 or later), pip, venv and make are needed.
PYTHON ?= python3
BIN = .venv/bin

.PHONY: demo test test-slow test-browser check bench docs clean

demo: .venv/ready
	$(BIN)/diagnose fixtures/story/step6-triton-default.log || test $$? = 1

test: .venv/dev check
	$(BIN)/python -m pytest -n auto

test-slow: .venv/dev
	$(BIN)/python -m pytest -m slow

test-browser: .venv/dev
	$(BIN)/python -m pip install --quiet --group browser
	$(BIN)/python -m pytest -m slow tests/serve/test_browser.py tests/report/test_postmortem_browser.py

check: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/diagnose rules lint

docs: .venv/ready
	$(BIN)/python -m pip install --quiet --group docs
	$(BIN)/diagnose rules docs -o docs/catalogue
	$(BIN)/diagnose manual --format markdown -o docs/commands.md
	$(BIN)/zensical build --strict --clean
	@echo "the pages are in site/; with search: python3 -m http.server -d site"

bench: .venv/dev
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/throughput.py --runs 3

.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e .
	touch $@

.venv/dev: .venv/ready
	$(BIN)/python -m pip install --quiet --group dev
	touch $@

clean:
	rm -rf .venv build dist site docs/catalogue docs/commands.md .pytest_cache .mypy_cache .ruff_cache .hypothesis
