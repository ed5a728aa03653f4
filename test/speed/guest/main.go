//go:build linux

// Command guest is the first process of a guest whose PCI devices are a host's: it
// races the program under test against an echo on the guest's own sysfs. Package
// hook-sidecar/test/speed reads what it prints.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"hook-sidecar/test/boot/pid1"
	"hook-sidecar/test/speed"
)

const (
	program = "/hook-sidecar"
	self    = "/init"
	layout  = "hostdev.vm.kubevirt.io/layout"

	rounds   = 200             // of a race
	patience = 5 * time.Minute // for a race
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
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	hook, err := speed.StartHook(ctx, program, "/run", "/sys", io.Discard)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hook.Stop()) }()
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
