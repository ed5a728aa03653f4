package kubectl

import (
	"bytes"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// result is what a program printed.
type result struct {
	out, err string
	code     int
}

// as runs kubectl-hostdev as a user.
func (c *cluster) as(t *testing.T, user string, arguments ...string) result {
	t.Helper()
	cmd := exec.Command(filepath.Join(c.programs, "kubectl-hostdev"), arguments...)
	cmd.Env = []string{"KUBECONFIG=" + c.kubeconfig(t, user), "HOME=" + t.TempDir()}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}

	return result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// succeeds runs kubectl-hostdev as the user with the rights of manifests/kubectl.
func (c *cluster) succeeds(t *testing.T, arguments ...string) string {
	t.Helper()
	r := c.as(t, "viewer", arguments...)
	if r.code != 0 || r.err != "" {
		t.Fatalf("%v: exit status %d: %s", arguments, r.code, r.err)
	}

	return r.out
}

// fails checks the message of a failure.
func (r result) fails(t *testing.T, want ...string) {
	t.Helper()
	if r.code != 2 || r.out != "" {
		t.Errorf("exit status %d, output %q, want a failure: %s", r.code, r.out, r.err)
	}

	for _, text := range want {
		if !strings.Contains(r.err, text) {
			t.Errorf("the message is\n%s\nwant %q", r.err, text)
		}
	}
}

// onFiles runs a command of hook-sidecar on the files that one had to collect by hand.
func (c *cluster) onFiles(t *testing.T, arguments ...string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "vm.xml"), string(c.runningDomain(t)))
	data, err := c.storedVMI(t).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}

	write(t, filepath.Join(dir, "vmi.json"), string(data))
	program := []string{"env", "-i", filepath.Join(c.programs, "hook-sidecar")}
	files := []string{
		"--domain", filepath.Join(dir, "vm.xml"), "--vmi", filepath.Join(dir, "vmi.json"),
		"--sysfs", hostFile,
	}

	return string(command(t, slices.Concat(program, arguments, files)...))
}

func same(t *testing.T, what, got, want string) {
	t.Helper()
	if got == want {
		return
	}

	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Fatalf("%s: line %d is\n%s\nwant\n%s", what, i+1, g[i], w[i])
		}
	}

	t.Fatalf("%s has %d lines, want %d", what, len(g), len(w))
}
