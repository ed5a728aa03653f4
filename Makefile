# Shortcuts; CI runs `.ci/run`.
.DEFAULT_GOAL := help
.PHONY: help build image release test launcher launcher-e2e cluster cloudinit recipe manifests kubectl boot boot-sizes boot-largest newest alloc whole nccl judges e2e speed lint fuzz generate golden ci

# Kernels and images that the tests boot.
CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/hook-sidecar
# The emulated node: the guests' kernel, its own system, and the QEMU that emulates it.
NODE = BOOT_KERNEL=$(CACHE)/kernel E2E_IMAGE=$(CACHE)/e2e NODE_QEMU=$(CACHE)/newest/root

# The image: its name, the target of the Dockerfile (hook, shim), the platforms, and true to push it.
REPOSITORY ?= registry.example.com/hook-sidecar
TAG ?= dev
IMAGE ?= $(REPOSITORY):$(TAG)
TARGET ?= hook
PLATFORMS ?= linux/amd64,linux/arm64
PUSH ?= false
# Without a registry: write the image to this file, as an OCI archive.
ARCHIVE ?=
# Images that the build fetches, if not those of the Dockerfile. SBOM=generator=IMAGE names a copy of
# docker/buildkit-syft-scanner.
GO_IMAGE ?=
# Further options of the build.
OPTIONS ?=
SHIM_IMAGE ?=
SBOM ?= true

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/hook-sidecar and kubectl's plugin bin/kubectl-hostdev, static
	CGO_ENABLED=0 go build -trimpath -tags grpcnotrace -o bin/ ./cmd/hook-sidecar ./cmd/kubectl-hostdev

comma := ,
output = $(if $(ARCHIVE),type=oci$(comma)dest=$(ARCHIVE),type=image$(comma)push=$(PUSH))
arguments = $(foreach name,GO_IMAGE SHIM_IMAGE,$(if $($(name)),--build-arg $(name)=$($(name))))

# Timestamps are those of the commit, so that two builds of a commit give the same image.
commit_time = $$(git log -1 --format=%ct)

# What builds the image: docker, with its plugin buildx, or podman or buildah.
BUILDER ?= $(or $(if $(shell docker buildx version 2> /dev/null),docker),$(notdir $(firstword $(shell command -v podman buildah))))

image: ## build IMAGE for PLATFORMS; PUSH=true pushes it. BuildKit also makes an SBOM and provenance
	@$(if $(BUILDER),,echo "make image takes Docker with its plugin buildx, podman or buildah" >&2; exit 1)
	$(image-$(if $(filter docker,$(BUILDER)),buildkit,buildah))

define image-buildkit
docker buildx build --platform $(PLATFORMS) --target $(TARGET) --sbom=$(SBOM) --provenance=mode=max \
	--build-arg SOURCE_DATE_EPOCH=$(commit_time) $(arguments) $(OPTIONS) \
	--output $(output),name=$(IMAGE),rewrite-timestamp=true .
endef

# podman and buildah have these options in common. A list of images of before is replaced. BuildKit sets
# BUILDPLATFORM, buildah 1.28 does not.
machine = $(subst aarch64,arm64,$(subst x86_64,amd64,$(shell uname -m)))
define image-buildah
$(BUILDER) manifest rm $(IMAGE) 2> /dev/null || true
$(BUILDER) build --platform $(PLATFORMS) --target $(TARGET) --timestamp $(commit_time) \
	--build-arg BUILDPLATFORM=linux/$(machine) $(arguments) $(OPTIONS) --manifest $(IMAGE) .
