package image

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hook-sidecar/test/expect"
)

// requireVariable names the environment variable that has the image built, with
// buildah and as root; .ci/run sets it to 1.
const requireVariable = "REQUIRE_BUILDAH"

// builder is buildah, which needs no daemon, with a store of its own.
type builder []string

// run returns what a command of buildah prints.
func (b builder) run(t *testing.T, args ...string) string {
	t.Helper()
	return output(t, "buildah", append(b[:len(b):len(b)], args...)...)
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	command := exec.Command(name, args...)
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, stderr.Bytes())
	}

	return strings.TrimSpace(string(out))
}

// compiler commits a stand-in for the image of Go: directories on which the build
// mounts this machine's /usr, its Go and its caches, so that nothing is fetched.
// It returns the image's name and the options of the build.
func compiler(t *testing.T, b builder) (name string, options []string) {
	t.Helper()
	root := t.TempDir()
	options = []string{"--volume", "/usr:/usr:ro"}
	for _, directory := range []string{"usr", "etc", "tmp"} {
		expect.NoError(t, os.Mkdir(filepath.Join(root, directory), 0o755))
	}

	for _, link := range []string{"bin", "sbin", "lib", "lib64"} {
		expect.NoError(t, os.Symlink("usr/"+link, filepath.Join(root, link)))
	}

	settings := []string{
		"config", "--env", "PATH=/GOROOT/bin:/usr/bin:/bin", "--env", "GOTOOLCHAIN=local", "--env",
		"GOPROXY=off",
	}

	for _, variable := range []string{"GOROOT", "GOMODCACHE", "GOCACHE"} {
		expect.NoError(t, os.Mkdir(filepath.Join(root, variable), 0o755))
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

// TestBuild: the image of each platform has that platform's program with its
// other name, and nothing else; virt-launcher's user can run it there.
func TestBuild(t *testing.T) {
	if os.Getenv(requireVariable) != "1" {
		t.Skipf("%s is not 1; `.ci/run image` sets it for root", requireVariable)
	}

	store := t.TempDir()
	b := builder{
		"--root", filepath.Join(store, "root"), "--runroot", filepath.Join(store, "run"),
		"--storage-driver", "vfs",
	}

	// The build gets its modules from this machine's cache, all of go.mod.
	output(t, "go", "-C", "../..", "mod", "download")
	golang, options := compiler(t, b)
	build := func(name, target, platforms string) {
		t.Helper()
		output(t, "make", "-C", "../..", "image", "IMAGE="+name, "GO_IMAGE="+golang,
			"TARGET="+target, "PLATFORMS="+platforms,
			"BUILDER=buildah "+strings.Join(b, " "),
			"OPTIONS=--quiet --isolation chroot "+strings.Join(options, " "))
	}

	const name = "localhost/hook-sidecar:test"
	build(name, "hook", "linux/amd64,linux/arm64")
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	for arch, machine := range machines {
		t.Run(arch, func(t *testing.T) {
			container := b.run(t, "from", "--pull-never", "--arch", arch, name)
			checkConfiguration(t, b.run(t, "inspect", "--type", "container", container), arch)
			root := b.run(t, "mount", container)
			checkFiles(t, root, "hook-sidecar", "onDefineDomain")
			if link, err := os.Readlink(filepath.Join(root, "onDefineDomain")); link != "hook-sidecar" {
				t.Errorf("onDefineDomain links to %q, %v", link, err)
			}

			checkStatic(t, filepath.Join(root, "hook-sidecar"), machine)
			if arch == runtime.GOARCH {
				checkRuns(t, root)
			}
		})
	}

	// The image of kubectl's plugin has that program alone.
	const kubectl = "localhost/kubectl-hostdev:test"
	build(kubectl, "kubectl", "linux/"+runtime.GOARCH)
	root := b.run(t, "mount", b.run(t, "from", "--pull-never", kubectl))
	checkFiles(t, root, "kubectl-hostdev")
	program := filepath.Join(root, "kubectl-hostdev")
	checkStatic(t, program, machines[runtime.GOARCH])
	if printed := output(t, program, "version"); !strings.HasPrefix(printed, "kubectl-hostdev ") {
		t.Errorf("version prints %q", printed)
	}
}

func checkConfiguration(t *testing.T, inspected, arch string) {
	t.Helper()
	type configuration struct{ User, WorkingDir, Env, Entrypoint, Cmd, Volumes, ExposedPorts any }
	var about struct {
		OCIv1 struct {
			Architecture string
			Config       configuration
		}
	}

	expect.NoError(t, json.Unmarshal([]byte(inspected), &about))
	want := configuration{User: "107:107", Env: []any{"PATH=/"}, Entrypoint: []any{"/hook-sidecar"}}
	if diff := cmp.Diff(want, about.OCIv1.Config); diff != "" || about.OCIv1.Architecture != arch {
		t.Errorf("configuration for %s (-want +got):\n%s", about.OCIv1.Architecture, diff)
	}
}

// checkFiles: the image has these files and nothing else.
func checkFiles(t *testing.T, root string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(root)
	expect.NoError(t, err)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}

	expect.Same(t, want, names, "files (-want +got)")
}

// checkStatic: a program needs no other file and is for the machine.
func checkStatic(t *testing.T, name string, machine elf.Machine) {
	t.Helper()
	program, err := elf.Open(name)
	expect.NoError(t, err)
	defer program.Close()
	if program.Machine != machine {
		t.Errorf("the program is for %v, want %v", program.Machine, machine)
	}

	for _, p := range program.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the program is not static: it has a segment %v", p.Type)
		}
	}
}

// checkRuns runs the program in its image, as virt-launcher's user, by both of
// its names.
func checkRuns(t *testing.T, root string) {
	t.Helper()

	// A store's directories are open to their owner alone, unlike the root of a
	// container.
	for dir := root; dir != filepath.Dir(dir) && dir != os.TempDir(); dir = filepath.Dir(dir) {
		expect.NoError(t, os.Chmod(dir, 0o755))
	}

	inside := []string{"--no-new-privs", "chroot", "--userspec=107:107", "--groups=107", root}
	if printed := output(t, "setpriv",
		append(inside, "/hook-sidecar",
			"version")...); !strings.HasPrefix(printed, "hook-sidecar ") {
		t.Errorf("version prints %q", printed)
	}

	const domain = "<domain type='kvm'><devices></devices></domain>"
	if printed := output(t, "setpriv",
		append(inside, "/onDefineDomain", "--vmi", `{"kind": "VirtualMachineInstance"}`, "--domain",
			domain)...); printed != domain {
		t.Errorf("onDefineDomain prints %q, want its input: there is nothing to do", printed)
	}
}
