// Package expect ends or fails a test where something is not as it expects.
package expect

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/tools/hostfs"
)

// NoError ends the test where there is an error.
func NoError(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// File returns the content of a file.
func File(tb testing.TB, name string) []byte {
	tb.Helper()
	data, err := os.ReadFile(name)
	NoError(tb, err)
	return data
}

// Root returns the path of the project, from the directory of the package under test.
func Root(tb testing.TB) string {
	tb.Helper()
	root := "."
	for {
		if _, err := os.Stat(filepath.Join(root, "testdata", "hosts")); err == nil {
			return root
		}

		above, err := filepath.Abs(filepath.Join(root, ".."))
		NoError(tb, err)
		if above == string(filepath.Separator) {
			tb.Fatal("the test does not run in the project")
		}

		root = filepath.Join(root, "..")
	}
}

// Host returns the sysfs that a text of package hostfs describes.
func Host(tb testing.TB, text string) hostfs.Files {
	tb.Helper()
	host, err := hostfs.Parse(text)
	NoError(tb, err)
	return host
}

// MemoryDir returns an empty directory that is removed when the test ends. It is in memory where
// there is /dev/shm: a host has thousands of small files, for which a disk takes seconds.
func MemoryDir(tb testing.TB) string {
	tb.Helper()
	parent := "/dev/shm"
	if _, err := os.Stat(parent); err != nil {
		parent = ""
	}

	dir, err := os.MkdirTemp(parent, "host")
	NoError(tb, err)
	tb.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	})

	return dir
}

// HostDir returns a directory with the files and links of a host, as MemoryDir does.
func HostDir(tb testing.TB, host fs.FS) string {
	tb.Helper()
	dir := filepath.Join(MemoryDir(tb), "sys")
	NoError(tb, os.CopyFS(dir, host))
	return dir
}

// Same fails the test, which goes on, where two values differ. The text says what they
// are, and which one is - and which +.
func Same(tb testing.TB, minus, plus any, format string, args ...any) {
	tb.Helper()
	if d := cmp.Diff(minus, plus); d != "" {
		tb.Errorf("%s:\n%s", fmt.Sprintf(format, args...), d)
	}
}

// Golden compares with a golden file, or rewrites it.
func Golden(tb testing.TB, update bool, file string, got []byte) {
	tb.Helper()
	if update {
		NoError(tb, os.WriteFile(file, got, 0o644))
		return
	}

	Same(tb, string(File(tb, file)), string(got),
		"%s (-want +got), rewrite with -update and review", file)
}

// Problems checks that got has each problem of want, "CODE SOURCE: part of the
// text", and no other.
func Problems(t *testing.T, got []reasons.Finding, want []string) {
	t.Helper()
	expected := make([]bool, len(got))
	for _, w := range want {
		head, part, _ := strings.Cut(w, ": ")
		found := false
		for i, p := range got {
			source, text, _ := strings.Cut(p.Text, ": ")
			if string(p.Code)+" "+source == head && strings.Contains(text, part) {
				found, expected[i] = true, true
			}
		}

		if !found {
			t.Errorf("no problem %q in %q", w, got)
		}
	}

	for i, p := range got {
		if !expected[i] {
			t.Errorf("unexpected problem %+v", p)
		}
	}
}

// Sampled returns one of several, another one for each n and each seed; all if IsWhole.
func Sampled[T any](n int, all []T) []T {
	if len(all) == 0 || IsWhole() {
		return all
	}
	return all[(n+seed())%len(all):][:1:1]
}

// Count returns how often a test tries something: few times, or whole times if IsWhole.
func Count(few, whole int) int {
	if IsWhole() {
		return whole
	}
	return few
}

// Seeds returns the seeds of a random test: few of those under whole, others for each value of
// SAMPLE, or all if IsWhole.
func Seeds(few, whole int) []uint64 {
	seeds := make([]uint64, Count(few, whole))
	for i := range seeds {
		seeds[i] = uint64((few*seed() + i) % whole)
	}

	return seeds
}

// IsSampled reports whether a test tries the nth of many: every step-th, others for each seed, or all
// if IsWhole. If a sample is taken inside another one, their steps need to have no common factor, else
// the same pairs are tried in each turn.
func IsSampled(n, step int) bool { return IsWhole() || (n+seed())%step == 0 }

// seed returns SAMPLE of the environment, by default the number of the day, so that in time all is
// tried. It is printed once, for a failure to be tried again.
var seed = sync.OnceValue(func() int {
	n, err := strconv.ParseUint(os.Getenv("SAMPLE"), 10, 31)
	if err != nil {
		n = uint64(time.Now().Unix() / (24 * 60 * 60))
	}

	fmt.Printf("SAMPLE=%d\n", n)
	return int(n)
})

// IsWhole reports whether tests that sample are to try everything: WHOLE=1 in the environment
// (`make whole`).
func IsWhole() bool { return os.Getenv("WHOLE") == "1" }