$(if $(ARCHIVE),$(BUILDER) manifest push --all $(IMAGE) oci-archive:$(ARCHIVE))
$(if $(filter true,$(PUSH)),$(BUILDER) manifest push --all $(IMAGE) docker://$(IMAGE))
endef

release: ## make dist/ from a clean checkout of a tag: programs, manifests, SBOMs, checksums
	REPOSITORY="$(REPOSITORY)" release/make dist

test: ## run the tests; without libvirt, those that need it are skipped
	go test ./...

launcher: ## run KubeVirt's real virt-launcher beside the hook, on this machine; needs root
	test/boot/get-kernel $(CACHE)/kernel
	test/e2e/get-image $(CACHE)/e2e
	LAUNCHER=$(CACHE)/launcher BOOT_KERNEL=$(CACHE)/kernel E2E_IMAGE=$(CACHE)/e2e go test -tags lane -count=1 -v -parallel 4 -timeout 40m -run TestLauncher ./test/launcher

launcher-e2e: ## run it with vfio-pci in a nested machine; needs root
	test/boot/get-kernel $(CACHE)/kernel
	test/e2e/get-image $(CACHE)/e2e
	test/boot/get-newest $(CACHE)/newest
	$(NODE) LAUNCHER=$(CACHE)/launcher go test -tags lane -count=1 -v -timeout 60m -run TestNested ./test/launcher

cluster: ## run VMs with devices in a Kubernetes cluster with KubeVirt; needs root
	test/boot/get-kernel $(CACHE)/kernel
	test/e2e/get-image $(CACHE)/e2e
	test/cluster/get-node $(CACHE)/cluster/node $(CACHE)/e2e
	test/boot/get-newest $(CACHE)/newest
	test/nccl/get-nccl $(CACHE)/nccl
	test/nccl/build $(CACHE)/nccl
	test/judges/get-programs $(CACHE)/judges
	$(NODE) NCCLGRAPH=$(CACHE)/nccl JUDGES=$(CACHE)/judges CLUSTER=$(CACHE)/cluster go test -tags lane -count=1 -v -parallel 2 -timeout 120m ./test/cluster

cloudinit: ## boot Debian with the cloud-init data that the hook answers; needs root
	.ci/run cloudinit

recipe: ## boot the HGX recipe of docs/install.md with stand-ins; needs root
	.ci/run recipe

manifests: ## run manifests/ through kube-apiserver's and KubeVirt's own code
	.ci/run manifests

kubectl: ## run kubectl's plugin against the parts of a cluster; needs root
	.ci/run kubectl

boot: ## boot results in QEMU: firmware, kernel, the guest's sysfs
	.ci/run boot

boot-sizes: ## boot devices with BARs of 64 to 256 GiB, on three generations of firmware; count how BARs are mapped
	.ci/run boot_sizes

boot-largest: ## boot 247 devices with numa and 180 with mirror
	.ci/run boot_largest

newest: ## repeat the tests with libvirt, QEMU, firmware and kernel of Debian testing; needs root
	.ci/run newest

alloc: ## compare the simulation of libvirt, and results, with libvirts on ten thousand random domains
	.ci/run alloc

whole: ## run all of what `go test` samples: every layout of every domain, more devices and calls
	.ci/run whole

nccl: ## judge hosts and guests by NCCL's own topology code; check the table of docs/comparison.md
	.ci/run nccl

judges: ## judge hosts and guests by the code of NCCL, UCX, hwloc, DRA and Linux; root for all of it
	.ci/run judges

e2e: ## run everything end to end, with vfio-pci in a nested machine; needs root once
	test/boot/get-kernel $(CACHE)/kernel
	test/e2e/get-image $(CACHE)/e2e
	test/boot/get-newest $(CACHE)/newest
	$(NODE) E2E_EXTRAS=1 go test -tags lane -count=1 -v -timeout 30m ./test/e2e

speed: ## measure calls, and compare a server with fresh processes
	go test -run '^$$' -bench OnDefineDomain ./cmd/hook-sidecar
	go test -run '^$$' -bench . ./test/speed ./test/sidecar
	go test -run '^$$' -bench 'Fleet|Collect' -benchtime 1x ./cmd/kubectl-hostdev
	go test -count=1 -v ./test/speed -args -steps 250

lint: ## check formatting, vet, staticcheck and import rules
	.ci/run format vet lint imports

fuzz: ## run every fuzz target, FUZZTIME (8s) each
	FUZZTIME=$${FUZZTIME:-8s} .ci/run fuzz

generate: ## regenerate the generated code
	go generate ./...

golden: ## regenerate the golden files and the generated pages; read the diff before you commit it
	go test ./pkg/plan -run Golden -update
	go test ./pkg/tools/cluster/redact -run TestRules -update
	go test ./pkg/report ./pkg/tools/picture ./pkg/keys/nccl ./test/atlas -update
	go test ./test/docs -run Generated -update
	go test ./cmd/... -run 'Script|Generated|Doc' -update

ci: ## run everything that CI runs
	.ci/run
