//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// runPods runs the pods of hook-sidecar/test/launcher, a line for each. A pod that has
// a result ran before this machine was started again.
func runPods(lines string) error {
	if err := prepareNode(); err != nil {
		return err
	}

	for name := range strings.Lines(lines) {
		name = strings.TrimSpace(name)
		if read(lab+"/"+name+"/out/result.json") != "" {
			continue
		}

		command := exec.Command("/usr/bin/pod", "in", lab+"/"+name)
		command.Stdout, command.Stderr = os.Stdout, os.Stderr
		command.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		}

		logLine("pod", name)
		if err := command.Run(); err != nil {
			return fmt.Errorf("pod %s: %w", name, err)
		}
	}

	return nil
}

// prepareNode does what an administrator and the device plugins do: huge pages, and
// devices that the user of the launcher may open.
func prepareNode() error {
	for _, node := range []string{"0", "1"} {
		if err := write("/sys/devices/system/node/node"+node+
			"/hugepages/hugepages-2048kB/nr_hugepages", "160"); err != nil {
			return err
		}
	}

	files, err := filepath.Glob("/dev/vfio/*")
	for _, file := range append(files, "/dev/kvm", "/dev/vhost-net", "/dev/net/tun") {
		err = errors.Join(err, os.Chmod(file, 0o666))
	}

	return err
}
