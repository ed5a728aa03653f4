package host_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"hook-sidecar/pkg/host"
	"hook-sidecar/test/expect"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

func TestParseSnapshot(t *testing.T) {
	fsys := parse(t, "A head.\n\n-- a/b/file --\n1\n-- l -> a/b --\n-- a/up -> ../a/b/file --\n\n-- a/gone -> b/x --\n-- a/b/none --\n")
	for name, want := range map[string]string{"a/b/file": "1\n", "a/up": "1\n", "l/file": "1\n", "a/b/none": ""} {
		if got, err := fs.ReadFile(fsys, name); err != nil || string(got) != want {
			t.Errorf("%s = %q, %v; want %q", name, got, err, want)
		}
	}
	for name, want := range map[string]string{"l": "a/b", "a/up": "../a/b/file", "a/gone": "b/x"} {
		if got, err := fs.ReadLink(fsys, name); err != nil || got != want {
			t.Errorf("%s -> %q, %v; want %q", name, got, err, want)
		}
	}
	var names []string
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		names = append(names, name+" "+entry.Type().String())
		return err
	})
	want := []string{
		". d---------", "a d---------", "a/b d---------", "a/b/file ----------", "a/b/none ----------",
		"a/gone L---------", "a/up L---------", "l L---------",
	}
	if diff := cmp.Diff(want, names); err != nil || diff != "" {
		t.Errorf("walk: %v (-want +got):\n%s", err, diff)
	}
}

func TestParseSnapshotRefuses(t *testing.T) {
	deep := strings.Repeat("d/", 100) + "f"
	for _, tc := range []struct{ name, text, want string }{
		{"nothing", "", "not a snapshot"},
		{"something else", "<domain type='kvm'/>\n", "not a snapshot"},
		{"absolute path", "-- /etc/passwd --\n", "/etc/passwd"},
		{"path that goes up", "-- ../etc/passwd --\n", "../etc/passwd"},
		{"path that is not clean", "-- a//b --\n", "a//b"},
		{"path with a dot", "-- a/./b --\n", "a/./b"},
		{"the root itself", "-- . --\n", "."},
		{"path not UTF-8", "-- a\xff --\n", "path"},
		{"deep path", "-- " + deep + " --\n", "invalid path"},
		{"long path", "-- " + strings.Repeat("x", 5000) + " --\n", "invalid path"},
		{"twice", "-- a --\n-- a --\n", `"a" appears twice`},
		{"twice, as a link", "-- a -> b --\n-- a --\n", `"a" appears twice`},
		{"file, then directory", "-- a --\n-- a/b --\n", `"a" is both`},
		{"directory, then file", "-- a/b --\n-- a --\n", `"a" is both`},
		{"under a link", "-- a -> c --\n-- a/b --\n-- c/d --\n", `"a" is both`},
		{"absolute target", "-- a -> /etc --\n", "absolute"},
		{"no target", "-- a ->  --\n", "shortest"},
		{"target that is not clean", "-- a -> b/../c --\n", "shortest"},
		{"target outside", "-- a/b -> ../../c --\n", "out of the snapshot"},
		{"link with content", "-- a -> b --\nx\n", "content"},
		{"link to itself", "-- a -> a --\n", "loop"},
		{"loop of two", "-- a -> b --\n-- b -> a --\n", "loop"},
		{"loop through a directory", "-- a/l -> ../a/l/x --\n", "loop"},
		{"loop above", "-- a/l -> ../b/x --\n-- b -> a/l --\n", "loop"},
	} {
		fsys, err := host.ParseSnapshot([]byte(tc.text))
		if err == nil || !strings.Contains(err.Error(), tc.want) || fsys != nil {
			t.Errorf("%s: %v, %v; want an error with %q", tc.name, fsys, err, tc.want)
		} else if len(err.Error()) > 200 {
			t.Errorf("%s: error of %d bytes", tc.name, len(err.Error()))
		}
	}
}

// Linux follows at most 40 links (path_resolution(7)).
func TestParseSnapshotChain(t *testing.T) {
	text := "-- a00 --\n1\n"
	for i := range 40 {
		text += "-- " + name(i+1) + " -> " + name(i) + " --\n"
	}
	if got, err := fs.ReadFile(parse(t, text), name(40)); err != nil || string(got) != "1\n" {
		t.Errorf("chain of 40 links: %q, %v", got, err)
	}
	if _, err := host.ParseSnapshot([]byte(text + "-- a41 -> a40 --\n")); err == nil || !strings.Contains(err.Error(), "a41") {
		t.Errorf("chain of 41 links: %v", err)
	}
}

func name(i int) string { return "a" + string(rune('0'+i/10)) + string(rune('0'+i%10)) }

// A snapshot is a file system by the rules of testing/fstest, and its paths
// resolve as in a real directory.
func TestSnapshotIsFileSystem(t *testing.T) {
	path := filepath.Join(hostsDir, "x86-2n2g-t4-vgpu.txtar")
	data := expect.File(t, path)
	fsys := open(t, path)
	// TestFS opens every file, so there must be no dangling link.
	if err := fstest.TestFS(parse(t, "-- a/b/file --\n1\n-- a/up -> ../a/b --\n-- z -> a/b/file --\n"), "a/b/file", "a/up", "z"); err != nil {
		t.Error(err)
	}
	dir := t.TempDir()
	expect.NoError(t, os.CopyFS(dir, fsys))
	onDisk := os.DirFS(dir)
	for _, section := range txtar.Parse(data).Files {
		name, _, isLink := strings.Cut(section.Name, " -> ")
		if !isLink {
			if got, err := fs.ReadFile(fsys, name); err != nil || string(got) != string(section.Data) {
				t.Errorf("%s = %q, %v", name, got, err)
			}
			continue
		}
		// The link may be the last component of a path, or in the middle.
		for _, name := range []string{name, name + "/vendor"} {
			want, wantErr := fs.ReadFile(onDisk, name)
			got, gotErr := fs.ReadFile(fsys, name)
			if string(got) != string(want) || (gotErr == nil) != (wantErr == nil) {
				t.Errorf("%s = %q, %v; on disk %q, %v", name, got, gotErr, want, wantErr)
			}
		}
	}
}

func FuzzParseSnapshot(f *testing.F) {
	for _, seed := range []string{
		"-- a --\n", "-- a -> a --\n", "-- a -> b --\n-- b -> c/d --\n-- c/d --\nx\n", "-- a/l -> ../a/l/x --\n",
		"-- bus/pci/devices/0000:00:02.0 -> ../../../devices/pci0000:00/0000:00:02.0 --\n-- devices/pci0000:00/0000:00:02.0/numa_node --\n0\n",
		shapes,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fsys, err := host.ParseSnapshot(data)
		if err != nil {
			return
		}
		// A loop in fstest.MapFS would end the process.
		err = fs.WalkDir(fsys, ".", func(name string, _ fs.DirEntry, err error) error {
			if err == nil {
				_, _ = fs.Stat(fsys, name) // dangling links are fine
				_, _ = fs.Stat(fsys, name+"/x/y")
			}
			return err
		})
		if err != nil {
			t.Errorf("walk: %v", err)
		}
		shown, problems := host.Read(fsys, nil, host.All)
		if again, _ := host.Read(fsys, nil, host.All); !cmp.Equal(shown, again, compare) {
			t.Error("a second read gives another host")
		}
		for _, p := range problems {
			if len(p.Text) > 10_000 {
				t.Errorf("problem of %d bytes", len(p.Text))
			}
		}
	})
}
