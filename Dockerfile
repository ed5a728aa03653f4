# The image of the hook: one static binary, no shell, no packages. Target `shim` is KubeVirt's
# sidecar-shim with the same binary, target `kubectl` is kubectl's plugin alone, for a CronJob. There is no `# syntax=` line, because BuildKit would fetch a
# frontend from a registry and run it, and the built-in one is sufficient.
ARG GO_IMAGE=docker.io/library/golang:1.26-bookworm
ARG SHIM_IMAGE=quay.io/kubevirt/sidecar-shim:v1.9.0

# Go cross-compiles, so no step is emulated.
FROM --platform=${BUILDPLATFORM} ${GO_IMAGE} AS build
# These two have no default: it would win over the platform that is asked for, and put the program
# of amd64 into the image of arm64 (BuildKit v0.27.0).
ARG TARGETOS
ARG TARGETARCH
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
# Includes .git, from which Go takes the version of the binary.
COPY . .
# sidecar-shim runs a program named onDefineDomain. By that name the binary knows that the shim runs
# it.
RUN mkdir /out && \
    CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} go build -trimpath -tags grpcnotrace -ldflags="-s -w" -o /out/hook-sidecar ./cmd/hook-sidecar && \
    ln -s hook-sidecar /out/onDefineDomain

FROM build AS build-kubectl
RUN CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} go build -trimpath -ldflags="-s -w" -o /out-kubectl/kubectl-hostdev ./cmd/kubectl-hostdev

FROM scratch AS kubectl
COPY --from=build-kubectl /out-kubectl/ /
USER 65534:65534
ENTRYPOINT ["/kubectl-hostdev"]

FROM ${SHIM_IMAGE} AS shim
COPY --from=build /out/hook-sidecar /usr/bin/onDefineDomain

FROM scratch AS hook
COPY --from=build /out/ /
ENV PATH=/
# The user of virt-launcher (KubeVirt pkg/util/util.go, NonRootUID); runAsNonRoot needs a number.
USER 107:107
ENTRYPOINT ["/hook-sidecar"]
