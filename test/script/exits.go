// Package script has what the scripts of both programs share (package testscript).
package script

import (
	"errors"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// Within is how long all scripts of a program may take on a busy machine. A program that does not end
// is killed then, and its script fails.
const Within = 5 * time.Minute

// Exits implements the command
//
//	exits CODE program args...
//
// which runs a program that has to exit with CODE, which exec cannot check. An argument
// @file is replaced by the file's content.
func Exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE program args...")
	}

	argv := slices.Clone(args[2:])
	for i, arg := range argv {
		if file, ok := strings.CutPrefix(arg, "@"); ok {
			argv[i] = ts.ReadFile(file)
		}
	}

	err := ts.Exec(args[1], argv...)
	code := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}

	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit status %d, want %s", code, args[0])
	}
}
