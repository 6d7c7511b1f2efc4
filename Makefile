# Needs Node >= 20, npm, make and git. npm installs the Node that runs, tests and is packed into Assay; it comes first on
# PATH for everything but npm itself.

SYSTEM_PATH := $(PATH)
export PATH := $(CURDIR)/node_modules/.bin:$(PATH)
NODE := $(CURDIR)/node_modules/.bin/node

all-below = $(foreach entry,$(wildcard $(1)/*),$(call all-below,$(entry)) $(entry))
SOURCES := $(wildcard schema.sql) package.json package-lock.json $(call all-below,src) $(call all-below,bin)
INSTALLED := node_modules/.package-lock.json

help:
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1	\2/p' Makefile

run: build ## build, then serve a development instance on http://127.0.0.1:8001 (data in .assay-dev)
	dist/assay dev --data .assay-dev --listen 127.0.0.1:8001

test: dist/assay ## run the whole suite; PATTERN=regexp chooses files by their path below test/
	@$(NODE) test/run.ts '$(PATTERN)'

check: | $(INSTALLED) ## check types, format and lint, and the rules that the code keeps
	node_modules/.bin/tsc --noEmit
	node_modules/.bin/biome check --error-on-warnings
	@$(NODE) test/run.ts '^rules/'

format: | $(INSTALLED) ## format the code, and remove imports that nothing uses
	node_modules/.bin/biome check --write

build: dist/assay ## build the executable dist/assay

# The list of operations comes first, in a process of its own: all other goldens are derived from it.
golden: | $(INSTALLED) ## rewrite from the code what is derived from it: src/api/index.ts and the golden files
	@UPDATE_GOLDENS=1 $(NODE) test/run.ts '^rules/operation-index'
	@UPDATE_GOLDENS=1 $(NODE) test/run.ts '^rules/'

bench: dist/assay ## measure the executable
	$(NODE) test/bench/main.ts

bench-data: | $(INSTALLED) ## build a database of 200,000 artifacts and 1,000,000 attestations for make bench (2 minutes, 4 GB in .build)
	@$(NODE) test/bench/data.ts

openapi-check: | $(INSTALLED) ## lint the OpenAPI document, and generate, compile and use clients in Python, Go and TypeScript (needs the registries once)
	@SYSTEM_PATH='$(SYSTEM_PATH)' $(NODE) test/openapi/main.ts

fixture: | $(INSTALLED) ## keep a database of this schema for the upgrade tests of all later versions; at a release that changed the schema
	$(NODE) test/cases/upgrades/make.ts

crash: dist/assay ## kill the executable under load, simulate power cuts, send every attack; nothing acknowledged may be lost
	$(NODE) test/crash/main.ts
	$(NODE) test/attacks/loop-delay.ts
	$(NODE) test/attacks/memory.ts

soak: dist/assay ## ten minutes of mixed load with a backup and restore every minute and kill -9 every 20 s
	$(NODE) test/soak/main.ts

litestream: dist/assay .build/tools/litestream ## follow the standby page with the real Litestream: kill -9 of A, restore on B, verify
	$(NODE) test/litestream/main.ts

smoke: dist/assay ## try the executable alone, and build it again from a clone to compare the bytes
	@$(NODE) bin/smoke.ts

dist: dist/assay ## pack the executable with units, manual, completions, licences and checksums into dist/assay-VERSION-linux-x64.tar.gz
	@$(NODE) bin/dist.ts

image: dist/assay ## write what docker build needs to dist/image
	@rm -rf dist/image; dist/assay docker dist/image

clean: ## remove what was built (not node_modules, not .assay-dev)
	rm -rf dist .build

dist/assay: $(SOURCES) .build/commit | $(INSTALLED)
	$(NODE) bin/build.ts

# The commit is part of the executable; the file changes only when the commit does.
.build/commit: always
	@mkdir -p .build; commit=$$(git rev-parse HEAD 2>/dev/null || echo unknown); \
	[ "$$(cat $@ 2>/dev/null)" = "$$commit" ] || echo "$$commit" >$@

# A node_modules that is a link belongs to another checkout, and npm ci would empty it.
$(INSTALLED): package.json package-lock.json .npmrc
	@if [ ! -L node_modules ]; then PATH='$(SYSTEM_PATH)' npm ci --no-progress --loglevel=error && touch $@; fi

# Pinned. Without a Go tool chain, or without its module proxy, the test looks on PATH, and says when it is skipped.
LITESTREAM := github.com/benbjohnson/litestream/cmd/litestream@v0.5.18

.build/tools/litestream:
	@mkdir -p .build/tools; if command -v go >/dev/null; then GOBIN='$(CURDIR)/.build/tools' GOPATH='$(CURDIR)/.build/go' \
	GOFLAGS=-modcacherw go install $(LITESTREAM) || echo 'Litestream cannot be built'; fi

always:

.PHONY: help run test check format build golden bench bench-data openapi-check fixture crash soak litestream smoke dist image clean always
.DEFAULT_GOAL := help
