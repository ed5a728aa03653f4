// Package image tests the Dockerfile: its text, and, where the step image of
// .ci/run asks for it, the image that buildah builds from it.
package image

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/test/expect"
)

// instructions returns the instructions of the Dockerfile, one per element. Comments are left out
// and continued lines are joined.
func instructions(t *testing.T) (text string, list []string) {
	t.Helper()
	data := expect.File(t, "../../Dockerfile")
	text = string(data)
	joined := strings.ReplaceAll(regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(text, ""),
		"\\\n", "")
	for line := range strings.Lines(joined) {
		if words := strings.Fields(line); len(words) > 0 {
			list = append(list, strings.Join(words, " "))
		}
	}

	return text, list
}

func starting(list []string, word string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(line string) bool {
		return !strings.HasPrefix(line, word)
	})
}

// TestPlatforms: Go runs on the builder's platform and builds for the image's. A
// default of TARGETOS or TARGETARCH would win over the platform that is asked for
// (BuildKit v0.27.0): the Dockerfile had one, and the image of arm64 the program
// of amd64.
func TestPlatforms(t *testing.T) {
	_, list := instructions(t)
	build := list[slices.Index(list, "FROM --platform=${BUILDPLATFORM} ${GO_IMAGE} AS build")+1:]
	run := slices.IndexFunc(build, func(line string) bool {
		return strings.HasPrefix(line, "RUN ") &&
			strings.Contains(line, " GOOS=${TARGETOS} GOARCH=${TARGETARCH} go build ")
	})

	if run < 0 {
		t.Fatalf("no stage builds the program: %q", list)
	}

	expect.Same(t, []string{
		"ARG TARGETOS", "ARG TARGETARCH",
	}, starting(build[:run], "ARG"), "arguments of the build (-want +got)")
}

// TestSources: the image with Go and, for the target shim, KubeVirt's are all that
// is fetched. A line `# syntax=` would fetch a frontend and run it.
func TestSources(t *testing.T) {
	text, list := instructions(t)
	want := []string{
		"FROM --platform=${BUILDPLATFORM} ${GO_IMAGE} AS build", "FROM build AS build-kubectl",
		"FROM scratch AS kubectl", "FROM ${SHIM_IMAGE} AS shim", "FROM scratch AS hook",
	}

	expect.Same(t, want, starting(list, "FROM"), "stages (-want +got)")
	want = []string{
		"ARG GO_IMAGE=docker.io/library/golang:1.26-bookworm",
		"ARG SHIM_IMAGE=quay.io/kubevirt/sidecar-shim:v1.9.0",
	}

	expect.Same(t, want, list[:2], "images (-want +got)")

	for _, line := range starting(list, "COPY --from") {
		if !strings.HasPrefix(line, "COPY --from=build ") &&
			!strings.HasPrefix(line, "COPY --from=build-kubectl ") {
			t.Errorf("%s copies from elsewhere", line)
		}
	}

	if added := starting(list, "ADD"); len(added) > 0 ||
		regexp.MustCompile(`(?im)^#\s*syntax\s*=`).MatchString(text) {
		t.Errorf("something else is fetched: %q, or a frontend", added)
	}
}

// TestHook: the image has what the build made and nothing else: no shell, and a
// user who is not root. 107 is virt-launcher's (KubeVirt pkg/util/util.go,
// NonRootUID).
func TestHook(t *testing.T) {
	_, list := instructions(t)
	want := []string{
		"COPY --from=build /out/ /", "ENV PATH=/", "USER 107:107", `ENTRYPOINT ["/hook-sidecar"]`,
	}

	expect.Same(t, want, list[slices.Index(list, "FROM scratch AS hook")+1:],
		"target hook (-want +got)")
}
