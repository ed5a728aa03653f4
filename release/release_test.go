package main

import (
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	tag        = "v0.9.7"
	repository = "registry.test/team/hook-sidecar"
	notes      = "### Fixed\n\n- Nothing that was not broken.\n"
)

// checkout is a clone of this project's last commit with one commit more, which
// has notes for the tag and the tag.
func checkout(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must(t, "git", "clone", "--quiet", "..", dir)
	log := filepath.Join(dir, "CHANGELOG.md")
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	added := string(text) + "\n## 0.9.7 - 2026-01-02\n\n" + notes
	if err := os.WriteFile(log, []byte(added), 0o644); err != nil {
		t.Fatal(err)
	}
	// What is ignored is what the folder to make has to be part of, so as the tree has it now.
	ignored := filepath.Join(dir, ".gitignore")
	if err := os.WriteFile(ignored, []byte(read(t, "..", ".gitignore")), 0o644); err != nil {
		t.Fatal(err)
	}
	mustGit(t, dir, "commit", "--quiet", "--all", "--message", "release")
	mustGit(t, dir, "tag", tag)
	return dir
}

func must(t *testing.T, name string, args ...string) string {
	t.Helper()
	command := exec.Command(name, args...)
	// The same commit in each clone, and nothing of the machine's own settings.
	command.Env = append(os.Environ(), "GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_AUTHOR_DATE=2026-01-02T03:04:05Z",
		"GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com", "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z")
	out, err := run(command)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func mustGit(t *testing.T, dir string, args ...string) {
	t.Helper()
	must(t, "git", append([]string{"-C", dir}, args...)...)
}

func optionsFor(t *testing.T, root string) options {
	return options{root: root, out: filepath.Join(t.TempDir(), "dist"), repository: repository, platforms: []string{"linux/" + runtime.GOARCH}}
}

func TestRelease(t *testing.T) {
	root := checkout(t)
	o := options{root: root, out: filepath.Join(root, "dist"), repository: repository, platforms: []string{"linux/amd64", "linux/arm64"}}
	got, err := release(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if got != tag {
		t.Errorf("tag %q, want %q", got, tag)
	}
	want := []string{
		"SHA256SUMS", "annotation-vm.yaml", "annotation-vmi.yaml",
		"hook-sidecar-linux-amd64", "hook-sidecar-linux-amd64.cdx.json", "hook-sidecar-linux-arm64", "hook-sidecar-linux-arm64.cdx.json", "kubevirt.yaml",
		"plugin-dry-run.yaml", "plugin-kubernetes-1.34.yaml", "plugin-mirror.yaml", "plugin-numa.yaml", "plugin-root.yaml", "plugin-strict.yaml",
		"plugin-vm.yaml", "plugin.yaml", "release-notes.md", "shim-vmi.yaml",
	}
	if diff := cmp.Diff(want, names(t, o.out)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		checkProgram(t, o.out, arch)
	}
	if said := must(t, filepath.Join(o.out, "hook-sidecar-linux-"+runtime.GOARCH), "version"); !strings.HasPrefix(said, "hook-sidecar "+tag+" ") {
		t.Errorf("the program says %q", said)
	}
	if got := read(t, o.out, "release-notes.md"); got != notes {
		t.Errorf("notes %q, want %q", got, notes)
	}
	checkImages(t, o.out)
	check := exec.Command("sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")
	check.Dir = o.out
	if said, err := check.CombinedOutput(); err != nil {
		t.Errorf("sha256sum: %v\n%s", err, said)
	}
	// Another clone, made later in another place, gives the same bytes.
	again := optionsFor(t, checkout(t))
	again.platforms = o.platforms
	if _, err := release(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(read(t, o.out, "SHA256SUMS"), read(t, again.out, "SHA256SUMS")); diff != "" {
		t.Errorf("two releases of one tag (-first +second):\n%s", diff)
	}
}

// checkProgram looks at a program, and compares its bill of materials with what
// the linker recorded.
func checkProgram(t *testing.T, dir, arch string) {
	t.Helper()
	program := "hook-sidecar-linux-" + arch
	var bom struct {
		BOMFormat, SpecVersion string
		Metadata               struct {
			Timestamp string
			Component struct {
				Name, Version string
				Hashes        []struct{ Alg, Content string }
			}
		}
		Components []struct{ PURL string }
	}
	if err := json.Unmarshal([]byte(read(t, dir, program+".cdx.json")), &bom); err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(filepath.Join(dir, program))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(info.Settings, debug.BuildSetting{Key: "GOARCH", Value: arch}) {
		t.Errorf("%s is for another machine: %v", program, info.Settings)
	}
	want := []string{"pkg:golang/stdlib@" + strings.TrimPrefix(info.GoVersion, "go")}
	for _, module := range info.Deps {
		want = append(want, "pkg:golang/"+module.Path+"@"+strings.ReplaceAll(module.Version, "+", "%2B"))
	}
	var got []string
	for _, component := range bom.Components {
		got = append(got, component.PURL)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("components (-want +got):\n%s", diff)
	}
	about := bom.Metadata.Component
	if bom.BOMFormat != "CycloneDX" || bom.Metadata.Timestamp != "2026-01-02T03:04:05Z" || about.Name != program || about.Version != tag {
		t.Errorf("bill of materials of %+v", bom.Metadata)
	}
	sum := strings.Fields(must(t, "sha256sum", filepath.Join(dir, program)))[0]
	if len(about.Hashes) != 1 || about.Hashes[0].Content != sum {
		t.Errorf("hashes %+v, want %s", about.Hashes, sum)
	}
}

// checkImages looks for the images of the manifests: each way has one, of this
// release.
func checkImages(t *testing.T, dir string) {
	t.Helper()
	for name, want := range map[string]string{
		"annotation-vm.yaml":          `"image": "` + repository + ":" + tag + `"`,
		"annotation-vmi.yaml":         `"image": "` + repository + ":" + tag + `"`,
		"shim-vmi.yaml":               `"image": "` + repository + "-shim:" + tag + `"`,
		"plugin.yaml":                 "  image: " + repository + ":" + tag + "\n",
		"plugin-mirror.yaml":          "  layout: mirror\n",
		"plugin-kubernetes-1.34.yaml": "apiVersion: admissionregistration.k8s.io/v1beta1\n",
	} {
		if !strings.Contains(read(t, dir, name), want) {
			t.Errorf("%s has no %s", name, want)
		}
	}
	for _, name := range names(t, dir) {
		if strings.HasSuffix(name, ".yaml") && strings.Contains(read(t, dir, name), placeholder) {
			t.Errorf("%s names %s", name, placeholder)
		}
	}
}

// What is no release is refused, and leaves nothing.
func TestRefusals(t *testing.T) {
	root := checkout(t)
	for _, test := range []struct {
		name    string
		prepare []string // lines of git's arguments
		write   string   // a file to write
		want    string
	}{
		{name: "a file that is no part of the commit", write: "left-over.go", want: "left-over.go"},
		{name: "a file that was changed", write: "README.md", want: "M README.md"},
		{name: "no notes", prepare: []string{"tag v1.2.3", "tag --delete " + tag}, want: "CHANGELOG.md has no heading `## 1.2.3 - `"},
		{name: "no tag", prepare: []string{"tag --delete " + tag}, want: "0 tags of a version"},
		{name: "a tag of something else", prepare: []string{"tag v1", "tag --delete " + tag}, want: "0 tags of a version"},
		{name: "two tags", prepare: []string{"tag v1.2.3"}, want: "2 tags of a version [v0.9.7 v1.2.3]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, "git", "clone", "--quiet", root, dir)
			for _, line := range test.prepare {
				mustGit(t, dir, strings.Fields(line)...)
			}
			if test.write != "" {
				if err := os.WriteFile(filepath.Join(dir, test.write), []byte("package main\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			o := optionsFor(t, dir)
			_, err := release(t.Context(), o)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
			if left := names(t, filepath.Dir(o.out)); len(left) != 0 {
				t.Errorf("it left %v", left)
			}
		})
	}
	t.Run("a folder that is there", func(t *testing.T) {
		o := optionsFor(t, root)
		o.out = t.TempDir()
		if _, err := release(t.Context(), o); err == nil || !strings.Contains(err.Error(), "file exists") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("a platform that does not build", func(t *testing.T) {
		o := optionsFor(t, root)
		o.platforms = []string{"linux/abacus"}
		if _, err := release(t.Context(), o); err == nil || !strings.Contains(err.Error(), "linux/abacus") {
			t.Errorf("error %v", err)
		}
		if _, err := os.Lstat(o.out); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want it not to be there", o.out, err)
		}
	})
}

func TestSection(t *testing.T) {
	const log = "# Changelog\n\n## Unreleased\n\n- new\n\n## 1.10.0 - 2026-03-04\n\n## 1.1.0 - 2026-02-03\n\n### Added\n\n- that\n\n## 1.0.0\n\n- first\n"
	for _, test := range []struct{ tag, want, err string }{
		{tag: "v1.1.0", want: "### Added\n\n- that\n"},
		{tag: "v1.10.0", err: "says nothing of 1.10.0"},
		{tag: "v1.0.0", err: "no heading"}, // has no date
		{tag: "v1.1", err: "no heading"},
	} {
		got, err := section(log, test.tag)
		if got != test.want || (test.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: %q, %v; want %q, %q", test.tag, got, err, test.want, test.err)
		}
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, entry := range entries {
		found = append(found, entry.Name())
	}
	return found
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
