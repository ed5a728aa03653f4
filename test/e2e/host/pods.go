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

// runPods runs the pods of hook-sidecar/test/launcher: a line has those that run at
// the same time, each from the time when the VM of the one before runs. A pod that has
// a result ran before this machine was started again.
func runPods(lines string) error {
	if err := prepareNode(); err != nil {
		return err
	}
	for line := range strings.Lines(lines) {
		var running []*pod
		for _, name := range strings.Fields(line) {
			if len(running) > 0 {
				if err := until("the VM of the pod before", running[len(running)-1].isUp); err != nil {
					return err
				}
			}
			if read(lab+"/"+name+"/out/result.json") != "" {
				continue
			}
			p, err := startPod(name)
			if err != nil {
				return err
			}
			running = append(running, p)
		}
		for _, p := range running {
			if <-p.ended; p.err != nil {
				return fmt.Errorf("pod %s: %w", p.name, p.err)
			}
		}
	}
	return nil
}

// pod is a pod that was started.
type pod struct {
	name  string
	ended chan struct{} // closed at the end
	err   error         // after the end
}

func startPod(name string) (*pod, error) {
	command := exec.Command("/usr/bin/pod", "in", lab+"/"+name)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start pod %s: %w", name, err)
	}
	logLine("pod", name)
	p := &pod{name: name, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		p.err = command.Wait()
	}()
	return p, nil
}

// isUp reports whether the pod's VM runs, or has.
func (p *pod) isUp() bool {
	select {
	case <-p.ended:
		return true
	default:
		return read(lab+"/"+p.name+"/out/running.xml") != ""
	}
}

// prepareNode does what an administrator and the device plugins do: huge pages, and
// devices that the user of the launcher may open.
func prepareNode() error {
	for _, node := range []string{"0", "1"} {
		if err := write("/sys/devices/system/node/node"+node+"/hugepages/hugepages-2048kB/nr_hugepages", "160"); err != nil {
			return err
		}
	}
	files, err := filepath.Glob("/dev/vfio/*")
	for _, file := range append(files, "/dev/kvm", "/dev/vhost-net", "/dev/net/tun") {
		err = errors.Join(err, os.Chmod(file, 0o666))
	}
	return err
}
