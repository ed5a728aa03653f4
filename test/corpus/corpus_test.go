package corpus_test

import (
	"crypto/sha256"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hook-sidecar/test/corpus"
	"hook-sidecar/test/expect"
)

// TestNothingBorrowed: no file of the repository is one of the corpus.
func TestNothingBorrowed(t *testing.T) {
	theirs := map[[32]byte]string{}
	for name, file := range corpus.Files(t, "*") {
		theirs[sha256.Sum256(expect.File(t, file))] = name
	}

	const root = "../.."
	list, err := exec.CommandContext(t.Context(), "git", "-C", root, "ls-files", "-z").Output()
	expect.NoError(t, err)
	for name := range strings.SplitSeq(strings.TrimRight(string(list), "\x00"), "\x00") {
		if same := theirs[sha256.Sum256(expect.File(t, filepath.Join(root, name)))]; same != "" {
			t.Errorf("%s is %s of the corpus", name, same)
		}
	}
}
