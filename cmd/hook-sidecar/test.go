package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/report"
	"hook-sidecar/pkg/tools/cases"
	"hook-sidecar/pkg/tools/cli"
	"hook-sidecar/pkg/words"
)

// testFlags are the flags of test.
type testFlags struct {
	update       bool
	junit, newOf string
}

func newTest(p *cli.Program) *cobra.Command {
	var flags testFlags
	cmd := &cobra.Command{
		Use:   "test CASE|DIRECTORY... [flags]",
		Short: "Test domains of your own against what you expect",
		Long: `test plans the domain of each case as the hook would, and compares the result
with the expected part of the case. It also checks that a second call changes
nothing, and that keys which are off again leave nothing. A case is a txtar file
or a directory with a domain, a VMI, a host and what is expected; of a DIRECTORY
all its cases are tested. ` + reasons.Page("docs/test.md") + ` describes the form.

The result depends on the files alone: not on the machine, its environment or the
time.

Exit status:
  0  every case is as it wants
  1  a case is not, or has no expected part
  2  usage error, or a case that cannot be read`,
		Example: `  hook-sidecar test --new hostdev-dgx.tar.gz cases/
  hook-sidecar test cases/
  hook-sidecar test cases/ --junit report.xml
  hook-sidecar test cases/ --update`,
	}

	cmd.Flags().BoolVar(&flags.update, "update", false,
		"write what results into the cases that differ; read the diff before you\ncommit it")
	cmd.Flags().StringVar(&flags.junit, "junit", "",
		"write a report for CI systems to this `FILE`, as JUnit's XML")
	cmd.Flags().StringVar(&flags.newOf, "new", "",
		"make a case of each VM in this `ARCHIVE` of kubectl hostdev collect, in the\n"+
			"DIRECTORY (default: the current one)")

	cmd.ValidArgsFunction = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)
	cmd.MarkFlagsMutuallyExclusive("new", "update")
	cmd.MarkFlagsMutuallyExclusive("new", "junit")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		switch {
		case flags.newOf != "":
			return cli.AtMostOne(cmd, args)
		case len(args) == 0:
			return cli.Failed(cli.SeeHelp(cmd), errors.New("name a case, or a directory of cases"))
		}
		return nil
	}

	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if flags.newOf == "" {
			return runTest(p, args, flags)
		}
		if len(args) == 0 {
			args = []string{"."}
		}
		return makeCases(p, flags.newOf, args[0])
	}

	return cmd
}

// runTest runs the cases that are named, and prints each as soon as it has run.
func runTest(p *cli.Program, names []string, flags testFlags) error {
	var paths []string
	for _, name := range names {
		found, err := cases.Find(name)
		if err != nil {
			return err
		}
		paths = append(paths, found...)
	}

	outcomes := make([]cases.Outcome, len(paths))
	counts := map[caseState]int{}
	for i, path := range paths {
		var c *cases.Case
		c, outcomes[i] = cases.Run(path)
		state := stateOf(outcomes[i])
		if state != unreadable && flags.update && len(outcomes[i].Differences) > 0 {
			if err := c.Update(outcomes[i].Differences); err != nil {
				return fmt.Errorf("update %s: %w", path, err)
			}
			state = updated
			if len(outcomes[i].Broken) > 0 {
				state = failed
			}
		}

		counts[state]++
		if err := p.Write("", []byte(caseLines(p, state, outcomes[i]))); err != nil {
			return err
		}
	}

	if flags.junit != "" {
		data, err := cases.JUnit(outcomes)
		if err == nil {
			err = p.Write(flags.junit, data)
		}
		if err != nil {
			return err
		}
	}

	return summarize(p, counts, len(paths))
}

// caseState is the first word of a case's line.
type caseState string

const (
	passed     caseState = "ok"
	failed     caseState = "FAIL"
	updated    caseState = "UPDATED"
	unreadable caseState = "ERROR"
)

var caseColours = map[caseState]report.Colour{
	passed: report.Green, failed: report.Red, updated: report.Yellow, unreadable: report.Red,
}

