//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"hook-sidecar/test/call"
)

const (
	sockets = "/run/hooks"
	plugin  = "/run/plugin.sock"
	console = "/run/console"  // of the inner guest
	seen    = "/run/snapshot" // disk of the inner guest, for a snapshot of its /sys
	vmi     = lab + "/vmi.json"
)

// guest is an inner guest, and the flags of the program under test that places
// its devices.
type guest struct {
	name  string
	flags []string
}

func (g guest) input() string          { return lab + "/" + g.name + ".xml" }
func (g guest) out(kind string) string { return lab + "/out/" + g.name + "." + kind }

// isFinished reports whether compare, the last step, has written its file.
func (g guest) isFinished() bool { return read(g.out("compared.json")) != "" }

// boot lets the program place the devices, boots the domain, and saves the program's reports
// on it.
func (g guest) boot() (err error) {
	hook, err := g.serve()
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, hook.Process.Signal(syscall.SIGTERM), hook.Wait()) }()

	for _, step := range []func() error{g.call, g.define, g.examine, g.start, g.compare} {
		if err := step(); err != nil {
			return err
		}
	}

	return command("virsh", "-q", "undefine", "--nvram", "e2e")
}

// serve starts the program under test and waits for its sockets.
func (g guest) serve() (*exec.Cmd, error) {
	hook := exec.Command(program,
		append([]string{"--socket-dir", sockets, "--plugin-socket", plugin}, g.flags...)...)
	hook.Stderr = os.Stderr
	if err := hook.Start(); err != nil {
		return nil, err
	}

	return hook, until("the hook", func() bool {
		_, err := os.Stat(sockets + "/hostdev-e2e.sock")
		_, pluginErr := os.Stat(plugin)
		return err == nil && pluginErr == nil
	})
}

// call calls the program as virt-launcher does, once as a hook and once as a plugin.
func (g guest) call() error {
	err := errors.Join(
		call.Run(sockets+"/hostdev-e2e.sock", "", g.input(), vmi, g.out("domain.xml")),
		call.Run(plugin, call.PluginOf19, g.input(), vmi, g.out("plugin.xml")))
	if err != nil && strings.Contains(err.Error(), "DeadlineExceeded") {
		// As virt-launcher, call waits one second for the answer to Info, and
		// an emulated machine can take longer.
		fmt.Println("HOST-HUNG the hook's answer")
	}

	return err
}

func (g guest) define() error {
	if err := command("virsh", "-q", "define", "--validate", g.out("domain.xml")); err != nil {
		return err
	}
	return save(g.out("readback.xml"), "virsh", "-q", "dumpxml", "--inactive", "e2e")
}

// examine saves the program's reports on the domain, before and after placement,
// and on the node.
func (g guest) examine() error {
	return errors.Join(
		g.ask("planned.json", "explain", "-o", "json", "--domain", g.input()),
		g.ask("explained.json", "explain", "-o", "json", "--domain", g.out("readback.xml")),
		g.ask("doctor.json", "doctor", "-o", "json", "--socket-dir", sockets, "--domain",
			g.input()))
}

// start boots the guest, which powers itself off. The emulation of a guest in a guest makes some
// hang: these are started again, with more time.
func (g guest) start() error {
	const attempts = 3
	for attempt := range attempts {
		printed, err := g.run(time.Duration(attempt+1) * 2 * time.Minute)
		last := string(printed[max(0, len(printed)-1000):])
		switch {
		case err != nil:
			return errors.Join(err,
				save(g.out("log"), "tail", "-n", "30", "/var/log/libvirt/qemu/e2e.log"))

		case bytes.Contains(printed, []byte("GUEST-ERROR")):
			return fmt.Errorf("the inner guest failed: %s", last)
		case bytes.Contains(printed, []byte("GUEST-END")):
			return save(g.out("console"), "cat", console)
		}

		logLine("INNER-LOST", g.name, last)
	}

	fmt.Println("HOST-HUNG", g.name)
	return fmt.Errorf("the inner guest did not finish in %d attempts", attempts)
}

// run starts the guest, waits until it is off, destroys it at the limit, and returns its console.
func (g guest) run(limit time.Duration) ([]byte, error) {
	// Larger than any snapshot of a guest.
	if err := errors.Join(os.RemoveAll(console), os.RemoveAll(seen), os.WriteFile(seen, nil, 0o644),
		os.Truncate(seen, 1<<20)); err != nil {
		return nil, err
	}

	if err := command("virsh", "-q", "start", "e2e"); err != nil {
		return nil, err
	}

	hung := within(limit, "the inner guest", func() bool {
		state, err := exec.Command("virsh", "-q", "domstate", "e2e").Output()
		return err == nil && strings.HasPrefix(string(state), "shut off")
	})

	printed, err := os.ReadFile(console)
	if hung != nil {
		err = errors.Join(err, command("virsh", "-q", "destroy", "e2e"))
	}

	return printed, err
}

// compare passes the guest's snapshot to the program.
func (g guest) compare() error {
	data, err := os.ReadFile(seen)
	if err != nil {
		return err
	}

	if err := os.WriteFile(g.out("guest.txtar"), bytes.TrimRight(data, "\x00"), 0o644); err != nil {
		return err
	}

	return g.ask("compared.json", "explain", "-o", "json", "--domain", g.out("readback.xml"),
		"--guest", g.out("guest.txtar"))
}

// withoutDriver unbinds a device's driver, and saves what the program and libvirt
// report on the domain then.
func (g guest) withoutDriver(address string) error {
	if err := write("/sys/bus/pci/devices/"+address+"/driver/unbind", address); err != nil {
		return err
	}

	if err := errors.Join(g.ask("unbound.json", "doctor", "-o", "json", "--socket-dir", "",
		"--domain", g.input()), g.define()); err != nil {
		return err
	}

	refusal, err := exec.Command("virsh", "-q", "start", "e2e").CombinedOutput()
	if err == nil {
		return errors.New("libvirt started a domain with a device that has no driver")
	}

	return os.WriteFile(g.out("refusal"), refusal, 0o644)
}

// ask saves what the program under test prints about the guest's domain. Exit
// status 1 is a finding, which is part of what it prints.
func (g guest) ask(kind string, args ...string) error {
	args = append(append(args, "--vmi", vmi), g.flags...)
	err := save(g.out(kind), program, args...)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return nil
	}

	return err
}
