# The image of the hook: one static binary, no shell, no package. Target `shim` is KubeVirt's
# sidecar-shim with the same binary. There is no `# syntax=` line: BuildKit would fetch a frontend
# from a registry and run it, and the one that is built in has all that is used here.
ARG GO_IMAGE=docker.io/library/golang:1.26-bookworm
ARG SHIM_IMAGE=quay.io/kubevirt/sidecar-shim:v1.9.0

# Go builds for any platform on any: nothing here is emulated.
FROM --platform=${BUILDPLATFORM} ${GO_IMAGE} AS build
# Of these two a default would win over the platform that is asked for, and put the program of
# amd64 into the image of arm64 (BuildKit v0.27.0; test/image shows it).
ARG TARGETOS
ARG TARGETARCH
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
