// Package corpus finds files that others made, such as outputs in threads, for tests that read
// them. The repository has none: CORPUS names a directory with a directory per kind of file.
package corpus

import (
	"os"
	"path/filepath"
	"testing"

	"hook-sidecar/test/expect"
)

// Variable names the environment variable with the directory, which may be relative to the
// repository's.
const Variable = "CORPUS"

// Files returns the files of a kind, such as "nccl", or of all ("*"), by their names in the
// directory. Without the variable the test is skipped, which says so.
func Files(tb testing.TB, kind string) map[string]string {
	tb.Helper()
	directory := os.Getenv(Variable)
	if directory == "" {
		tb.Skipf("reads no files of others: %s is not set", Variable)
	}

	if !filepath.IsAbs(directory) {
		directory = filepath.Join(expect.Root(tb), directory)
	}

	found, err := filepath.Glob(filepath.Join(directory, kind, "*"))
	if err != nil || len(found) == 0 {
		tb.Fatalf("no files in %s/%s: %v", directory, kind, err)
	}

	files := map[string]string{}
	for _, file := range found {
		if info, err := os.Stat(file); err != nil || info.Size() == 0 {
			continue
		}

		name, err := filepath.Rel(directory, file)
		if err != nil {
			tb.Fatal(err)
		}
		files[filepath.ToSlash(name)] = file
	}

	tb.Logf("reads %d files of others in %s", len(files), directory)
	return files
}
