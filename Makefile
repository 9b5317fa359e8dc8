# Tradewind. `make help` lists the targets.
SHELL      := /bin/bash
GO         ?= go
BIN        := bin/tradewind
TOOLS      := .tools
LINT       := $(TOOLS)/golangci-lint
LINT_VERSION := v2.15.0
MUTANTS    := $(TOOLS)/gremlins
MUTANTS_VERSION := v0.6.0
# Everything except the slow, opt-in suites.
PACKAGES   := ./...
# Other programs that benchmarks compare with.
PEERS      := $(TOOLS)/bench-optimizer/venv
# Architecture of the Lambda functions. The rehearsal builds them for this machine.
LAMBDA_ARCH ?= arm64
AGENT_ARCHS ?= amd64 arm64
# grpc's debug pages use templates, which make the linker keep every method of every type.
TAGS       := grpcnotrace,lambda.norpc
# The linker drops debugging information (-w), so it need not be compiled. Inlining takes half the time of compiling the
# clouds' large, generated clients, and gains nothing there or in other code for networks: it waits for them.
QUICK      := -gcflags=all=-dwarf=false \
              $(foreach p,github.com/aws/... github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/... google.golang.org/... \
                k8s.io/api/... go.opentelemetry.io/... github.com/prometheus/...,'-gcflags=$(p)=-l -dwarf=false')
LDFLAGS     = -s -w -X main.version=$(VERSION)
VERSION    ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show the main targets; `make help-all` shows every target
	@grep -hE '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  \033[1m%-18s\033[0m %s\n", $$1, $$2}'

.PHONY: help-all
help-all: #: Show every target
	@grep -hE '^[a-z][a-z-]*:.*#[#:] ' $(MAKEFILE_LIST) | sort | awk -F ':.*#[#:] ' '{printf "  \033[1m%-22s\033[0m %s\n", $$1, $$2}'

.PHONY: build
build: ## Build bin/tradewind, bin/tradewind-lab (research tools) and bin/tradewind-agent
	@mkdir -p bin
	$(GO) build -trimpath $(QUICK) -tags $(TAGS) -ldflags "$(LDFLAGS)" -o bin/ ./cmd/tradewind ./cmd/tradewind-lab
	CGO_ENABLED=0 $(GO) build -trimpath $(QUICK) -ldflags "$(LDFLAGS)" -o bin/ ./cmd/tradewind-agent

.PHONY: program
program: #: Build only bin/tradewind, without the clouds' clients unless it has them already, and show the progress
	@mkdir -p bin
	@set -o pipefail; tags=$(TAGS); \
	if [ -x $(BIN) ] && ! $(GO) version -m $(BIN) | grep -q noclouds; then echo "building $(BIN)"; \
	else tags=$$tags,noclouds; echo "building $(BIN) without the clouds' clients, in about a minute the first time (make build adds them)"; fi; \
	$(GO) build -v -p $$(($$(getconf _NPROCESSORS_ONLN) + 1)) -trimpath $(QUICK) -tags $$tags -ldflags "$(LDFLAGS)" -o bin/ ./cmd/tradewind 2>&1 | awk -f scripts/progress.awk

.PHONY: run
run: program ## Plan and run the demonstration: a full zone, a spot interruption, a resumed checkpoint
	@rm -rf .tradewind/demo
	./$(BIN) run examples/demo.yaml --scenario examples/demo-scenario.yaml --env STEP=0.08 --time-scale 0.0008 --state .tradewind/demo

.PHONY: test
test: ## Run all tests with the race detector, and install the emulators that some of them need
	@scripts/test.sh

.PHONY: test-go
test-go: ## Run the tests that need only Go; tests on emulators skip if an emulator is missing
	@scripts/test.sh --go

