package hooks_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/hooks/hookstest"
	"hook-sidecar/test/expect"
)

func TestDirectoryHasOnlyTheSocket(t *testing.T) {
	server := hookstest.Start(t, hooks.Config{Mutator: hookstest.Func(mark)})
	for _, path := range []string{server.HookSocket, server.PluginSocket} {
		entries, err := os.ReadDir(filepath.Dir(path))
		expect.NoError(t, err)
		if len(entries) != 1 || entries[0].Name() != filepath.Base(path) {
			t.Errorf("the directory of %s has %v", path, entries)
		}

		found, err := os.Lstat(path)
		expect.NoError(t, err)

		// Any user may connect, whatever the umask of the process.
		if want := fs.ModeSocket | 0o666; found.Mode() != want {
			t.Errorf("%s has mode %s, want %s", path, found.Mode(), want)
		}
	}

	stopped(t, server)

	for _, path := range []string{server.HookSocket, server.PluginSocket} {
		if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 0 {
			t.Errorf("the directory of %s after the end: %v, %v", path, entries, err)
		}
	}
}

func TestStaleSocketIsReplaced(t *testing.T) {
	path := filepath.Join(hookstest.Dir(t), "a.sock")
	stale := listen(t, path)
	stale.SetUnlinkOnClose(false)
	expect.NoError(t, stale.Close())
	server := hookstest.Start(t, hooks.Config{Mutator: hookstest.Func(mark), HookSocket: path})
	if _, err := hookstest.Dial(t, server.HookSocket).Info(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestLiveSocketIsLeftAlone(t *testing.T) {
	first := hookstest.Start(t, hooks.Config{Mutator: hookstest.Func(mark)})
	err := runBriefly(t, hooks.Config{Mutator: hookstest.Func(mark), HookSocket: first.HookSocket})
	if err == nil || !strings.Contains(err.Error(), "another process listens") {
		t.Errorf("Run of a second server: %v", err)
	}

	if _, err := hookstest.Dial(t, first.HookSocket).Info(t.Context()); err != nil {
		t.Errorf("the first server after that: %v", err)
	}
}

func TestOtherFileIsLeftAlone(t *testing.T) {
	tests := map[string]struct {
		put  func(path string) error
		want string
	}{
		"regular file": {func(path string) error {
			return os.WriteFile(path, []byte("mine"), 0o600)
		}, "not a socket"},
		"directory": {func(path string) error { return os.Mkdir(path, 0o700) }, "not a socket"},
		"datagram socket": {func(path string) error {
			// Left open: if closed, it would refuse connections and count as stale.
			conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
			if err == nil {
				t.Cleanup(func() { conn.Close() })
			}

			return err
		}, "check whether"},
		"dangling symlink": {func(path string) error {
			return os.Symlink("nowhere", path)
		}, "symbolic link"},
		"symlink to a file": {func(path string) error {
			target := path + ".target"
			return errors.Join(os.WriteFile(target, []byte("mine"), 0o600),
				os.Symlink(target, path))
		}, "symbolic link"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(hookstest.Dir(t), "a.sock")
			expect.NoError(t, tt.put(path))
			before, err := os.Lstat(path)
			expect.NoError(t, err)
			err = runBriefly(t, hooks.Config{Mutator: hookstest.Func(mark), HookSocket: path})
			if err == nil || !strings.Contains(err.Error(), tt.want) ||
				!strings.Contains(err.Error(), path) {
				t.Errorf("Run: %v, want an error with %q and the path", err, tt.want)
			}

			after, err := os.Lstat(path)
			if err != nil || !os.SameFile(before, after) || after.Mode() != before.Mode() {
				t.Errorf("the file is now %v, %v", after, err)
			}
		})
	}
}

// When the second socket fails, the first one is closed and removed.
func TestSecondSocketFails(t *testing.T) {
	dir := hookstest.Dir(t)
	hook, plugin := filepath.Join(dir, "a.sock"), filepath.Join(dir, "b.sock")
	expect.NoError(t, os.WriteFile(plugin, nil, 0o600))
	err := runBriefly(t, hooks.Config{
		Mutator: hookstest.Func(mark), HookSocket: hook, PluginSocket: plugin,
	})

	if err == nil || !strings.Contains(err.Error(), plugin) {
		t.Errorf("Run: %v, want an error that names %s", err, plugin)
	}

	if _, err := os.Lstat(hook); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the first socket: %v, want it gone", err)
	}

	// Of Linux alone, with sockets whose file was removed (proc_net(5)).
	if open, _ := os.ReadFile("/proc/net/unix"); strings.Contains(string(open), hook) {
		t.Error("the first socket still listens")
	}
}

