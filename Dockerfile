# syntax=docker/dockerfile:1
# The image of the hook: one static binary, no shell, no package. Target `shim` is KubeVirt's
# sidecar-shim with the same binary.
ARG GO_IMAGE=docker.io/library/golang:1.26-bookworm
ARG SHIM_IMAGE=quay.io/kubevirt/sidecar-shim:v1.9.0

# Go builds for any platform on any: nothing here is emulated.
FROM --platform=${BUILDPLATFORM} ${GO_IMAGE} AS build
ARG TARGETOS=linux
ARG TARGETARCH=amd64
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
# With .git, from which Go takes the version that the binary names.
COPY . .
# The link is the name under which sidecar-shim looks for a program, and under which the binary
# knows that it was called by it.
RUN mkdir /out && \
    CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} go build -trimpath -ldflags="-s -w" -o /out/hook-sidecar ./cmd/hook-sidecar && \
    ln -s hook-sidecar /out/onDefineDomain

FROM ${SHIM_IMAGE} AS shim
COPY --from=build /out/hook-sidecar /usr/bin/onDefineDomain

FROM scratch AS hook
COPY --from=build /out/ /
ENV PATH=/
# The user of virt-launcher (KubeVirt pkg/util/util.go, NonRootUID); a number, so that
# runAsNonRoot can see that it is not root.
USER 107:107
ENTRYPOINT ["/hook-sidecar"]
