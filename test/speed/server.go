package speed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"hook-sidecar/test/program"
)

// container is the CONTAINER_NAME of the hooks under test.
const container = "speed"

// Build builds the program, and the echo, as hook-sidecar and echo in a directory.
func Build(dir string) error {
	mod, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return fmt.Errorf("go env GOMOD: %w", err)
	}

	root := filepath.Dir(string(bytes.TrimSpace(mod)))
	return errors.Join(
		program.Build(filepath.Join(dir, "hook-sidecar"), root),
		program.BuildPackage(filepath.Join(dir, "echo"), root, "./test/speed/echo"),
	)
}

// Server is a hook in a process of its own.
type Server struct {
	Socket  string
	process *exec.Cmd
}

// Hook returns the command of the program under test, with an environment as a pod's.
func Hook(binary string, args ...string) *exec.Cmd {
	command := exec.Command(binary, args...)
	command.Env = []string{"CONTAINER_NAME=" + container, "PATH=/"}
	return command
}

// Start starts a hook's process and waits until it listens. Its log goes through a
// pipe, as a kubelet's does.
func Start(ctx context.Context, command *exec.Cmd, socket string, log io.Writer) (*Server, error) {
	command.Stderr = log
	if err := command.Start(); err != nil {
		return nil, err
	}

	s := &Server{Socket: socket, process: command}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()

	for {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			return s, conn.Close()
		}

		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("start %s: %w", command, err), s.Stop())
		}
	}
}

// Stop stops the process as a kubelet does.
func (s *Server) Stop() error {
	if err := s.process.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return s.process.Wait()
}

// rest waits until no thread of the process runs, so that what it does after a
// reply slows down no call of another process.
func (s *Server) rest(ctx context.Context) error {
	dir := filepath.Join("/proc", strconv.Itoa(s.process.Process.Pid), "task")
	for {
		busy, err := runs(dir)
		if err != nil || !busy {
			return err
		}

		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%s does not come to rest: %w", s.process, err)
		}
	}
}

// runs reports whether a thread of the directory runs or waits for a disk
// (proc_pid_stat(5), field 3, after the name in parentheses).
func runs(dir string) (bool, error) {
	threads, err := os.ReadDir(dir)
	if err != nil {
		return false, err
	}

	for _, thread := range threads {
		stat, err := os.ReadFile(filepath.Join(dir, thread.Name(), "stat"))
		if errors.Is(err, syscall.ESRCH) || errors.Is(err, os.ErrNotExist) {
			continue // the thread has ended
		}
		if err != nil {
			return false, err
		}

		end := bytes.LastIndexByte(stat, ')')
		if state := stat[end+2]; state == 'R' || state == 'D' {
			return true, nil
		}
	}

	return false, nil
}
