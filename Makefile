# Needs Node >= 20, npm, make and git. npm installs the version of Node that runs and tests Assay and is packed into it;
# that one comes first on PATH for everything but npm itself.

SYSTEM_PATH := $(PATH)
export PATH := $(CURDIR)/node_modules/.bin:$(PATH)
NODE := $(CURDIR)/node_modules/.bin/node

all-below = $(foreach entry,$(wildcard $(1)/*),$(call all-below,$(entry)) $(entry))
SOURCES := $(wildcard schema.sql) package.json package-lock.json $(call all-below,src) $(call all-below,bin)
INSTALLED := node_modules/.package-lock.json

help:
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1	\2/p' Makefile

run: build ## build, then serve a development instance on http://127.0.0.1:8001 (data in .assay-dev)
	dist/assay dev

test: dist/assay ## run the suite but its slow tests; PATTERN=regexp selects from all files by their path below test/
	@$(NODE) test/run.ts '$(PATTERN)'

# CI runs both, and a pattern of `make test` chooses from both.
integration: dist/assay ## run the slow tests: the executable, Chromium, S3, systemd, failing disks, attacks, whole suites of cases
	@$(NODE) test/run.ts --slow '$(PATTERN)'

replay: | $(INSTALLED) ## compare answers and tables of a told story and of refusals with the recorded ones; RECORD=1 records
	@RECORD='$(RECORD)' $(NODE) test/run.ts '^replay/'

# Needs root, debootstrap and systemd-nspawn. The first run downloads a Debian into .build/guide, later ones boot that.
guide-run: dist/assay ## follow the pages of the guide line by line in a Debian with systemd
	@$(NODE) test/run.ts '^integration/(guide-run|service-restore)'

check: | $(INSTALLED) ## check types, format, lint and the rules of the code
	node_modules/.bin/tsc --noEmit
	node_modules/.bin/tsc --noEmit -p src/web/client
	node_modules/.bin/biome check --error-on-warnings
	@$(NODE) test/run.ts '^rules/'

format: | $(INSTALLED) ## format the code and remove unused imports
	node_modules/.bin/biome check --write

build: dist/assay ## build the executable dist/assay

# The list of operations comes first, in its own process, because all other goldens derive from it.
golden: | $(INSTALLED) ## regenerate the files derived from the code: src/api/index.ts and the goldens
	@UPDATE_GOLDENS=1 $(NODE) test/run.ts '^rules/operation-index'
	@UPDATE_GOLDENS=1 $(NODE) test/run.ts '^rules/'

# Counts system calls where strace is installed, and compares with PocketBase where Go is. What is missing is skipped.
bench: dist/assay ## measure the executable; ONLY=regexp selects by name, AGAINST=path compares with another executable
	$(NODE) test/bench/main.ts --only '$(ONLY)' $(if $(AGAINST),--against '$(AGAINST)')

bench-cores: dist/assay ## measure the executable on one processor, on two, and so on
	$(NODE) test/bench/main.ts --cores

# Each database takes 4 GB in .build, and as much again for its copy before the upgrade. One at a time.
bench-upgrades: dist/assay ## measure the upgrade of 1,000,000 attestations from every released schema
	@$(NODE) test/bench/upgrades.ts

# The database also holds 200,000 artifacts on 100,000 trails.
bench-data: | $(INSTALLED) ## build a database of 1,000,000 attestations for make bench (3 minutes, 4 GB in .build)
	@$(NODE) test/bench/data.ts

# Compiles the clients and runs them against a server. Needs the package registries once.
openapi-check: | $(INSTALLED) ## lint the OpenAPI document and test generated Python, Go and TypeScript clients
	@SYSTEM_PATH='$(SYSTEM_PATH)' $(NODE) test/openapi/main.ts

# Needs the programs that openapi-check needs; runs the real CLI and Terraform provider where they are installed.
clients: dist/assay ## test Assay with its clients, and write the README's table of their versions
	@SYSTEM_PATH='$(SYSTEM_PATH)' $(NODE) test/clients/main.ts

fixture: | $(INSTALLED) ## save a database of this schema for upgrade tests, at a release with a new schema
	$(NODE) test/cases/upgrades/make.ts

fuzz: | $(INSTALLED) ## send ten times as many generated requests as the suite does; SEED=n selects others
	@RUNS=10 $(NODE) test/run.ts '^(api/bad-input|whole/properties)\.'

fuzz-forms: | $(INSTALLED) ## compare the two ways to read a form on a million drawn forms, each of which is answered; SEED=n, COUNT=n
	@$(NODE) test/http/body/fuzz-forms.ts

# Nothing acknowledged may be lost, and no attack may hold up the server or exhaust its memory.
crash: dist/assay ## kill the executable under load, simulate power cuts, run the attacks
	$(NODE) test/crash/main.ts
	$(NODE) test/attacks/loop-delay.ts
	$(NODE) test/attacks/read-delay.ts
	$(NODE) test/attacks/memory.ts
	$(NODE) test/attacks/reads.ts

# A backup and a restore every minute, kill -9 every 20 s.
soak: dist/assay ## run ten minutes of mixed load with backups, restores and kill -9
	$(NODE) test/soak/main.ts

# Kills server A with kill -9, restores on B and verifies.
litestream: dist/assay .build/tools/litestream ## follow the standby guide with the real Litestream
	$(NODE) test/litestream/main.ts

smoke: dist/assay ## test the executable alone, and rebuild it from a clone to compare the bytes
	@$(NODE) bin/smoke.ts

# The release holds the executable, units, manual, completions, licences and checksums.
dist: dist/assay ## pack the release into dist/assay-VERSION-linux-x64.tar.gz
	@$(NODE) bin/dist.ts

# ARCHIVE=path measures another archive than the one of this checkout.
first-verdict: $(if $(ARCHIVE),,dist) | $(INSTALLED) ## measure the way from the release archive to the first verdicts, without a network
	@$(NODE) bin/first-verdict.ts '$(ARCHIVE)'

image: dist/assay ## write the context of docker build to dist/image
	@rm -rf dist/image; dist/assay docker dist/image

# Needs Go, which fetches the release and the modules that src/rego/engine pins from its proxy, once.
rego-engine: | $(INSTALLED) ## rebuild the engine of Rego evaluations from its Go sources, byte for byte
	$(NODE) bin/rego-engine.ts

rego-corpus: ## record what OPA itself says to the policies of test/rego/corpus; needs Go
	cd src/rego/engine && go run ./corpus ../../../test/rego/corpus

clean: ## remove build results (not node_modules, not .assay-dev)
	rm -rf dist .build

dist/assay: $(SOURCES) .build/commit | $(INSTALLED)
	$(NODE) bin/build.ts

# The commit is part of the executable; the file changes only when the commit does.
.build/commit: always
	@mkdir -p .build; commit=$$(git rev-parse HEAD 2>/dev/null || echo unknown); \
	[ "$$(cat $@ 2>/dev/null)" = "$$commit" ] || echo "$$commit" >$@

# A symlinked node_modules belongs to another checkout, and npm ci would empty it.
$(INSTALLED): package.json package-lock.json .npmrc
	@if [ ! -L node_modules ]; then PATH='$(SYSTEM_PATH)' npm ci --no-progress --loglevel=error && touch $@; fi

# PAGES=regexp selects pages by name, MODES=light,dark,phone,print how they are photographed, AXE=1 checks accessibility
# too, LARGE=1 adds lists of 10,000 rows.
screenshots: | $(INSTALLED) ## photograph every page, with a story in it, into .build/screenshots
	$(NODE) test/screenshots/main.ts '$(PAGES)' $(if $(MODES),--only $(MODES)) $(if $(AXE),--axe) $(if $(LARGE),--large)

# A pinned version. Without a Go toolchain or the Go module proxy, the test uses litestream from PATH or is skipped, and
# says so.
LITESTREAM := github.com/benbjohnson/litestream/cmd/litestream@v0.5.18

.build/tools/litestream:
	@mkdir -p .build/tools; if command -v go >/dev/null; then \
	GOBIN='$(CURDIR)/.build/tools' GOPATH='$(CURDIR)/.build/go' GOFLAGS=-modcacherw go install $(LITESTREAM) || \
	echo 'Litestream cannot be built'; fi

always:

.PHONY: help run test check format build golden bench bench-cores bench-upgrades bench-data openapi-check clients fixture fuzz fuzz-forms crash soak litestream
.PHONY: rego-engine rego-corpus integration guide-run replay screenshots smoke dist first-verdict image clean always
.DEFAULT_GOAL := help
