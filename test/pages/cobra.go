package pages

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Check lets a program parse its commands in the pages: the command, the flags, the number of
// arguments, and values of flags that complete to a few words. newRoot makes the program for some
// arguments, and anew each time, since cobra keeps what it has parsed.
func Check(t *testing.T, root string, newRoot func(args []string) (*cobra.Command, []string)) {
	t.Helper()
	program, _ := newRoot(nil)
	name := program.DisplayName() // "kubectl hostdev"
	file := program.Name()        // kubectl-hostdev
	all := Commands(t, Read(t, root), name, file, "./"+file, "kubectl exec", "go run")

	checked := 0
	for _, command := range all {
		args, found := arguments(command.Words, name, file)
		if !found {
			continue
		}

		checked++
		root, args := newRoot(args)
		if err := parse(root, args, command.IsBlock); err != nil {
			t.Errorf("%s: %s %s: %v", command.Where, name, strings.Join(args, " "), err)
		}
	}

	if checked < 20 {
		t.Errorf("%d commands of %s are in the pages, want at least 20", checked, name)
	}
}

// arguments returns those of the program, wherever it begins: after kubectl exec's --, or after
// go run.
func arguments(words []string, name, file string) ([]string, bool) {
	if inPod := slices.Index(words, "--"); words[0] == "kubectl" && inPod > 0 {
		words = words[inPod+1:]
	}

	if words[0] == "go" && len(words) > 2 && words[1] == "run" {
		words = words[2:]
	}

	prefix := strings.Fields(name)
	switch {
	case len(words) >= len(prefix) && slices.Equal(words[:len(prefix)], prefix):
		return words[len(prefix):], true
	case len(words) > 0 && path.Base(words[0]) == file:
		return words[1:], true
	}

	return nil, false
}

// parse parses arguments as cobra does before it runs a command. One that is not whole, such as
// the name of a command in a sentence, may lack its arguments and the value of a flag.
func parse(root *cobra.Command, args []string, isWhole bool) error {
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}

	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	err = cmd.ParseFlags(rest)
	if errors.As(err, new(*pflag.ValueRequiredError)) && !isWhole {
		return nil
	}
	if err != nil {
		return err
	}

	if cmd.Flags().NArg() > 0 || isWhole {
		if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
			return err
		}
	}

	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if bad := badValue(cmd, flag); err == nil && bad != nil {
			err = bad
		}
	})

	return err
}

// badValue returns an error for a value that is none of those that the flag completes to. A word
// in upper case, and a variable, stand for any value.
func badValue(cmd *cobra.Command, flag *pflag.Flag) error {
	complete, hasValues := cmd.GetFlagCompletionFunc(flag.Name)
	value := flag.Value.String()
	if !hasValues || value == strings.ToUpper(value) || strings.HasPrefix(value, "$") {
		return nil
	}

	values, _ := complete(cmd, nil, "")
	for part := range strings.SplitSeq(value, ",") {
		if len(values) > 0 && !slices.Contains(values, part) {
			return fmt.Errorf("--%s %q: want one of %s", flag.Name, part, strings.Join(values, ", "))
		}
	}

	return nil
}
