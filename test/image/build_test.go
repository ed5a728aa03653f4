package image

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	ocispecs "github.com/opencontainers/image-spec/specs-go/v1"
)

// builder is buildah, which takes no daemon, with a store of its own.
type builder []string

// newBuilder skips the test where there is no buildah or no root; where
// REQUIRE_BUILDAH is set, it fails it.
func newBuilder(t *testing.T) builder {
	t.Helper()
	_, missing := exec.LookPath("buildah")
	if os.Geteuid() != 0 {
		missing = errors.Join(missing, errors.New("the build takes root, to change its own root"))
	}
	if missing != nil && os.Getenv("REQUIRE_BUILDAH") != "" {
		t.Fatal(missing)
	}
	if missing != nil {
		t.Skip(missing)
	}
	store := t.TempDir()
	return builder{"--root", filepath.Join(store, "root"), "--runroot", filepath.Join(store, "run"), "--storage-driver", "vfs"}
}

// run is what a command of buildah prints.
func (b builder) run(t *testing.T, args ...string) string {
	t.Helper()
	return output(t, "buildah", append(b[:len(b):len(b)], args...)...)
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	var said bytes.Buffer
	command := exec.Command(name, args...)
	command.Stderr = &said
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, said.Bytes())
	}
	return strings.TrimSpace(string(out))
}

// compiler commits what stands in for the image of Go: folders, which the build
// fills with this machine's /usr, its Go and its caches, so that nothing is
// fetched. It returns the image's name and the options of the build.
func compiler(t *testing.T, b builder) (name string, options []string) {
	t.Helper()
	root := t.TempDir()
	options = []string{"--volume", "/usr:/usr:ro"}
	for _, folder := range []string{"usr", "etc", "tmp"} {
		if err := os.Mkdir(filepath.Join(root, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, link := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.Symlink("usr/"+link, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	settings := []string{"config", "--env", "PATH=/GOROOT/bin:/usr/bin:/bin", "--env", "GOTOOLCHAIN=local", "--env", "GOPROXY=off"}
	for _, variable := range []string{"GOROOT", "GOMODCACHE", "GOCACHE"} {
		if err := os.Mkdir(filepath.Join(root, variable), 0o755); err != nil {
			t.Fatal(err)
		}
		settings = append(settings, "--env", variable+"=/"+variable)
		options = append(options, "--volume", output(t, "go", "env", variable)+":/"+variable)
	}
	container := b.run(t, "from", "scratch")
	b.run(t, "copy", container, root, "/")
	b.run(t, append(settings, container)...)
	name = "localhost/golang:stand-in"
	b.run(t, "commit", "--quiet", container, name)
	return name, options
}

// The image that is built holds the program and its other name, and nothing
// else; virt-launcher's user can run it there.
func TestBuild(t *testing.T) {
	b := newBuilder(t)
	// The build gets its modules from this machine's cache, all of go.mod.
	output(t, "go", "-C", "../..", "mod", "download")
	golang, options := compiler(t, b)
	const name = "localhost/hook-sidecar:test"
	b.run(t, append(append([]string{"build", "--quiet", "--isolation", "chroot", "--platform", "linux/" + runtime.GOARCH, "--target", "hook",
		"--build-arg", "GO_IMAGE=" + golang, "--tag", name}, options...), "../..")...)

	var about struct{ OCIv1 ocispecs.Image }
	if err := json.Unmarshal([]byte(b.run(t, "inspect", "--type", "image", name)), &about); err != nil {
		t.Fatal(err)
	}
	config := about.OCIv1.Config
	config.Labels = nil // buildah's own version
	want := ocispecs.ImageConfig{User: "107:107", Env: []string{"PATH=/"}, Entrypoint: []string{"/hook-sidecar"}}
	if diff := cmp.Diff(want, config); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
	root := b.run(t, "mount", b.run(t, "from", "--pull-never", name))
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	if diff := cmp.Diff([]string{"hook-sidecar", "onDefineDomain"}, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if target, err := os.Readlink(filepath.Join(root, "onDefineDomain")); target != "hook-sidecar" {
		t.Errorf("onDefineDomain leads to %q, %v", target, err)
	}
	program, err := elf.Open(filepath.Join(root, "hook-sidecar"))
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	for _, p := range program.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the program is not static: it has a segment %v", p.Type)
		}
	}
	checkRuns(t, root)
}

// checkRuns runs the program in its image, as virt-launcher's user, by both of
// its names.
func checkRuns(t *testing.T, root string) {
	t.Helper()
	// A folder of a store is its owner's alone, unlike the root of a container.
	for dir := root; dir != filepath.Dir(dir) && dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	inside := []string{"--no-new-privs", "chroot", "--userspec=107:107", "--groups=107", root}
	if said := output(t, "setpriv", append(inside, "/hook-sidecar", "version")...); !strings.HasPrefix(said, "hook-sidecar ") {
		t.Errorf("version prints %q", said)
	}
	const domain = "<domain type='kvm'><devices></devices></domain>"
	if said := output(t, "setpriv", append(inside, "/onDefineDomain", "--vmi", "{}", "--domain", domain)...); said != domain {
		t.Errorf("onDefineDomain prints %q, want its input, in which nothing is to be done", said)
	}
}
