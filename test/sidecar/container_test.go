//go:build linux

package sidecar

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hook-sidecar/pkg/hooks/hookstest"
	"hook-sidecar/test/call"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/program"
)

// What KubeVirt gives a sidecar of a VMI with dedicated CPUs (KubeVirt
// pkg/virt-controller/services/renderresources.go, sidecarResources).
const (
	memoryBytes = 64_000_000
	milliCPU    = 200
	userID      = 107
)

// container runs the program.
type container struct {
	process *exec.Cmd
	socket  string
	log     *bytes.Buffer
	stamp   string // file with the nanosecond of its start
}

// caller is the name by which the test's program is one that calls a hook.
const caller = "call"

// TestMain makes the directory of the program under test. One more test runs at once than there are
// CPUs, unless -parallel says otherwise: TestStalledClients only waits, for ten seconds.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == caller {
		call.Main()
		return
	}

	err := flag.Set("test.parallel", strconv.Itoa(1+runtime.GOMAXPROCS(0)))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}

	if programDir, err = os.MkdirTemp("", "sidecar"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}

	code := m.Run()
	if err := os.RemoveAll(programDir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}

	os.Exit(code)
}

var (
	programDir string
	// build builds the program in programDir, and not before a test runs: `go test`
	// caches a result with the files that its tests have read (package program).
	build = sync.OnceValue(func() error {
		return program.Build(filepath.Join(programDir, "hook-sidecar"), filepath.Join("..", ".."))
	})
)

// built returns the program under test, which all tests share.
func built(t testing.TB) string {
	t.Helper()
	expect.NoError(t, build())
	return filepath.Join(programDir, "hook-sidecar")
}

// root makes the root of containers: the program, /sys and the place of the sockets' directory.
func root(t testing.TB, host string) string {
	t.Helper()
	dir := expect.MemoryDir(t)
	expect.NoError(t, os.CopyFS(filepath.Join(dir, "sys"), expect.Host(t, host)))
	file, err := os.ReadFile(built(t))
	if err := errors.Join(err,
		os.WriteFile(filepath.Join(dir, "hook-sidecar"), file, 0o555),
		os.MkdirAll(filepath.Join(dir, "var", "run", "kubevirt-hooks"), 0o755),
		os.Chmod(dir, 0o555),
	); err != nil {
		t.Fatal(err)
	}

	return dir
}

// enter makes a root read-only and mounts the directory for the socket, the only one that the
// program's user can write to, as a pod with readOnlyRootFilesystem has it. The program is mounted,
// too: its pages are those of a file on disk, not in memory as the root may be. It puts the process
// into control groups, which takes milliseconds, writes the time to a file and executes it, as
// user 107 without capabilities (capabilities(7): they are lost with the change from user 0) and
// without a way to gain any.
const enter = `dir=$1; program=$2; sockets=$3; groups=$4; stamp=$5; shift 5
mount --bind "$dir" "$dir"
mount --bind "$program" "$dir/hook-sidecar"
mount --bind "$sockets" "$dir/var/run/kubevirt-hooks"
mount -o remount,bind,ro "$dir"
for group in $groups; do echo $$ > "$group/cgroup.procs"; done
date +%s%N > "$stamp"
exec setpriv --no-new-privs chroot --userspec=107:107 --groups=107 "$dir" /hook-sidecar "$@"`

// start runs the program in a root until the test ends, in the groups that limit
// it.
func start(t testing.TB, dir string, groups []group, args ...string) *container {
	t.Helper()
	sockets := hookstest.Dir(t)
	expect.NoError(t, os.Chown(sockets, userID, userID))
	s := &container{
		log:    &bytes.Buffer{},
		socket: filepath.Join(sockets, "hostdev-limits.sock"),
		stamp:  filepath.Join(t.TempDir(), "started"),
	}

	var dirs []string
	for _, g := range groups {
		dirs = append(dirs, g.dir)
	}

	s.process = exec.Command("unshare", append([]string{"--mount", "--propagation", "private",
		"/bin/sh", "-euc", enter, "sh", dir, built(t), sockets, strings.Join(dirs, " "), s.stamp},
		args...)...)
	s.process.Stderr, s.process.Env = s.log, []string{
		"CONTAINER_NAME=limits", "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
	}

	expect.NoError(t, s.process.Start())
	t.Cleanup(func() { s.end(t) })
	return s
}

// end stops the program as the kubelet does.
func (s *container) end(t testing.TB) {
	t.Helper()
	if s.process.ProcessState != nil {
		return
	}

	if err := s.process.Process.Signal(syscall.SIGTERM); err != nil &&
		!errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}

	if err := s.process.Wait(); err != nil {
		t.Errorf("the program exited with %v\n%s", err, s.log)
	}
}

// connect connects as soon as a program listens.
func connect(t testing.TB, socket string) *hookstest.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	for {
		client, err := hookstest.Connect(ctx, socket)
		if err == nil {
			t.Cleanup(func() {
				if err := client.Close(); err != nil {
					t.Error(err)
				}
			})
			return client
		}

		if ctx.Err() != nil {
			t.Fatalf("the program does not listen: %v", err)
		}
	}
}

// dial connects as soon as the program listens, and asks for Info.
func (s *container) dial(t testing.TB) (*hookstest.Client, time.Duration) {
	t.Helper()
	client := connect(t, s.socket)
	if _, err := client.Info(t.Context()); err != nil {
		t.Fatalf("Info: %v", err)
	}

	return client, time.Since(s.started(t))
}

// started returns the time just before the program started.
func (s *container) started(t testing.TB) time.Time {
	t.Helper()
	data := expect.File(t, s.stamp)
	nanoseconds, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	expect.NoError(t, err)
	return time.Unix(0, nanoseconds)
}

// status returns a line of /proc/PID/status.
func (s *container) status(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.process.Process.Pid))
	if err != nil {
		t.Fatalf("the program does not run: %v", err)
	}

	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}

	t.Fatalf("/proc/PID/status has no %s", name)
	return ""
}

// peakMiB returns the program's peak of memory of its own: all of it (VmHWM) without what it maps
// of its file, which is in the page cache and which the kernel drops before it runs out of memory.
func (s *container) peakMiB(t testing.TB) float64 {
	t.Helper()
	return s.kib(t, "VmHWM")/1024 - s.kib(t, "RssFile")/1024
}

func (s *container) kib(t testing.TB, name string) float64 {
	t.Helper()
	kib, err := strconv.ParseFloat(strings.TrimSuffix(s.status(t, name), " kB"), 64)
	expect.NoError(t, err)
	return kib
}
