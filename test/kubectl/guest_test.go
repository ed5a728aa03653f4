package kubectl

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	utilexec "k8s.io/utils/exec"
)

// agent is QEMU's own guest agent, on a socket in the place of a guest's serial port, in
// a mount namespace whose /sys is the guest's.
type agent struct{ socket string }

func startAgent(t *testing.T, sysfs string) agent {
	t.Helper()
	dir := t.TempDir()
	a := agent{filepath.Join(dir, "agent.sock")}
	daemon(t, "unshare", "--mount", "--propagation", "private", "--fork", "--kill-child",
		"sh", "-c",
		`mount --bind "$0" /sys && exec qemu-ga -m unix-listen -p "$1" -t "$2" -f "$2/pid"`,
		sysfs, a.socket, dir)
	until(t, "qemu-ga", func() error {
		_, err := a.ask(`{"execute": "guest-ping"}`)
		return err
	})

	return a
}

// ask does what virsh qemu-agent-command does with a guest's port.
func (a agent) ask(request string) (string, error) {
	conn, err := net.DialTimeout("unix", a.socket, time.Second)
	if err != nil {
		return "", err
	}

	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return "", err
	}

	if _, err := fmt.Fprintln(conn, request); err != nil {
		return "", err
	}

	answer, err := bufio.NewReader(conn).ReadString('\n')
	if strings.Contains(answer, `"error"`) {
		return "", errors.New(answer)
	}

	return answer, err
}

// with returns a container whose virsh reaches the agent.
func (a agent) with(run process) process {
	return func(ctx context.Context, words []string, in io.Reader, out, errs io.Writer) error {
		if words[0] != "sh" {
			return run(ctx, words, in, out, errs)
		}

		script, err := bufio.NewReader(in).ReadString('\n')
		if err != nil {
			return err
		}
		if !strings.Contains(script, "qemu-agent-command") {
			return run(ctx, words, io.MultiReader(strings.NewReader(script), in), out, errs)
		}

		request := script[strings.Index(script, "'{")+1 : strings.LastIndex(script, "'")]
		answer, err := a.ask(request)
		if err != nil {
			fmt.Fprint(errs, "error: Guest agent is not responding: ", err)
			return utilexec.CodeExitError{Err: err, Code: 1}
		}

		_, err = io.WriteString(out, answer)
		return err
	}
}

// The guest's agent runs the script that prints its sysfs. The guest is another machine,
// which has a device at none of the addresses that the domain gives.
func (c *cluster) testGuest(t *testing.T) {
	const compute = "virt-launcher-hooked-x7k2p/compute"
	without := c.kubelet.containers[compute]
	c.as(t, "viewer", "explain", "hooked", "--guest").fails(t,
		"ask the guest's agent for guest-exec", "the guest has to run qemu-guest-agent")
	c.kubelet.add(compute,
		startAgent(t,
			sysfsDirectory(t, t.TempDir(),
				"../../testdata/hosts/x86-1n2g-rtx-audio.txtar")).with(without))

	r := c.as(t, "viewer", "explain", "hooked", "--guest")
	if r.code != 1 || r.err != "" ||
		!strings.Contains(r.out, "\nguest as planned: 0 of 16 devices\n") {
		t.Errorf("exit status %d: %s\n%s", r.code, r.err, r.out)
	}

	c.kubelet.add(compute, without)
}
