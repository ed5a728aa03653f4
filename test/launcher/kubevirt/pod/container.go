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
	"time"
)

// container is a process with processes of its own, as user 107 without
// capabilities but the one that KubeVirt grants. When its first process ends, the
// kernel ends the others.
type container struct {
	name    string
	command *exec.Cmd
	done    chan struct{}
}

// entry is what a container runs: it sees its own processes only.
const entry = `mount -t proc proc /proc && exec setpriv --reuid 107 --regid 107 --clear-groups --inh-caps=-all,+net_bind_service \
--ambient-caps=-all,+net_bind_service --bounding-set=-all,+net_bind_service "$@"`

func (p *pod) start(name string, env []string, args ...string) error {
	log, err := os.OpenFile(filepath.Join(out, name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND,
		0o644)
	if err != nil {
		return err
	}

	defer log.Close()
	c := &container{
		name:    name,
		command: exec.Command("/bin/sh", append([]string{"-c", entry, "sh"}, args...)...),
		done:    make(chan struct{}),
	}

	c.command.Env = append([]string{
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "CONTAINER_NAME=" + name,
	}, env...)

	c.command.Stdout, c.command.Stderr = log, log
	c.command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL,
	}
	if err := c.command.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}

	go func() {
		defer close(c.done)
		c.command.Wait() // the status is read from ProcessState
	}()

	p.containers = append(p.containers, c)
	return nil
}

func (p *pod) container(name string) *container {
	for _, c := range p.containers {
		if c.name == name {
			return c
		}
	}
	return nil
}

// ask runs a command in the launcher's container, as kubectl exec does.
func (p *pod) ask() error {
	if len(p.Ask) == 0 {
		return nil
	}

	words := append([]string{
		"--target", fmt.Sprint(p.container("compute").command.Process.Pid), "--mount", "--pid", "--root",
		"--setuid", fmt.Sprint(user), "--setgid", fmt.Sprint(user),
	}, p.Ask...)
	answer, err := exec.Command("nsenter", words...).Output()
	if err != nil {
		return fmt.Errorf("ask the launcher: %w", err)
	}

	return os.WriteFile(filepath.Join(out, "answer.txt"), answer, 0o644)
}

func (c *container) ended(patience time.Duration) bool {
	select {
	case <-c.done:
		return true
	case <-time.After(patience):
		return false
	}
}

func (c *container) signal(s syscall.Signal) error {
	if err := c.command.Process.Signal(s); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// status returns the exit status, or 128 and the signal.
func (c *container) status() int {
	status, ok := c.command.ProcessState.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return c.command.ProcessState.ExitCode()
}

// kill kills the processes that run a program of the pod.
func kill(program string) error {
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		return err
	}

	killed := 0
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || filepath.Base(target) != program {
			continue // it ended meanwhile
		}

		var pid int
		if _, err := fmt.Sscanf(strings.TrimPrefix(link, "/proc/"), "%d/exe", &pid); err != nil {
			return err
		}

		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			return fmt.Errorf("kill %s: %w", program, err)
		}

		killed++
	}

	if killed == 0 {
		return fmt.Errorf("kill %s: it does not run", program)
	}

	return nil
}
