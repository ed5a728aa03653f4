//go:build linux

package sidecar

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/hooks/hookstest"
	"hook-sidecar/test/expect"
)

// separate runs the program in a PID namespace, as a container does, and makes a call
// from there. Then it prints a line. The exit status is the program's.
const separate = `"$0" serve --socket-dir "$1" --sysfs "$1" &
until "$4" --socket "$2" --domain "$3" >/dev/null 2>&1; do :; done
echo called
wait $!`

// TestLauncherEnds: the program ends when the process from another container that
// first called it has ended, and not with any other process.
func TestLauncherEnds(t *testing.T) {
	t.Parallel()
	needRoot(t)
	binary := built(t)
	dir := t.TempDir()
	domain, call := filepath.Join(dir, "vm.xml"), filepath.Join(dir, caller)
	expect.NoError(t, os.WriteFile(domain, around(devicesOf(1), nil), 0o600))
	self, err := os.Executable()
	expect.NoError(t, err)
	expect.NoError(t, os.Symlink(self, call))

	for _, tt := range []struct {
		name  string
		stays bool // this process is the launcher
	}{{"the launcher ends", false}, {"another process ends", true}} {
		t.Run(tt.name, func(t *testing.T) {
			dir := hookstest.Dir(t)
			socket := filepath.Join(dir, hooks.SocketName("launcher"))
			var log bytes.Buffer
			sidecar := exec.Command("unshare", "--pid", "--fork", "--kill-child", "sh", "-c",
				separate, binary, dir, socket, domain, call)
			sidecar.Stderr, sidecar.Env = &log, []string{
				"CONTAINER_NAME=launcher", "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
			}

			out, err := sidecar.StdoutPipe()
			expect.NoError(t, err)
			expect.NoError(t, sidecar.Start())
			kill := time.AfterFunc(endsWithin, func() { sidecar.Process.Kill() })
			defer kill.Stop()
			if _, err := out.Read(make([]byte, len("called\n"))); err != nil {
				t.Fatalf("%v\n%s", err, &log)
			}

			if tt.stays {
				if _, err := hookstest.Dial(t, socket).Info(t.Context()); err != nil {
					t.Fatal(err)
				}
			}

			// A process that is there for one call.
			if said, err := exec.Command(call, "--socket", socket, "--domain",
				domain).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, said)
			}

			if tt.stays {
				client := hookstest.Dial(t, socket)
				if _, err := client.Info(t.Context()); err != nil {
					t.Errorf("after the end of another process: %v", err)
				}

				if err := hookstest.Shutdown(t.Context(), socket); err != nil {
					t.Error(err)
				}
			}

			if err := sidecar.Wait(); err != nil {
				t.Errorf("the program exited with %v\n%s", err, &log)
			}

			if ended := strings.Contains(log.String(),
				"virt-launcher has ended"); ended == tt.stays {
				t.Errorf("ended with the launcher: %t\n%s", ended, &log)
			}
		})
	}
}
