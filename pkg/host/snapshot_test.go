package host_test

import (
	"io/fs"
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
	fsys := parse(t,
		"A head.\n\n-- a/b/file --\n1\n-- l -> a/b --\n-- a/up -> ../a/b/file --\n\n"+
			"-- a/gone -> b/x --\n-- a/b/none --\n")
	for name, want := range map[string]string{"a/b/file": "1\n", "a/b/none": ""} {
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
		". d---------", "a d---------", "a/b d---------", "a/b/file ----------",
		"a/b/none ----------",
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
	} {
		fsys, err := host.ParseSnapshot([]byte(tc.text))
		if err == nil || !strings.Contains(err.Error(), tc.want) || fsys != nil {
			t.Errorf("%s: %v, %v; want an error with %q", tc.name, fsys, err, tc.want)
		} else if len(err.Error()) > 200 {
			t.Errorf("%s: error of %d bytes", tc.name, len(err.Error()))
		}
	}
}

// A snapshot is a file system by the rules of testing/fstest, and has the files and links of
// its text.
func TestSnapshotIsFileSystem(t *testing.T) {
	// TestFS opens every file, and a snapshot follows no link.
	if err := fstest.TestFS(parse(t, "-- a/b/file --\n1\n-- a/c --\n"), "a/b/file",
		"a/c"); err != nil {
		t.Error(err)
	}

	path := filepath.Join(hostsDir, "x86-2n2g-t4-vgpu.txtar")
	fsys := open(t, path)
	for _, section := range txtar.Parse(expect.File(t, path)).Files {
		name, target, isLink := strings.Cut(section.Name, " -> ")
		if isLink {
			if got, err := fs.ReadLink(fsys, name); err != nil || got != target {
				t.Errorf("%s -> %q, %v", name, got, err)
			}
		} else if got, err := fs.ReadFile(fsys, name); err != nil ||
			string(got) != string(section.Data) {
			t.Errorf("%s = %q, %v", name, got, err)
		}
	}
}

func FuzzParseSnapshot(f *testing.F) {
	for _, seed := range []string{
		"-- a --\n", "-- a -> a --\n", "-- a -> b --\n-- b -> c/d --\n-- c/d --\nx\n",
		"-- a/l -> ../a/l/x --\n",
		"-- bus/pci/devices/0000:00:02.0 -> ../../../devices/pci0000:00/0000:00:02.0 --\n" +
			"-- devices/pci0000:00/0000:00:02.0/numa_node --\n0\n",
		shapes,
	} {
		f.Add([]byte(seed))
	}

	f.Fuzz(func(t *testing.T, data []byte) {
		fsys, err := host.ParseSnapshot(data)
		if err != nil {
			return
		}

		// A loop of links must not be followed.
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
