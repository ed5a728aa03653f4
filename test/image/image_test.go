package image

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/client/llb/sourceresolver"
	"github.com/moby/buildkit/frontend/dockerfile/dockerfile2llb"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerui"
	"github.com/moby/buildkit/solver/pb"
	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"
	"github.com/opencontainers/go-digest"
	ocispecs "github.com/opencontainers/image-spec/specs-go/v1"
)

// machine is where the image is built, whatever it is built for.
const machine = "amd64"

// plan is what BuildKit would do.
type plan struct {
	sources  []string // what it fetches, with the platform: sorted
	runs     []*pb.Op
	copies   []*pb.FileActionCopy
	image    *dockerspec.DockerOCIImage
	warnings []string
}

// registry answers for any image, with a configuration that says nothing but
// that there is a layer: BuildKit does not fetch what is empty.
type registry struct{}

func (registry) ResolveImageConfig(_ context.Context, ref string, opt sourceresolver.Opt) (string, digest.Digest, []byte, error) {
	config, err := json.Marshal(ocispecs.Image{Platform: *opt.ImageOpt.Platform, RootFS: ocispecs.RootFS{Type: "layers", DiffIDs: []digest.Digest{digest.FromString("layer")}}})
	return ref, digest.FromBytes(config), config, err
}

// planFor is what BuildKit would do with a Dockerfile for a target of it.
func planFor(t *testing.T, dockerfile, target, arch string) plan {
	t.Helper()
	var p plan
	platform := ocispecs.Platform{OS: "linux", Architecture: arch}
	state, image, _, _, err := dockerfile2llb.Dockerfile2LLB(t.Context(), []byte(dockerfile), dockerfile2llb.ConvertOpt{
		Config:         dockerui.Config{Target: target, BuildPlatforms: []ocispecs.Platform{{OS: "linux", Architecture: machine}}},
		TargetPlatform: &platform,
		MetaResolver:   registry{},
		Warn: func(rule, _, _, message string, _ []parser.Range) {
			p.warnings = append(p.warnings, rule+": "+message)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	p.image = image
	definition, err := state.Marshal(t.Context(), llb.Platform(platform))
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range definition.Def {
		var op pb.Op
		if err := op.UnmarshalVT(data); err != nil {
			t.Fatal(err)
		}
		if source := op.GetSource(); source != nil {
			name, _, _ := strings.Cut(source.Identifier, "@")
			p.sources = append(p.sources, op.GetPlatform().GetArchitecture()+" "+name)
		}
		if op.GetExec() != nil {
			p.runs = append(p.runs, &op)
		}
		for _, action := range op.GetFile().GetActions() {
			if c := action.GetCopy(); c != nil {
				p.copies = append(p.copies, c)
			}
		}
	}
	slices.Sort(p.sources)
	return p
}

func read(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// builtFor is the platform that Go builds for: the variables of the command.
func builtFor(t *testing.T, p plan) string {
	t.Helper()
	for _, op := range p.runs {
		meta := op.GetExec().Meta
		if !strings.Contains(strings.Join(meta.Args, " "), "GOOS=${TARGETOS} GOARCH=${TARGETARCH} go build ") {
			continue
		}
		if on := op.Platform.Architecture; on != machine {
			t.Errorf("Go runs on %s, which has to be emulated", on)
		}
		values := map[string]string{}
		for _, variable := range meta.Env {
			name, value, _ := strings.Cut(variable, "=")
			values[name] = value
		}
		return values["TARGETOS"] + "/" + values["TARGETARCH"]
	}
	t.Fatal("no command builds the program")
	return ""
}

// Each platform gets its own program.
func TestPlatforms(t *testing.T) {
	for _, target := range []string{"hook", "shim"} {
		for _, arch := range []string{"amd64", "arm64"} {
			if got, want := builtFor(t, planFor(t, read(t), target, arch)), "linux/"+arch; got != want {
				t.Errorf("target %s for %s holds a program for %s", target, want, got)
			}
		}
	}
	// The Dockerfile had this once, and the image of arm64 the program of amd64.
	wrong := strings.Replace(read(t), "ARG TARGETARCH\n", "ARG TARGETARCH=amd64\n", 1)
	if got := builtFor(t, planFor(t, wrong, "hook", "arm64")); got != "linux/amd64" {
		t.Errorf("a default does not win over the platform any more: %s", got)
	}
}

// What is fetched is the image with Go, and for the shim KubeVirt's: nothing
// else stands between the source and the image, no frontend either.
func TestSources(t *testing.T) {
	const compiler = machine + " docker-image://docker.io/library/golang:1.26-bookworm"
	for target, want := range map[string][]string{
		"hook": {" local://context", compiler},
		"shim": {" local://context", compiler, "arm64 docker-image://quay.io/kubevirt/sidecar-shim:v1.9.0"},
	} {
		slices.Sort(want)
		if diff := cmp.Diff(want, planFor(t, read(t), target, "arm64").sources); diff != "" {
			t.Errorf("target %s (-want +got):\n%s", target, diff)
		}
	}
	if frontend, _, _, ok := parser.DetectSyntax([]byte(read(t))); ok {
		t.Errorf("the frontend %s is fetched and run", frontend)
	}
}

// The image holds what the build made and nothing of its own: no shell, and a
// user who is not root.
func TestHook(t *testing.T) {
	p := planFor(t, read(t), "hook", "arm64")
	// 107 is the user of virt-launcher (KubeVirt pkg/util/util.go, NonRootUID).
	want := ocispecs.ImageConfig{User: "107:107", Env: []string{"PATH=/"}, Entrypoint: []string{"/hook-sidecar"}, WorkingDir: "/"}
	if diff := cmp.Diff(want, p.image.Config.ImageConfig); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
	if p.image.Architecture != "arm64" {
		t.Errorf("architecture %s", p.image.Architecture)
	}
	last := p.copies[len(p.copies)-1]
	if last.Src != "/out" || last.Dest != "/" || !last.DirCopyContents {
		t.Errorf("the last copy is of %s to %s", last.Src, last.Dest)
	}
}

// BuildKit's own linter finds nothing.
func TestLint(t *testing.T) {
	for _, target := range []string{"hook", "shim"} {
		if p := planFor(t, read(t), target, "amd64"); len(p.warnings) != 0 {
			t.Errorf("target %s: %s", target, strings.Join(p.warnings, "\n"))
		}
	}
}
