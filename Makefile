# Every target calls the script of the same name in scripts/, which can also be run directly.
# ARGS is passed to the program behind run, dev, test and bench: make test ARGS="-k shell".

.DEFAULT_GOAL := help
.PHONY: help setup wheel editor image web run dev test test-fast test-docker test-kubernetes test-editor test-openhands test-fresh check check-extension check-web fix bench pictures clean

help: ## list these targets
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):[^#]*## /  make \1|/' | awk -F'|' '{ printf "%-22s %s\n", $$1, $$2 }'

setup: ## create .venv, install all dependencies and build the hub's page; fast if nothing changed
	@scripts/setup
	@scripts/web || { status=$$?; [ $$status -lt 128 ] || exit $$status; \
	    echo "setup: the hub's page was not built; see the reason above, then try \`make web\`" >&2; }

editor: ## install VS Code for the browser, which `make run` opens (800 MB, once)
	@scripts/editor

image: ## build the container image for sessions of the docker spawner (2.9 GB)
	@scripts/image $(ARGS)

wheel: ## build the wheel, including page and extension, and the .vsix into dist/
	@scripts/wheel

run: ## set up, then open ./workspace as a session with VS Code in the browser and a prompt (bascule up)
	@scripts/run $(ARGS)

dev: ## set up, then run a hub that restarts on changes; page and extension are rebuilt on changes
	@scripts/dev $(ARGS)

test: ## set up, run all checks and all tests: containers and a real VS Code included
	@scripts/test $(ARGS)

test-fast: ## set up, then run only the fast tests
	@scripts/test -m "not slow and not editor and not docker and not kubernetes" $(ARGS)

test-docker: ## set up, then run the tests in containers, on a Docker engine that they start (as root)
	@scripts/setup
	@scripts/test-docker $(ARGS)

test-kubernetes: ## set up, then run the tests in a Kubernetes cluster, which the first run builds (as root)
	@scripts/setup
	@scripts/kubernetes
	@scripts/test-kubernetes $(ARGS)

test-editor: ## set up, then run the tests in a real VS Code in a real browser
	@scripts/setup
	@scripts/test-editor $(ARGS)

test-openhands: ## run OpenHands V0's own runtime tests in our sandbox; OPENHANDS_SRC=<checkout of its 0.62>
	@scripts/openhands_tests "$(OPENHANDS_SRC)" $(ARGS)

test-fresh: ## set up, then follow the README on fresh machines (as root; some minutes); ARGS names trials
	@scripts/setup
	@scripts/test-fresh $(ARGS)

check: ## run formatters, linters, type checkers, import rules and the version check; changes nothing
	@scripts/check

web: ## build the hub's page; fast if nothing changed
	@scripts/web

check-web: ## run the page's formatter, linter, type checker and unit tests
	@scripts/node_modules web
	@cd web && npm run --silent format && npm run --silent lint && npm run --silent types && npm test --silent

check-extension: ## run the extension's formatter, linter, type checker and unit tests
	@scripts/node_modules
	@cd extension && npm run --silent format && npm run --silent lint && npm run --silent types && npm test --silent

fix: ## format the code, apply the linters' automatic fixes and regenerate docs/cli.md
	@scripts/fix

bench: ## set up, then run the benchmarks; writes benchmarks/RESULTS.md
	@scripts/bench $(ARGS)

pictures: ## set up, then record the README's pictures and animation from real runs (as root)
	@scripts/pictures

clean: ## remove everything the other targets created
	@scripts/clean
