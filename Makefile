# The two commands: `make book` renders the book, `make test` proves it. Both set up what they need.

PYTHON ?=
JOBS ?= 2
PORT ?= 8000
PAGE := _build/html/index.html
RUN := .venv/bin/python
PYTEST := $(RUN) -m pytest -n $(JOBS) --dist loadfile --nbval --nbval-current-env --nbval-cell-timeout 300
# Images for containers often forbid it; then every process compiles the package and all tests anew.
export PYTHONDONTWRITEBYTECODE :=

help:  ## list what can be made
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' Makefile | expand -t 20

book: environment  ## render the book (HTML)
	@$(RUN) tools/build.py
	@echo "The book is at file://$(CURDIR)/$(PAGE)"

pdf: book  ## print the whole book to book.pdf (with Chromium; offline)
	@$(RUN) tools/pdf.py

serve: book  ## render the book and show it on this machine only (PORT=8000)
	@$(RUN) tools/serve.py --port $(PORT)

test: environment check  ## run every check: style, package, notebooks, rendered pages

quick: environment style  ## within a minute: style, quick tests, those of what changed, changed notebooks
	@$(PYTEST) --quick tests $$(git diff --name-only --diff-filter=d HEAD -- 'book/*.ipynb')

check: style  ## run every check with whatever is installed in .venv (a newer PyTorch, say)
	@$(PYTEST) tests book

style:  ## the form of the code alone
	@$(RUN) -m ruff check --quiet .
	@$(RUN) -m ruff format --check --quiet .

elsewhere: environment  ## rehearse everything on other roundings, processors and threads (hours; PLACES=avx2 for one)
	@$(RUN) tools/elsewhere.py --jobs $(JOBS) $(if $(PLACES),--places $(PLACES))

execute: environment  ## run notebooks and store their outputs (CHAPTER=01 for one, JOBS=2 at a time)
	@$(RUN) tools/execute.py --jobs $(JOBS) $(CHAPTER)

workbooks: environment  ## make the workbooks anew from the lessons and the exercises
	@$(RUN) tools/workbooks.py

report: environment  ## count the cells that are compared strictly
	@$(RUN) tools/report.py

repository: environment  ## set the public address everywhere: make repository URL=https://github.com/you/decoder-only
	@$(RUN) tools/repository.py "$(URL)"

environment:  ## set up .venv (done by the others when needed; PYTHON= chooses the interpreter)
	@PYTHON="$(PYTHON)" sh tools/setup.sh

clean:  ## remove what was built
	@rm -rf _build build .pytest_cache .ruff_cache .hypothesis

clean-venv:  ## remove the virtual environment
	@rm -rf .venv

# The checks come after the environment that they need, also with make -j.
.NOTPARALLEL:
.PHONY: help book pdf serve test quick check style elsewhere execute workbooks report repository environment clean clean-venv
.DEFAULT_GOAL := help
