# Shortcuts; `.ci/run` is what has to pass.
.DEFAULT_GOAL := help
.PHONY: help build image test kubevirt manifests boot e2e lint fuzz generate golden ci

# Kernels and images that the tests boot.
CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/hook-sidecar

# The image: its name, the platforms, and true to push it with SBOM and provenance.
IMAGE ?= registry.example.com/hook-sidecar:dev
PLATFORMS ?= linux/amd64,linux/arm64
PUSH ?= false

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / { printf "%-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/hook-sidecar, static
	CGO_ENABLED=0 go build -trimpath -o bin/hook-sidecar ./cmd/hook-sidecar

# Timestamps are the commit's, so that two builds of one commit give one digest.
image: ## build IMAGE for PLATFORMS with BuildKit, SBOM and provenance; PUSH=true pushes it
	docker buildx build --platform $(PLATFORMS) --target hook --sbom=true --provenance=mode=max \
		--build-arg SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) \
		--output type=image,name=$(IMAGE),push=$(PUSH),rewrite-timestamp=true .

test: ## run the tests; those against libvirt are skipped where it is missing
	go test ./...

kubevirt: ## run the tests against KubeVirt's own client; takes root
	.ci/run kubevirt

manifests: ## run manifests/ through kube-apiserver's and KubeVirt's own code
	.ci/run manifests

boot: ## boot results in QEMU: firmware, kernel, the guest's sysfs
	.ci/run boot

e2e: ## run the whole way once, with vfio-pci in a nested machine; takes root once
	test/boot/get-kernel $(CACHE)/kernel
	test/e2e/get-image $(CACHE)/e2e
	BOOT_KERNEL=$(CACHE)/kernel E2E_IMAGE=$(CACHE)/e2e go test -count=1 -v -timeout 30m ./test/e2e

lint: ## formatting, vet, staticcheck, the walls between the rooms
	.ci/run format vet lint walls

fuzz: ## run every fuzz target, FUZZTIME (30s) each
	.ci/run fuzz

generate: ## make the generated code anew
	go generate ./...

golden: ## write the golden files anew; read the diff before you commit it
	go test ./pkg/mutate -run Golden -update

ci: ## everything that CI runs
	.ci/run
