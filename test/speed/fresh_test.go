//go:build unix

package speed_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hook-sidecar/pkg/hooks/hookstest"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/speed"
)

// The property test's length and its seed.
var (
	steps = flag.Int("steps", 60, "comparisons of TestLikeFresh")
	seed  = flag.Uint64("seed", 1, "seed of TestLikeFresh")
)

// nobody is the user of the processes under test if the test runs as root, which
// may read everything.
const nobody = 65534

// answersWithin is how long a call may take on a busy machine: a read of a pipe that
// nobody writes to never ends.
const answersWithin = 20 * time.Second

// TestLikeFresh: whatever happens to the host between calls, a server that runs on
// answers as a process that has just started: the same bytes, the same refusal and the
// same log.
func TestLikeFresh(t *testing.T) {
	base := hookstest.Dir(t)
	expect.NoError(t, os.Chmod(base, 0o755)) // for nobody
	expect.NoError(t, speed.Build(base))
	host, vm := changing(t, base)
	sockets := filepath.Join(base, "sockets")
	expect.NoError(t, os.Mkdir(sockets, 0o755))
	asUser := func(args ...string) *exec.Cmd {
		command := speed.Hook(filepath.Join(base, "hook-sidecar"), args...)
		if os.Geteuid() == 0 {
			command.SysProcAttr = &syscall.SysProcAttr{
				Credential: &syscall.Credential{Uid: nobody, Gid: nobody},
			}
		}

		return command
	}

	if os.Geteuid() == 0 {
		expect.NoError(t, os.Chown(sockets, nobody, nobody))
	}

	read, write, err := os.Pipe()
	expect.NoError(t, err)
	defer read.Close()
	starting, cancel := context.WithTimeout(t.Context(), answersWithin)
	defer cancel()
	server, err := speed.Start(starting,
		asUser("serve", "--socket-dir", sockets, "--sysfs", host.dir.Name()), filepath.Join(sockets,
			"hostdev-speed.sock"), write)

	expect.NoError(t, err)
	defer func() {
		if err := errors.Join(server.Stop(), write.Close()); err != nil {
			t.Error(err)
		}
	}()

	compare(t, &twins{
		server: server,
		stderr: read,
		log:    bufio.NewReader(read),
		fresh:  asUser,
		sysfs:  host.dir.Name(),
	}, host, vm)
}

// compare changes the host and compares the answers, step by step.
func compare(t *testing.T, twins *twins, host *host, vm speed.VM) {
	t.Helper()
	var history []string
	answers, placed, refused := map[string]bool{}, 0, 0
	for step := range *steps {
		var made []string
		for range host.rng.IntN(3) { // none, at times: nothing has changed is a case, too
			made = append(made, host.change())
		}

		annotations := policyOf(step, host)
		history = append(history,
			fmt.Sprintf("step %d, %v:\n\t%s", step, annotations, strings.Join(made, "\n\t")))
		asked, err := vm.Annotated(annotations)
		expect.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), answersWithin)
		running, fresh, err := twins.ask(ctx, asked)
		cancel()
		if d := cmp.Diff(fresh, running); d != "" || err != nil {
			t.Fatalf("-seed %d, step %d of %d: %v\n"+
				"(-a process that has just started +the server):\n%s\nThe last changes:\n%s",
				*seed, step, *steps, err, d, strings.Join(history[max(0, len(history)-5):], "\n"))
		}

		answers[fmt.Sprint(running)] = true

		if running.Refused != "" {
			refused++
		} else if strings.Contains(running.Domain, "pcie-expander-bus") {
			placed++
		}
	}

	t.Logf("%d answers, %d of them different: %d placed devices, %d were refused", *steps,
		len(answers), placed, refused)
	if len(answers) < *steps/3 || placed < *steps/3 || refused == 0 {
		t.Error("the changes change too little, so nothing was tried")
	}
}

// policyOf returns the policy of a step: each layout in turn, the rest at random.
func policyOf(step int, host *host) map[string]string {
	const prefix = "hostdev.vm.kubevirt.io/"
	annotations := map[string]string{
		prefix + "layout": []string{"auto", "numa", "root", "mirror", "keep"}[step%5],
	}

	for key, value := range map[string]string{
		"strict": "true", "companions": "add", "nccl-topology": "fwcfg",
	} {
		annotations[prefix+key] = value
	}

	for _, key := range []string{"strict", "companions", "nccl-topology"} {
		if host.rng.IntN(4) > 0 {
			delete(annotations, prefix+key)
		}
	}

	return annotations
}

// changing returns a host with some of everything, and a VM with its devices: GPUs and NICs under
// switches, an audio function and one that the VM lacks, a virtual function, a device under a root
// port, and a mediated device.
func changing(t *testing.T, base string) (*host, speed.VM) {
	t.Helper()
	const mediated = "4a1f0b5c-6c3e-4f5a-9d0e-3b1c7f2a9e01"
	lines, ids := speed.Host(10)
	lines += `
pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.1 node=0 group=0 driver=vfio-pci class=0x040300
pci0000:00/0000:00:02.0/0000:05:00.0/0000:06:00.0/0000:07:00.1 node=0 group=2 driver=vfio-pci class=0x040300
pci0000:c0/0000:c0:01.0/0000:c1:00.0 node=1 group=20 driver=mlx5_core class=0x020000
pci0000:c0/0000:c0:01.0/0000:c1:00.1 node=1 group=21 driver=vfio-pci class=0x020000 physfn=0000:c1:00.0
pci0000:c0/0000:c0:02.0/0000:c2:00.0 node=1 group=22 driver=vfio-pci class=0x030200 bar=37,25 io
pci0000:c0/0000:c0:03.0/0000:c3:00.0 node=0 group=23 driver=nvidia class=0x030200
pci0000:c0/0000:c0:03.0/0000:c3:00.0/` + mediated + ` type=nvidia-222 group=24
`

	files := expect.Host(t, lines)
	vm, err := speed.VMWith(append(ids, "0000:03:00.1", "0000:c1:00.1", "0000:c2:00.0", mediated))
	expect.NoError(t, err)
	sys := filepath.Join(base, "sys")
	expect.NoError(t, os.Mkdir(sys, 0o755))
	dir, err := os.OpenRoot(sys)
	expect.NoError(t, err)
	h := newHost(dir, files.Leaves(), *seed)
	t.Cleanup(func() {
		// What nobody may read has to be readable before the directory can be removed.
		if err := errors.Join(h.restore("bus", "devices", "kernel"), dir.Close()); err != nil {
			t.Error(err)
		}
	})

	expect.NoError(t, h.restore("bus", "devices", "kernel"))
	return h, vm
}