func stateOf(o cases.Outcome) caseState {
	switch {
	case o.Err != nil:
		return unreadable
	case o.IsFailed():
		return failed
	}
	return passed
}

// caseLines returns the line of a case, and the diffs of one that failed.
func caseLines(p *cli.Program, state caseState, o cases.Outcome) string {
	style := p.Style("")
	text := style.Paint(caseColours[state], string(state)) + strings.Repeat(" ", 8-len(state))
	switch {
	case o.Err != nil: // which begins with the file
		return text + words.Printable(reasons.Text(o.Err)) + "\n"
	case state == passed:
		return text + words.Printable(o.Path) + "\n"
	}

	text += words.Printable(o.Path+": "+o.Reason()) + "\n"
	if state == updated {
		return text
	}

	return text + string(colouredDiff([]byte(o.Details()), style))
}

// summarize prints the counts, and returns what they mean.
func summarize(p *cli.Program, counts map[caseState]int, all int) error {
	text := fmt.Sprintf("\n%s: %d ok", words.Counted(all, "case"), counts[passed])
	for _, state := range []caseState{failed, updated, unreadable} {
		if counts[state] > 0 {
			text += fmt.Sprintf(", %d %s", counts[state], state)
		}
	}

	if err := p.Write("", []byte(text+"\n")); err != nil {
		return err
	}

	if counts[unreadable] > 0 {
		return cli.Failed("correct them, as "+reasons.Page("docs/test.md")+" describes",
			fmt.Errorf("%d of %s cannot be read", counts[unreadable], words.Counted(all, "case")))
	}
	if counts[failed] > 0 {
		p.Say("hint: --update writes what results now; read the diff before you commit it")
	}

	return cli.Found(counts[failed] > 0)
}

// makeCases makes a case of each VM in an archive, with what results now as what it wants. It
// overwrites no file; nodes of one name have one snapshot.
func makeCases(p *cli.Program, archive, directory string) error {
	data, err := p.ReadInput(archive)
	if err != nil {
		return err
	}

	all, err := cases.OfArchive(cli.InputName(archive), data)
	if err != nil {
		return err
	}

	hosts := filepath.Join(directory, "hosts")
	if err := os.MkdirAll(hosts, 0o755); err != nil {
		return err
	}

	for _, vm := range all {
		path := filepath.Join(directory, vm.Namespace+"-"+vm.Name+cases.Ending)
		if err := makeCase(p, vm, path, hosts); err != nil {
			return fmt.Errorf("make a case of VM %s: %w", vm, err)
		}
	}

	return nil
}

func makeCase(p *cli.Program, vm cases.Collected, path, hosts string) error {
	source, err := cli.HookPolicy(vm.HookArgs)
	if err != nil {
		return err
	}

	// A node whose devices have changed gets a snapshot of its own.
	host := filepath.Join(hosts, vm.Node+cases.Ending)
	for n := 2; ; n++ {
		known, err := os.ReadFile(host)
		if errors.Is(err, fs.ErrNotExist) || err == nil && string(known) == string(vm.Host) {
			break
		}
		if err != nil {
			return err
		}
		host = filepath.Join(hosts, fmt.Sprintf("%s-%d%s", vm.Node, n, cases.Ending))
	}

	data, err := vm.New(source, "hosts/"+filepath.Base(host))
	if err != nil {
		return err
	}

	if _, err := os.Lstat(path); err == nil {
		return cli.Failed("remove it, or name another directory", fmt.Errorf("%s exists", path))
	}
	if err := p.Write(host, vm.Host); err != nil {
		return err
	}
	if err := p.Write(path, data); err != nil {
		return err
	}

	c, outcome := cases.Run(path)
	if outcome.Err != nil {
		return outcome.Err
	}
	if err := c.Update(outcome.Differences); err != nil {
		return err
	}

	for _, removed := range vm.Removed {
		p.Say("collect removed from the domain, and the hook does not read: %s", removed)
	}

	return p.Write("", []byte("made "+path+" on "+host+"\n"))
}
