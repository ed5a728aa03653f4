//go:build linux

// Command guest is the first process of a guest whose PCI devices are a host's: it
// races the program under test against an echo on the guest's own sysfs,
// or with SPEED_STEPS changes that at random and compares a server that runs on with a
// process that has just started. Package hook-sidecar/test/speed reads what it prints.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"hook-sidecar/test/boot/pid1"
	"hook-sidecar/test/speed"
)

const (
	program = "/hook-sidecar"
	self    = "/init"
	layout  = "hostdev.vm.kubevirt.io/layout"

	rounds   = 200             // of a race
	patience = 5 * time.Minute // for a call, or for a start
)

func main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, speed.ServeEcho(os.Args[1]))
		os.Exit(1)
	}
	pid1.Run("SPEED", run)
}

func run() error {
	err := errors.Join(pid1.Mount("sysfs", "/sys", "sysfs", ""), pid1.Mount("proc", "/proc", "proc", ""),
		pid1.Mount("devtmpfs", "/dev", "devtmpfs", ""), pid1.Mount("tmpfs", "/run", "tmpfs", ""))
	if err != nil {
		return err
	}
	devices, err := endpoints()
	if err != nil {
		return err
	}
	fmt.Println("SPEED-DEVICES", len(devices))
	if os.Getenv("SPEED_STEPS") != "" {
		return compare(devices)
	}
	for _, count := range []int{16, 64} {
		for _, shape := range []string{"numa", "mirror"} {
			if err := race(devices[:count], shape); err != nil {
				return err
			}
		}
	}
	return nil
}

// endpoints are the functions under a switch that are no bridge, in the order of
// their addresses.
func endpoints() ([]string, error) {
	links, err := filepath.Glob("/sys/bus/pci/devices/*")
	if err != nil {
		return nil, err
	}
	var found []string
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil {
			return nil, err
		}
		const depth = 5 // PCIe root, root port, upstream port, downstream port, device
		_, path, _ := strings.Cut(target, "/devices/")
		if strings.Count(path, "/") == depth-1 {
			found = append(found, filepath.Base(link))
		}
	}
	return found, nil
}

// race prints what a call costs beside an echo.
func race(devices []string, shape string) (err error) {
	vm, err := speed.VMWith(devices)
	if err != nil {
		return err
	}
	if vm, err = vm.Annotated(map[string]string{layout: shape}); err != nil {
		return err
	}
	hook, err := serve(io.Discard)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hook.Stop()) }()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	const socket = "/run/echo.sock"
	echo, err := speed.Start(ctx, exec.Command(self, socket), socket, os.Stdout)
	if err != nil {
		return err
	}
	defer func() {
		echo.Stop() // ends by the signal
		err = errors.Join(err, os.Remove(socket))
	}()
	r, err := speed.NewRace(ctx, hook, echo, vm)
	if err != nil {
		return err
	}
	for range rounds {
		if err := r.Round(ctx); err != nil {
			return err
		}
	}
	fmt.Printf("SPEED-RACE devices=%d layout=%s %s\n", len(devices), shape, r.Figures())
	return nil
}

func serve(log io.Writer) (*speed.Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return speed.StartHook(ctx, program, "/run", "/sys", log)
}

// compare changes the devices and compares the answers about them, so many times and from such a seed as the kernel's command line says.
func compare(devices []string) error {
	steps, err := strconv.Atoi(os.Getenv("SPEED_STEPS"))
	if err != nil {
		return err
	}
	seed, err := strconv.ParseUint(os.Getenv("SPEED_SEED"), 10, 64)
	if err != nil {
		return err
	}
	vm, err := speed.VMWith(devices)
	if err != nil {
		return err
	}
	log := speed.NewLines()
	server, err := serve(log)
	if err != nil {
		return err
	}
	twins := &speed.Twins{Server: server, Log: log, Sysfs: "/sys", Fresh: func(args ...string) *exec.Cmd { return speed.Hook(program, args...) }}
	n := node{devices, rand.New(rand.NewPCG(seed, seed)), map[string]int{}}
	answers, began, asking := map[string]bool{}, time.Now(), time.Duration(0)
	for step := range steps {
		made := []string{}
		for range n.rng.IntN(3) {
			made = append(made, n.change())
		}
		shape := []string{"auto", "numa", "root", "mirror", "keep"}[step%5]
		asked := time.Now()
		if err := same(twins, vm, shape, answers); err != nil {
			return fmt.Errorf("seed %d, step %d, layout %s, after %q: %w", seed, step, shape, made, err)
		}
		asking += time.Since(asked)
		if step%10 == 9 {
			fmt.Println("SPEED-STEP", step+1) // the watchdog's
		}
	}
	fmt.Printf("SPEED-COMPARED steps=%d answers=%d took=%v asking=%v changes=%v\n",
		steps, len(answers), time.Since(began).Round(time.Second), asking.Round(time.Second), n.made)
	if len(answers) < steps/4 {
		return errors.New("the changes change too little, so nothing was tried")
	}
	return server.Stop()
}

// same asks both, and notes the answer.
func same(twins *speed.Twins, vm speed.VM, shape string, answers map[string]bool) error {
	asked, err := vm.Annotated(map[string]string{layout: shape})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	running, fresh, err := twins.Ask(ctx, asked)
	if err != nil {
		return err
	}
	if d := cmp.Diff(fresh, running); d != "" {
		return fmt.Errorf("-a process that has just started +the server:\n%s", d)
	}
	answers[fmt.Sprint(running)] = true
	return nil
}

// node is the guest as the host of these devices.
type node struct {
	devices []string
	rng     *rand.Rand
	made    map[string]int // changes by kind
}

// change makes a random change of the guest's devices and says which. What cannot be
// done to a device that is not there changes nothing.
func (n node) change() string {
	device := n.devices[n.rng.IntN(len(n.devices))]
	dir := "/sys/bus/pci/devices/" + device
	changes := []struct {
		weight           int
		kind, file, text string
	}{
		{1, "remove", dir + "/remove", "1"},
		{1, "remove with the switch", above(dir, 2) + "/remove", "1"},
		{3, "rescan", "/sys/bus/pci/rescan", "1"},
		{3, "node", dir + "/numa_node", []string{"-1", "0", "1"}[n.rng.IntN(3)]},
		{1, "unbind", dir + "/driver/unbind", device},
		{1, "bind", "/sys/bus/pci/drivers/nvme/bind", device},
	}
	at := n.rng.IntN(10) // the weights' sum
	i := 0
	for at >= changes[i].weight {
		at -= changes[i].weight
		i++
	}
	c := changes[i]
	if err := os.WriteFile(c.file, []byte(c.text), 0o200); err != nil {
		return fmt.Sprintf("%s %s: %v", c.kind, device, err)
	}
	n.made[c.kind]++
	return c.kind + " " + device + " " + c.text
}

// above is the directory of a bridge so many levels above a device.
func above(device string, levels int) string {
	dir, err := filepath.EvalSymlinks(device)
	if err != nil {
		return device // it is not there
	}
	return filepath.Join(dir, strings.Repeat("../", levels))
}