.PHONY: test-short
test-short: ## Run the quick tests without the race detector, with what make build has compiled
	$(GO) test -short -p $$(($$(getconf _NPROCESSORS_ONLN) * 2)) -vet=off -trimpath $(QUICK) -tags $(TAGS) -ldflags "-s -w" ./web ./internal/host ./internal/agent $(PACKAGES) # the longest first

.PHONY: frameworks
frameworks: #: Install the frameworks of the examples: OpenMPI, PyTorch, Spark, Dask, Ray, TensorFlow, scikit-learn, bwa, samtools
	scripts/frameworks.sh

.PHONY: examples
examples: frameworks build #: Run the examples of applications and frameworks on this machine, each with the failures of its scenario
	@set -e; state=$$(mktemp -d); trap 'rm -rf "$$state"' EXIT; \
	for f in examples/applications/*.yaml examples/frameworks/*.yaml; do \
		echo "== $$f"; wrong=$$(dirname $$f)/scenarios/$$(basename $$f); bin=$$PWD/$(TOOLS)/frameworks/bin; \
		./$(BIN) run --state "$$state" $$f --env BIN=$$bin $$(! grep -q '^env: {PYTHON: python3}' $$f || echo --env PYTHON=$$bin/python3) \
		  $$([ ! -e $$wrong ] || echo --scenario $$wrong); \
	  sed -n 's/^# A log says: //p' $$f | while read -r says; do \
	    grep -rqF "$$says" "$$state/logs" || { echo "$$f: no log says \"$$says\"" >&2; exit 1; }; done; done

.PHONY: emulators
emulators: #: Install DynamoDB Local, moto, cfn-lint and checkov under .tools; needs Java and Python
	@scripts/emulators.sh

.PHONY: web-tools
web-tools: #: Install axe-core under .tools/web, for the dashboard's accessibility tests; needs npm
	@scripts/web-tools.sh

.PHONY: images
images: web-tools #: Update the pictures of docs/dashboard.md; needs Chromium
	$(GO) test ./web -run TestEachPageHasAPicture -count 1 -images ../docs/images

.PHONY: lighthouse
lighthouse: build #: Run Lighthouse on each page of the dashboard; needs Chromium
	scripts/lighthouse.sh

.PHONY: kube
kube: #: Build a Kubernetes control plane into .tools/kube, for the tests of internal/cloud/kubernetes (15 minutes)
	scripts/kube.sh

.PHONY: agent
agent: #: Build the agent for cloud machines into dist/agent/ARCH/tradewind-agent (AGENT_ARCHS="amd64 arm64")
	@VERSION=$(VERSION) scripts/agents.sh dist/agent $(AGENT_ARCHS)

.PHONY: registry
registry: #: Build the pinned image registry for the tests of logins into .tools/bin (a minute)
	@scripts/registry.sh

.PHONY: rclone
rclone: #: Build the pinned rclone for cloud machines into dist/agent/ARCH/rclone; a deployment needs it for mounts
	@for arch in $(AGENT_ARCHS); do scripts/rclone.sh $$arch dist/agent/$$arch/rclone || exit 1; done

.PHONY: synth
synth: lambda agent #: Synthesise the AWS deployment into infra/cdk.out
	cd infra && $(GO) run . -assets ../dist -out cdk.out

# The rehearsal's machines all run on this machine, whatever type it buys, so it needs separate builds.
REHEARSAL   := dist/rehearse
HOST_ARCH   := $(shell $(GO) env GOARCH)
# The emulated account and the deployment's region, with an additional region to buy machines in.
REHEARSED_AT := -account 123456789012 -region us-east-1 -regions us-west-2
HOST_LAMBDA := $(if $(filter amd64,$(HOST_ARCH)),x86_64,$(HOST_ARCH))

.PHONY: rehearse-setup
rehearse-setup: emulators
	@$(GO) run ./internal/lambdabuild/build-functions -any-size -arch $(HOST_ARCH) -out $(REHEARSAL)/lambda
	GOOS=linux GOARCH=$(HOST_ARCH) CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" \
	  -o $(REHEARSAL)/agent/amd64/tradewind-agent ./cmd/tradewind-agent
	@mkdir -p $(REHEARSAL)/agent/arm64 && \
	  cp $(REHEARSAL)/agent/amd64/tradewind-agent $(REHEARSAL)/agent/arm64/tradewind-agent
	cd infra && JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=1 JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION=1 \
	  $(GO) run . -assets ../$(REHEARSAL) -architecture $(HOST_LAMBDA) -out ../$(REHEARSAL)/cdk.out $(REHEARSED_AT)
	$(GO) build -trimpath -o $(REHEARSAL)/rehearse ./localstack/rehearse
	$(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o $(REHEARSAL)/tradewind ./cmd/tradewind

.PHONY: rehearse
rehearse: rehearse-setup ## Deploy the template to an emulated AWS and run the real Lambda binaries and agents there, as a user would; needs node, Python and Linux
	$(REHEARSAL)/rehearse -assembly $(REHEARSAL)/cdk.out -assets $(REHEARSAL) -report $(REHEARSAL)/report.json $(if $(RESULTS),-results $(RESULTS))

.PHONY: rehearse-chaos
rehearse-chaos: rehearse-setup #: The same, with functions killed at random moments and every tenth call failing (SEED=1)
	$(REHEARSAL)/rehearse -assembly $(REHEARSAL)/cdk.out -assets $(REHEARSAL) -chaos -seed $(or $(SEED),1)

# The clouds of the rehearsal, as in internal/rehearsal/clouds, which gives the functions the emulators' addresses.
REHEARSED_CLOUDS := -cloud gcp:project=demo,regions=us-central1,serviceAccount=machines@demo.iam.gserviceaccount.com,stores=us-central1:demo-work,impersonate=broker@demo.iam.gserviceaccount.com,secrets=demo/hf,dags=gs://demo-jobs/dags,pushAccount=tradewind-push@demo.iam.gserviceaccount.com \
  -cloud azure:subscription=8d10da13-8125-4ba9-a717-bf7490507b3d,regions=eastus,stores=eastus:work,storageAccount=devstoreaccount1,secrets=team/wandb-* \
  -cloud lambda:regions=us-east-1

.PHONY: rehearse-clouds-setup
rehearse-clouds-setup: rehearse-setup
	cd infra && JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=1 JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION=1 \
	  $(GO) run . -assets ../$(REHEARSAL) -architecture $(HOST_LAMBDA) -out ../$(REHEARSAL)/cdk-clouds.out $(REHEARSED_CLOUDS)

.PHONY: rehearse-clouds
rehearse-clouds: rehearse-clouds-setup ## One job across emulated AWS, Google Cloud, Azure and Lambda's GPU cloud, through stock-outs and an eviction
	$(REHEARSAL)/rehearse -clouds -assembly $(REHEARSAL)/cdk-clouds.out -assets $(REHEARSAL)

.PHONY: rehearse-clouds-chaos
rehearse-clouds-chaos: rehearse-clouds-setup #: The same, with functions killed at random moments and every tenth call failing (SEED=1)
	$(REHEARSAL)/rehearse -clouds -assembly $(REHEARSAL)/cdk-clouds.out -assets $(REHEARSAL) -chaos -seed $(or $(SEED),1)

.PHONY: rehearse-first-hour
rehearse-first-hour: emulators ## A user's first hour with each cloud, on emulators: add, check, first job, interruption, stock-out, quota, a killed broker, a week, remove
	$(GO) test ./cmd/tradewind -run TestFirstHour -first-hour -count 1 -v -timeout 60m

.PHONY: rehearse-rollback
rehearse-rollback: #: Two versions of the program take turns on one state folder while a job runs (OLD=COMMIT SWITCHES=10)
	scripts/rollback.sh

.PHONY: rehearse-laptop
rehearse-laptop: emulators #: Jobs from a laptop without a public address on emulated AWS, Google Cloud and Azure, and a laptop that is away for too long
	$(GO) test ./cmd/tradewind -run TestLaptop -laptop -count 1 -v -timeout 60m

.PHONY: rehearse-kube
rehearse-kube: kube build #: One job on two Kubernetes clusters: a full one, one that grows, a drain, and a broker that is killed ten times (SEED=1)
	$(MAKE) agent AGENT_ARCHS=$(shell $(GO) env GOARCH)
	$(GO) run ./localstack/rehearse-kube -seed $(or $(SEED),1)

.PHONY: kube-real
kube-real: kube build #: A job on a real kubelet with containerd and runc; needs root, otherwise it skips and prints why
	scripts/kube.sh kubelet bridge host-local loopback
	$(MAKE) agent AGENT_ARCHS=$(shell $(GO) env GOARCH)
	$(GO) run ./localstack/kube-real

CLIENTS    := $(TOOLS)/clients
.PHONY: python
python: #: Build the Python package, with the program for this computer, into dist/python
	@scripts/clients.sh python
	@rm -rf dist/python
	scripts/wheel.sh dist/python

.PHONY: python-models
python-models: #: Generate the Python client's models from internal/api/openapi.json
	@scripts/clients.sh python
	cd clients/python && $(abspath $(CLIENTS))/python/bin/datamodel-codegen

.PHONY: test-python
test-python: build python #: Check the Python client's types, and test the client and its wheel with a running broker
	cd clients/python && $(abspath $(CLIENTS))/python/bin/mypy src tests && $(abspath $(CLIENTS))/python/bin/ruff check src tests
	cd clients/python && PYTHONPATH=src $(abspath $(CLIENTS))/python/bin/python -m pytest -q tests --ignore tests/integrations

.PHONY: test-clients
test-clients: build #: Test third-party clients with a running broker: py-tes, Snakemake, cwl-tes, Nextflow, Airflow, Dagster, Prefect (CLIENT=dagster for only one)
	@for c in $(or $(CLIENT),tes snakemake cwl nextflow dagster prefect airflow); do \
	  scripts/clients.sh $$c; status=$$?; \
	  if [ $$status = 3 ]; then echo "skipped $$c: what it needs cannot be had here"; continue; fi; \
	  [ $$status = 0 ] || exit $$status; echo "== $$c"; \
	  (cd clients/python && PYTHONPATH=src $(abspath $(CLIENTS))/$$c/bin/python -m pytest -q -rs tests/integrations/test_$$c.py) || exit 1; done

.PHONY: schemathesis
schemathesis: build #: Test the API with requests that Schemathesis generates from its description (MAX_EXAMPLES=50)
	@scripts/schemathesis.sh

.PHONY: test-infra
test-infra: emulators #: Test the AWS deployment: assertions on its template, cfn-lint, checkov; needs node
	cd infra && $(GO) vet ./... && $(GO) test -timeout 10m ./...

.PHONY: fuzz
fuzz: ## Run every fuzz target for ten seconds
	@for pkg in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "$$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime 10s $$pkg || exit 1; \
	  done; done

.PHONY: bench-build
bench-build: #: Build the benchmarks into bin/bench
	@mkdir -p bin/bench
	$(GO) build -C bench -o ../bin/bench/ ./...

.PHONY: bench
bench: build bench-build ## Run the benchmarks and write bench/RESULTS.md
	bin/bench/run -out bench/RESULTS.md

.PHONY: lambda
lambda: ## Build the Lambda functions into dist/lambda/NAME/bootstrap; fails above 20 MB (LAMBDA_ARCH=arm64)
	@$(GO) run ./internal/lambdabuild/build-functions -arch $(LAMBDA_ARCH) -out dist/lambda

.PHONY: reproduce
reproduce: build ## Compute the tables and figures of the papers, and write docs/reproduction.md
	bin/tradewind-lab reproduce all --page docs/reproduction.md

.PHONY: bench-placement
bench-placement: bench-build build $(PEERS)/installed #: Place the contest's and the paper's clusters and compare with the baselines; writes its section of bench/RESULTS.md
	bin/bench/placement -report bench/RESULTS.md

.PHONY: bench-scheduler
bench-scheduler: bench-build #: Measure sessions up to 100,000 tasks and replay a recorded GPU cluster; writes its section of bench/RESULTS.md
	bin/bench/scheduler -report bench/RESULTS.md

.PHONY: bench-bidding
bench-bidding: bench-build build #: Replay recorded prices and availability under every policy; writes its section of bench/RESULTS.md
	bin/bench/bidding -report bench/RESULTS.md

.PHONY: docs
docs: ## Build the documentation as a site into dist/docs; broken links fail (scripts/docs.sh serve shows the site)
	scripts/docs.sh build

.PHONY: docs-plots
docs-plots: bench-build #: Redraw the plots of docs/bidding.md
	bin/bench/bidding -plots docs/plots

.PHONY: bench-limits
bench-limits: bench-build emulators #: Simulate the limits of a large deployment, in one process and on DynamoDB Local, and count requests; writes its section of bench/RESULTS.md
	bin/bench/limits -report bench/RESULTS.md

.PHONY: bench-parsync
bench-parsync: bench-build emulators #: Place tasks on one pool with up to 8 processes over one table on DynamoDB Local, and compare with the wind tunnel; writes its section of bench/RESULTS.md
	bin/bench/parsync -report bench/RESULTS.md

.PHONY: bench-failover
bench-failover: bench-build #: Measure the time from a cloud's refusal to the next launch on another cloud; writes its section of bench/RESULTS.md
	bin/bench/failover -report bench/RESULTS.md

.PHONY: bench-shell
bench-shell: bench-build build #: Measure the time from key press to echo on a machine, and compare with ssh; needs sshd; writes its section of bench/RESULTS.md
	bin/bench/shell -tradewind $(BIN) -report bench/RESULTS.md

.PHONY: bench-warm
bench-warm: bench-build build emulators #: Measure the time from task to task on a warm worker, in one process and on the emulated AWS; writes its section of bench/RESULTS.md
	bin/bench/warm -tradewind $(BIN) -report bench/RESULTS.md

.PHONY: bench-mail
bench-mail: bench-build emulators #: Measure how fast orders reach machines through a bucket, with the program and the emulated AWS (four minutes); writes its section of bench/RESULTS.md
	bin/bench/mail -report bench/RESULTS.md

WORKFLOWS ?= ../shared/data/workflows/dax/CyberShake_1000.xml.gz

.PHONY: bench-bill
bench-bill: bench-build emulators #: Run recorded workflows with sleeping tasks on the emulated AWS and compare plan and bill, in real time (half an hour and more); writes its section of bench/RESULTS.md
	bin/bench/bill -report bench/RESULTS.md $(WORKFLOWS)

.PHONY: bench-bill-services
bench-bill-services: bench-build emulators #: Run a Spark application on each emulated service and compare plan and bill, in real time (25 minutes); writes its section of bench/RESULTS.md
	bin/bench/bill -services 10m -report bench/RESULTS.md

.PHONY: bench-kube
bench-kube: bench-build kube build #: Bind 10,000 pods in gangs of 1 to 64 on 1,000 nodes that KWOK simulates, with the broker's gates, with kubectl apply, and with the cluster's gang scheduler (half an hour); writes its section of bench/RESULTS.md
	$(MAKE) agent AGENT_ARCHS=$(shell $(GO) env GOARCH)
	bin/bench/kube -report bench/RESULTS.md

.PHONY: bench-failover-aws
bench-failover-aws: rehearse-clouds-setup #: The same with the Lambda functions on the emulated AWS (half an hour); writes its section of bench/RESULTS.md
	$(REHEARSAL)/rehearse -clouds -refusals 200 -assembly $(REHEARSAL)/cdk-clouds.out -assets $(REHEARSAL) -results bench/RESULTS.md

.PHONY: bench-data
bench-data: bench-build emulators #: Move files, compare with rclone and s5cmd, and copy them between nodes (half an hour, 40 GB of disk); writes its section of bench/RESULTS.md
	scripts/bench-data.sh
	bin/bench/data -report bench/RESULTS.md

.PHONY: bench-lambda
bench-lambda: bench-build #: Measure size, cold start and memory of the Lambda functions; writes its section of bench/RESULTS.md
	@bin/bench/lambda -report bench/RESULTS.md

.PHONY: bench-optimizer
bench-optimizer: bench-build $(PEERS)/installed #: Solve the same models with the optimizer and its peers (half an hour); writes its section of bench/RESULTS.md
	bin/bench/optimizer -results bench/RESULTS.md -detail bench/optimizer/RESULTS.md

.PHONY: bench-optimizer-quick
bench-optimizer-quick: bench-build $(PEERS)/installed #: The same on a part of the grid; only prints the results
	bin/bench/optimizer -quick

.PHONY: bench-optimizer-shared
bench-optimizer-shared: bench-build $(PEERS)/installed #: Plans in which tasks share machines, compared with HEFT, IC-PCP and CP-SAT (ten minutes); writes bench/optimizer/SHARED.md
	bin/bench/optimizer -shared -limit 5s -detail bench/optimizer/SHARED.md

.PHONY: bench-services
bench-services: bench-build #: Cost and time of the recorded workflows by AWS Batch, SkyPilot, HEFT and ours (three minutes); writes its section of bench/RESULTS.md
	bin/bench/optimizer -services -results bench/RESULTS.md

$(PEERS)/installed: bench/optimizer/requirements.txt
	python3 -m venv $(PEERS)
	$(PEERS)/bin/pip install --quiet --requirement $<
	@touch $@

.PHONY: release-snapshot
release-snapshot: ## Build all files of a release into dist/release: archives, deb, rpm, cask, image, checksums, SBOMs, provenance
	scripts/release-tools.sh
	scripts/release.sh

.PHONY: install-check
install-check: #: Build the packages for this computer and install each into an empty folder: archive, deb, rpm, Homebrew cask, wheel, go install, image
	@scripts/clients.sh python
	scripts/release-tools.sh goreleaser
	scripts/install-check.sh

.PHONY: lint
lint: $(LINT) ## Run golangci-lint
	$(LINT) run $(PACKAGES)
	$(GO) vet -tags noclouds ./cmd/tradewind

$(LINT):
	@mkdir -p $(TOOLS)
	GOBIN=$(abspath $(TOOLS)) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)

# Packages are mutated one after another in a copy, and each mutant is tested with the tests of its package. A test
# that hangs counts as having detected the mutant.
PACKAGE    ?= pkg/market pkg/scheduler pkg/bidding pkg/dag/...
.PHONY: mutants
mutants: $(MUTANTS) #: Change the code in small ways and print the share of changes that tests detect (PACKAGE="pkg/bidding pkg/dag/...")
	@for dir in $$($(GO) list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}' $(addprefix ./,$(PACKAGE:./%=%))); do \
	  echo "== $${dir#$(CURDIR)/}"; \
	  $(MUTANTS) unleash --workers 1 --timeout-coefficient 20 --output-statuses lc $$dir || exit 1; \
	done

$(MUTANTS):
	@mkdir -p $(TOOLS)
	GOBIN=$(abspath $(TOOLS)) $(GO) install github.com/go-gremlins/gremlins/cmd/gremlins@$(MUTANTS_VERSION)

.PHONY: generate
generate: ## Update the generated files
	$(GO) generate $(PACKAGES)

.PHONY: clean
clean: ## Remove all build outputs
	rm -rf bin dist .tradewind
