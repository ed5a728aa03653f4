//go:build linux

package sidecar

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/hooks/hookstest"
	"hook-sidecar/test/expect"
)

// endsWithin is much longer than the end of the program takes, and shorter than the
// 30 s after which a kubelet kills.
const endsWithin = 20 * time.Second

// serving is the program with a pipe as standard error.
type serving struct {
	*exec.Cmd
	client *hookstest.Client
	stderr *os.File // the end that reads
}

// serveInto starts the program. Before, the pipe that is its standard error is
// filled with that many bytes; a pipe holds 64 KiB (pipe(7)).
func serveInto(t *testing.T, filled int) *serving {
	t.Helper()
	dir := hookstest.Dir(t)
	read, write, err := os.Pipe()
	expect.NoError(t, err)
	t.Cleanup(func() { read.Close() })
	if _, err := write.Write(bytes.Repeat([]byte("\n"), filled)); err != nil {
		t.Fatal(err)
	}

	s := &serving{stderr: read}
	s.Cmd = exec.Command(built(t), "serve", "--socket-dir", dir, "--sysfs", t.TempDir())
	s.Stderr, s.Env = write, []string{"CONTAINER_NAME=stderr"}
	expect.NoError(t, s.Start())
	t.Cleanup(func() { s.Process.Kill() })
	expect.NoError(t, write.Close())
	s.client = connect(t, filepath.Join(dir, hooks.SocketName("stderr")))
	return s
}

// call makes a call, which must not wait for the log.
func (s *serving) call(t *testing.T, devices int) {
	t.Helper()
	domain := around(devicesOf(devices), nil)
	if got, err := s.client.OnDefineDomain(t.Context(), hooks.V1alpha3, domain, nil); err != nil ||
		len(got) < len(domain) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
}

// term ends the program as the kubelet does.
func (s *serving) term(t *testing.T) {
	t.Helper()
	expect.NoError(t, s.Process.Signal(syscall.SIGTERM))
	kill := time.AfterFunc(endsWithin, func() { s.Process.Kill() })
	defer kill.Stop()
	if err := s.Wait(); err != nil {
		t.Errorf("the program exited with %v", err)
	}
}

// TestBlockedLog: nobody reads standard error, which is full.
func TestBlockedLog(t *testing.T) {
	t.Parallel()
	s := serveInto(t, 64<<10)
	s.call(t, 16)
	s.term(t)
}

// TestClosedLog: the reader of standard error is gone.
func TestClosedLog(t *testing.T) {
	t.Parallel()
	s := serveInto(t, 0)
	expect.NoError(t, s.stderr.Close())
	s.call(t, 16)
	s.call(t, 16)
	s.term(t)
}

// TestLostLog: standard error is read again after more was logged than the program
// keeps: it has the number of lost lines, and every other line is there and whole.
func TestLostLog(t *testing.T) {
	t.Parallel()
	s := serveInto(t, 64<<10)
	const calls, devices = 80, 16
	const lines = calls * (1 + 2*devices) // of which the program keeps 2000
	for range calls {
		s.call(t, devices)
	}

	counted := make(chan int)
	go func() {
		arrived, lost := 0, 0
		for scan := bufio.NewScanner(s.stderr); scan.Scan(); {
			if len(scan.Bytes()) == 0 {
				continue
			}

			var line struct {
				Msg   string
				Lines int
			}

			if err := json.Unmarshal(scan.Bytes(), &line); err != nil {
				t.Errorf("%v: %s", err, scan.Bytes())
			}

			if strings.Contains(line.Msg, "lost") {
				lost += line.Lines
			} else {
				arrived++
			}
		}

		if lost == 0 {
			t.Error("the log does not say that lines are lost")
		}

		counted <- arrived + lost
	}()

	s.term(t)

	// listening, those of the calls, stopping
	if got, want := <-counted, 1+lines+1; got != want {
		t.Errorf("%d lines arrived or were counted, want %d", got, want)
	}
}

// TestShimLog: onDefineDomain answers when its standard error is full or closed.
func TestShimLog(t *testing.T) {
	t.Parallel()
	binary, domain := built(t), string(around(devicesOf(16), nil))
	for name, filled := range map[string]int{"full": 64 << 10, "closed": 0} {
		t.Run(name, func(t *testing.T) {
			read, write, err := os.Pipe()
			expect.NoError(t, err)
			defer read.Close()
			defer write.Close()
			if _, err := write.Write(bytes.Repeat([]byte("\n"), filled)); err != nil {
				t.Fatal(err)
			}

			if filled == 0 {
				read.Close()
			}

			command := exec.CommandContext(t.Context(), binary, "onDefineDomain", "--vmi", "",
				"--sysfs", t.TempDir(), "--domain", domain)
			command.Stderr = write
			kill := time.AfterFunc(endsWithin, func() { command.Process.Kill() })
			defer kill.Stop()
			if got, err := command.Output(); err != nil || len(got) < len(domain) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
}