func TestPathLength(t *testing.T) {
	dir := hookstest.Dir(t) + string(filepath.Separator)
	longest := dir + strings.Repeat("a", 107-len(dir))
	server := hookstest.Start(t, hooks.Config{Mutator: hookstest.Func(mark), HookSocket: longest})
	if _, err := hookstest.Dial(t, server.HookSocket).Info(t.Context()); err != nil {
		t.Errorf("a path of 107 bytes: %v", err)
	}

	err := runBriefly(t, hooks.Config{Mutator: hookstest.Func(mark), HookSocket: longest + "a"})
	if err == nil || !strings.Contains(err.Error(), "108 bytes") {
		t.Errorf("a path of 108 bytes: %v, want an error that says so", err)
	}
}

func TestOnlyThePluginDirectoryIsCreated(t *testing.T) {
	dir := filepath.Join(hookstest.Dir(t), "not", "there")
	err := runBriefly(t, hooks.Config{
		Mutator: hookstest.Func(mark), HookSocket: filepath.Join(dir, "a.sock"),
	})

	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a hook socket in a missing directory: %v, want %v", err, fs.ErrNotExist)
	}

	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its directory: %v, want it absent", err)
	}

	err = runBriefly(t, hooks.Config{
		Mutator: hookstest.Func(mark), PluginSocket: filepath.Join(dir, "a.sock"),
	})

	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a plugin socket two directories below: %v, want %v", err, fs.ErrNotExist)
	}

	server := hookstest.Start(t, hooks.Config{
		Mutator: hookstest.Func(mark), PluginSocket: filepath.Join(filepath.Dir(dir), "a.sock"),
	})

	if _, err := hookstest.Dial(t, server.PluginSocket).MutateDomain(t.Context(), hooks.Boot,
		[]byte("<domain/>"), nil); err != nil {
		t.Errorf("a plugin socket in a missing directory: %v", err)
	}
}

func TestAnotherSocketIsLeftAlone(t *testing.T) {
	server := hookstest.Start(t, hooks.Config{Mutator: hookstest.Func(mark)})
	expect.NoError(t, os.Remove(server.HookSocket))
	other := listen(t, server.HookSocket)
	stopped(t, server)
	if _, err := os.Lstat(server.HookSocket); err != nil {
		t.Errorf("the other socket: %v, want it left alone", err)
	}

	if err := other.Close(); err != nil {
		t.Error(err)
	}
}

func TestSocketName(t *testing.T) {
	for container, want := range map[string]string{
		"hook-sidecar-0":          "hostdev-hook-sidecar-0.sock",
		strings.Repeat("a", 32):   "hostdev-" + strings.Repeat("a", 32) + ".sock",
		"plugin-sidecar-hostdev1": "hostdev-plugin-sidecar-hostdev1.sock",
	} {
		if got := hooks.SocketName(container); got != want {
			t.Errorf("SocketName(%q) = %q, want %q", container, got, want)
		}
	}

	first, second := hooks.SocketName(""), hooks.SocketName("")
	if first == second {
		t.Errorf("two containers without a name have the same socket name %s", first)
	}
}

func FuzzSocketName(f *testing.F) {
	for _, seed := range []string{
		"", "hook-sidecar-0", "../../etc/passwd", "a/b", "a.b", "Ä", "\x00",
		strings.Repeat("n", 33), strings.Repeat("n", 36), strings.Repeat("n", 63),
		strings.Repeat("n", 300),
	} {
		f.Add(seed)
	}

	f.Fuzz(func(t *testing.T, container string) {
		got := hooks.SocketName(container)
		if filepath.Base(got) != got || strings.ContainsFunc(got, func(r rune) bool {
			return r <= ' ' || r > '~'
		}) {
			t.Errorf("SocketName(%q) = %q, want a plain file name", container, got)
		}

		if container != "" && hooks.SocketName(container) != got {
			t.Errorf("SocketName(%q) is not always %q", container, got)
		}

		// The path that virt-launcher sees, for names that Kubernetes allows.
		if path := "/var/run/kubevirt-hooks/" + container + "/" + got; len(container) <= 63 &&
			len(path) > 107 {
			t.Errorf("virt-launcher cannot dial %s: %d bytes", path, len(path))
		}
	})
}

func listen(t *testing.T, path string) *net.UnixListener {
	t.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	expect.NoError(t, err)
	return listener
}

// runBriefly runs a server that is expected to fail, and ends it if it does not.
func runBriefly(t *testing.T, config hooks.Config) error {
	t.Helper()
	server := hooks.New(config)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		select {
		case <-server.Ready():
			cancel()
		case <-ctx.Done():
		}
	}()

	return server.Run(ctx)
}
