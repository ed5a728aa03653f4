//go:build linux

package sidecar

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/hooks/hookstest"
	"hook-sidecar/test/expect"
)

// sidecarWith starts the program with a sidecar's memory, on the host of a domain
// with that many devices.
func sidecarWith(t *testing.T, devices int) (s *container, domain []byte) {
	t.Helper()
	needRoot(t)
	domain, host := onDevices(devices)
	return start(t, root(t, host), []group{memoryGroup(t)}), domain
}

// TestManyCalls: every answer is the first one's, and no memory and no file descriptor leaks. With
// WHOLE=1 there are ten thousand calls.
func TestManyCalls(t *testing.T) {
	t.Parallel()
	s, domain := sidecarWith(t, 2)
	client, _ := s.dial(t)
	count := expect.Count(200, 10_000)
	var first []byte
	open := s.descriptors(t)
	took := make([]time.Duration, count)
	for i := range count {
		begin := time.Now()
		got, err := client.OnDefineDomain(t.Context(), hooks.V1alpha3, domain, nil)
		took[i] = time.Since(begin)
		if err != nil {
			t.Fatalf("call %d: %v", i, err)
		}

		if i == 0 {
			first = got
		}

		if !bytes.Equal(got, first) {
			t.Fatalf("call %d: the answer differs from the first", i)
		}
	}

	slices.Sort(took)
	peak := s.peakMiB(t)
	t.Logf("%d calls: median %v, 99th percentile %v, peak %.1f MiB", count, took[count/2],
		took[count*99/100], peak)
	if peak > goalMiB {
		t.Errorf("peak of %.1f MiB after %d calls, more than %d", peak, count, goalMiB)
	}

	s.closesFiles(t, open)
}

// closesFiles waits until no more files than before are open: the program works on for its log
// after the last answer, and notices a closed connection when it reads from it.
func (s *container) closesFiles(t *testing.T, before int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); s.descriptors(t) > before; {
		if time.Now().After(deadline) {
			t.Fatalf("%d open files, %d before", s.descriptors(t), before)
		}
	}
}

// descriptors returns the number of open files of the program.
func (s *container) descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(s.process.Process.Pid), "fd"))
	expect.NoError(t, err)
	return len(entries)
}

// TestManyAtOnce: of as many clients as are accepted each gets the answers to its own requests,
// within a sidecar's memory.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	s, domain := sidecarWith(t, 64)
	want := map[string][]byte{}
	names := []string{"limits", "other", "third", "x"}
	named := func(name string) []byte {
		return bytes.Replace(domain, []byte("<name>limits<"), []byte("<name>"+name+"<"), 1)
	}

	client, _ := s.dial(t)
	for _, name := range names {
		answer, err := client.OnDefineDomain(t.Context(), hooks.V1alpha3, named(name), nil)
		if err != nil || !bytes.Contains(answer, []byte("<name>"+name+"<")) {
			t.Fatalf("%s: %v", name, err)
		}
		want[name] = answer
	}

	var calls sync.WaitGroup
	for i := range 3 {
		if i > 0 {
			client, _ = s.dial(t)
		}

		for j := range expect.Count(8, 40) {
			name := names[(i+j)%len(names)]
			calls.Go(func() {
				got, err := client.OnDefineDomain(t.Context(), hooks.V1alpha3, named(name), nil)
				if err != nil || !bytes.Equal(got, want[name]) {
					t.Errorf("%s: its own answer: %t, %v", name, bytes.Equal(got, want[name]), err)
				}
			})
		}
	}

	calls.Wait()
	t.Logf("peak %.1f MiB", s.peakMiB(t))
}

// TestHangUps: clients that hang up at any moment of a call leak nothing.
func TestHangUps(t *testing.T) {
	t.Parallel()
	s, domain := sidecarWith(t, 64)
	client, _ := s.dial(t)
	open := s.descriptors(t)
	cut := 0
	clients := expect.Count(40, 100)
	for i := range clients {
		// A whole call right before, for the machine may be slower than it was at the start.
		begin := time.Now()
		if _, err := client.OnDefineDomain(t.Context(), hooks.V1alpha3, domain, nil); err != nil {
			t.Fatal(err)
		}

		// From immediately to long after the answer.
		wait := 4 * time.Since(begin) * time.Duration(i) / time.Duration(clients)
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		hasty, err := hookstest.Connect(ctx, s.socket)
		if err == nil {
			_, err = hasty.OnDefineDomain(ctx, hooks.V1alpha3, domain, nil)
			if closed := hasty.Close(); closed != nil {
				t.Error(closed)
			}
		}

		if err != nil {
			cut++
		}

		cancel()
	}

	if cut == 0 || cut == clients {
		t.Errorf("%d of %d clients hung up before their answer, want some", cut, clients)
	}

	if _, err := client.OnDefineDomain(t.Context(), hooks.V1alpha3, domain, nil); err != nil {
		t.Errorf("the call after: %v", err)
	}

	s.closesFiles(t, open)
}

// TestTermDuringCalls: at SIGTERM during calls each is answered or refused, none is
// cut off, the socket is removed and the program exits with status 0 (otherwise the
// pod's phase is Failed).
func TestTermDuringCalls(t *testing.T) {
	t.Parallel()
	s, domain := sidecarWith(t, 16)
	var answered atomic.Int64
	var callers sync.WaitGroup
	for range 3 {
		client, _ := s.dial(t)
		callers.Go(func() {
			for {
				_, err := client.OnDefineDomain(t.Context(), hooks.V1alpha3, domain, nil)
				if err != nil {
					if status.Code(err) != codes.Unavailable {
						t.Errorf("a call at the end: %v, want an answer or Unavailable", err)
					}
					return
				}

				if answered.Add(1) == 100 {
					if err := s.process.Process.Signal(syscall.SIGTERM); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}

	callers.Wait()
	if err := s.process.Wait(); err != nil {
		t.Errorf("the program exited with %v\n%s", err, s.log)
	}

	if _, err := os.Lstat(s.socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket: %v, want it removed", err)
	}

	if strings.Contains(s.log.String(), "cut off") {
		t.Errorf("a call was cut off\n%s", s.log)
	}
}

// TestFullDisk: on a full disk the old file stays, and nothing is left beside it.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	needRoot(t)
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=16k"); err != nil {
		t.Skipf("no small disk can be mounted: %v", err)
	}

	defer func() {
		if err := syscall.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
	}()

	domain := filled(1<<20, "<!--", "x", "-->") // larger than the disk
	in, out := filepath.Join(t.TempDir(), "in.xml"), filepath.Join(disk, "out.xml")
	expect.NoError(t,
		errors.Join(os.WriteFile(in, domain, 0o600), os.WriteFile(out, []byte("before"), 0o600)))
	command := exec.Command(built(t), "mutate", "--domain", in, "--sysfs", t.TempDir(), "--layout",
		"root", "--output-file", out)
	said, err := command.CombinedOutput()
	if command.ProcessState.ExitCode() != 2 ||
		!strings.Contains(string(said), "no space left on device") {
		t.Errorf("%v: %s", err, said)
	}

	if got, err := os.ReadFile(out); err != nil || string(got) != "before" {
		t.Errorf("the file now has %q, %v", got, err)
	}

	if entries, err := os.ReadDir(disk); err != nil || len(entries) != 1 {
		t.Errorf("the disk has %v, %v", entries, err)
	}
}
