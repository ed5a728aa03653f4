package kubectl

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// agent is QEMU's own guest agent, on a socket in the place of a guest's serial port, in
// a mount namespace whose /sys is the guest's.
type agent struct{ socket string }

func startAgent(t *testing.T, sysfs string) agent {
	t.Helper()
	dir := t.TempDir()
	a := agent{filepath.Join(dir, "agent.sock")}
	daemon(t, "unshare", "--mount", "--propagation", "private", "--fork", "--kill-child",
		"sh", "-c", `mount --bind "$0" /sys && exec qemu-ga -m unix-listen -p "$1" -t "$2" -f "$2/pid"`, sysfs, a.socket, dir)
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

// with is a container whose virsh has the agent at the other end.
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
			return exitStatus(1)
		}
		_, err = io.WriteString(out, answer)
		return err
	}
}

// guestSysfs is the sysfs of a guest that sees the domain as hook-sidecar predicts it.
func guestSysfs(t *testing.T, explained string) string {
	t.Helper()
	var r struct {
		Devices []struct {
			ID, Predicted string
			GuestCell     int
			GuestPath     []int
		}
		Controllers []struct{ Index, Slot, Function, BusNr int }
	}
	if err := json.Unmarshal([]byte(explained), &r); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	add := func(path, class, vendor, device string, node int) {
		at := filepath.Join(dir, "devices", path)
		link := filepath.Join(dir, "bus/pci/devices", filepath.Base(path))
		if err := errors.Join(os.MkdirAll(at, 0o755), os.MkdirAll(filepath.Dir(link), 0o755)); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("../../../devices/"+path, link); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"class": class, "vendor": vendor, "device": device, "numa_node": fmt.Sprint(node)} {
			write(t, filepath.Join(at, name), text+"\n")
		}
	}
	for _, d := range r.Devices {
		controller := func(index int) struct{ Index, Slot, Function, BusNr int } {
			return r.Controllers[slices.IndexFunc(r.Controllers, func(c struct{ Index, Slot, Function, BusNr int }) bool { return c.Index == index })]
		}
		bus, port := controller(d.GuestPath[0]).BusNr, controller(d.GuestPath[1])
		bridge := fmt.Sprintf("pci0000:%02x/0000:%02[1]x:%02x.%x", bus, port.Slot, port.Function)
		add(bridge, "0x060400", "0x1b36", "0x000c", d.GuestCell)
		ids := map[bool]string{true: "0x2330", false: "0x101e"}[strings.HasSuffix(d.ID, ".0")]
		vendor := map[bool]string{true: "0x10de", false: "0x15b3"}[strings.HasSuffix(d.ID, ".0")]
		add(bridge+"/"+d.Predicted, "0x030200", vendor, ids, d.GuestCell)
	}
	nodes := filepath.Join(dir, "devices/system/node")
	if err := os.MkdirAll(nodes, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(nodes, "online"), "0-1\n")
	return dir
}

func (c *cluster) testGuest(t *testing.T) {
	if _, err := exec.LookPath("qemu-ga"); err != nil {
		t.Fatal(err)
	}
	sysfs := guestSysfs(t, c.succeeds(t, "explain", "hooked", "--format", "json"))
	const compute = "virt-launcher-hooked/compute"
	without := c.kubelet.containers[compute]
	c.as(t, "viewer", "explain", "hooked", "--guest").fails(t, "ask the guest's agent for guest-exec", "the guest has to run qemu-guest-agent")
	c.kubelet.add(compute, startAgent(t, sysfs).with(without))
	out := c.succeeds(t, "explain", "hooked", "--guest")
	if !strings.Contains(out, "\nguest as planned: 16 of 16 devices\n") {
		t.Errorf("the guest differs:\n%s", out)
	}
	node := command(t, "sh", "-c", `ls -d "$0"/devices/pci*/*/*/numa_node | head -n 1`, sysfs)
	write(t, string(bytes.TrimSpace(node)), "-1\n")
	if r := c.as(t, "viewer", "explain", "hooked", "--guest"); r.code != 1 || !strings.Contains(r.out, "15 of 16") || !strings.Contains(r.out, "NUMA node none, planned ") {
		t.Errorf("exit status %d of a guest that differs: %s\n%s", r.code, r.err, r.out)
	}
	c.kubelet.add(compute, without)
}
