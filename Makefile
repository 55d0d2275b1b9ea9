# The front door. Every verb is a script of the same name in scripts/, which can be run by itself.
# ARGS goes on to the program behind run, test and bench: make test ARGS="-k shell".

.DEFAULT_GOAL := help
.PHONY: help setup wheel editor image web run test test-fast test-docker test-editor test-openhands test-fresh check check-extension check-web fix bench pictures clean

help: ## list these verbs
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):[^#]*## /  make \1|/' | awk -F'|' '{ printf "%-22s %s\n", $$1, $$2 }'

setup: ## make .venv, install what is needed and build the page; quick when nothing changed
	@scripts/setup
	@scripts/web || { status=$$?; [ $$status -lt 128 ] || exit $$status; \
	    echo "setup: the hub's page was not built; the reason is above, and \`make web\` tries again" >&2; }

editor: ## install the VS Code for the browser that `make run` opens (800 MB, once)
	@scripts/editor

image: ## build the image that sandboxes of kind docker start from (2.9 GB)
	@scripts/image $(ARGS)

wheel: ## build the wheel, with page and extension in it, and the .vsix, into dist/
	@scripts/wheel

run: ## set up, then ./workspace as a session: a page with its VS Code at one address, and a prompt (bascule up)
	@scripts/run $(ARGS)

test: ## set up, check, then all tests, the last of them in a real VS Code
	@scripts/test $(ARGS)

test-fast: ## set up, then the tests that finish while you look
	@scripts/test -m "not slow and not editor and not docker" $(ARGS)

test-docker: ## set up, then the tests in containers, on a Docker engine of their own
	@scripts/setup
	@scripts/test-docker $(ARGS)

test-editor: ## set up, then the tests in a real VS Code in a real browser
	@scripts/setup
	@scripts/test-editor $(ARGS)

test-openhands: ## the runtime tests of OpenHands V0, from OPENHANDS_SRC=<a checkout of its 0.62>, in our sandbox
	@scripts/openhands_tests "$(OPENHANDS_SRC)" $(ARGS)

test-fresh: ## what the README says, on machines nobody has used; minutes, and root; ARGS names trials
	@scripts/setup
	@scripts/test-fresh $(ARGS)

check: ## formatters, linters, strict types, import directions, version
	@scripts/check

web: ## build the page that a hub shows at its address; quick when nothing changed
	@scripts/web

check-web: ## the page's formatter, linter, types and unit tests
	@scripts/node_modules web
	@cd web && npm run --silent format && npm run --silent lint && npm run --silent types && npm test --silent

check-extension: ## the extension's formatter, linter, types and unit tests
	@scripts/node_modules
	@cd extension && npm run --silent format && npm run --silent lint && npm run --silent types && npm test --silent

fix: ## let the formatter and linter repair what they can
	@scripts/fix

bench: ## set up, then measure; writes benchmarks/RESULTS.md
	@scripts/bench $(ARGS)

pictures: ## set up, then take the README's pictures and its animation anew, of real runs (as root)
	@scripts/pictures

clean: ## remove what the other verbs made
	@scripts/clean
