# Tradewind. `make help` lists the targets.
SHELL      := /bin/bash
GO         ?= go
BIN        := bin/tradewind
TOOLS      := .tools
LINT       := $(TOOLS)/golangci-lint
LINT_VERSION := v2.15.0
# Everything but the slow, opt-in suites.
PACKAGES   := ./...
VERSION    ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this help
	@grep -hE '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  \033[1m%-18s\033[0m %s\n", $$1, $$2}'

.PHONY: build
build: ## Build bin/tradewind
	@mkdir -p bin
	$(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o $(BIN) ./cmd/tradewind

.PHONY: run
run: build ## Plan and run the demonstration: a full zone, a spot interruption, a resumed checkpoint
	@rm -rf .tradewind/demo
	./$(BIN) run examples/demo.yaml --scenario examples/demo-scenario.yaml --time-scale 0.002 --state .tradewind/demo

.PHONY: test
test: ## Run all tests with the race detector
	$(GO) vet $(PACKAGES)
	$(GO) test -race -timeout 20m $$($(GO) list $(PACKAGES) | grep -v '/pkg/sim$$')
	$(GO) test -timeout 20m ./pkg/sim # one goroutine by design; its coroutines leak memory under the race detector

.PHONY: test-go
test-go: test ## The tests that need Go alone (the same, for now)

.PHONY: test-short
test-short: ## Run the quick tests without the race detector
	$(GO) test -short $(PACKAGES)

.PHONY: fuzz
fuzz: ## Run every fuzz target for ten seconds
	@for pkg in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "$$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime 10s $$pkg || exit 1; \
	  done; done

.PHONY: bench
bench: build ## Run the benchmarks and write bench/RESULTS.md
	$(GO) run ./bench/run -out bench/RESULTS.md

.PHONY: lint
lint: $(LINT) ## Run golangci-lint
	$(LINT) run $(PACKAGES)

$(LINT):
	@mkdir -p $(TOOLS)
	GOBIN=$(abspath $(TOOLS)) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)

.PHONY: generate
generate: ## Write the generated files anew
	$(GO) generate $(PACKAGES)

.PHONY: clean
clean: ## Remove what was built
	rm -rf bin dist .tradewind
