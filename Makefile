# Shortcuts; `.ci/run` is what has to pass.
.DEFAULT_GOAL := help
.PHONY: help build test lint fuzz generate golden ci

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/hook-sidecar, static
	CGO_ENABLED=0 go build -trimpath -o bin/hook-sidecar ./cmd/hook-sidecar

test: ## run the tests; those against libvirt are skipped where it is missing
	go test ./...

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
