//go:build unix

package host_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/fstest"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
)

// In a hostile directory, a pipe without a writer must not block the reader, and a
// link to the outside must not be followed.
func TestReadHostHostileDirectory(t *testing.T) {
	outside, sys := t.TempDir(), t.TempDir()
	expect.NoError(t, os.CopyFS(sys, simple(nil)))
	const dir = "devices/pci0000:00/0000:00:02.0"
	numaNode := filepath.Join(sys, dir, "numa_node")
	secret := filepath.Join(outside, "0000:00:03.0")
	for _, err := range []error{
		os.Remove(numaNode),
		syscall.Mkfifo(numaNode, 0o600),
		os.Mkdir(secret, 0o755),
		os.WriteFile(filepath.Join(secret, "vendor"), []byte("0x10de"), 0o644),
		os.Symlink(secret, filepath.Join(sys, "bus/pci/devices/0000:00:03.0")),
		os.Symlink("../../../../"+filepath.Base(outside)+"/0000:00:03.0",
			filepath.Join(sys, "bus/pci/devices/0000:00:04.0")),
		os.Symlink("0000:00:05.0", filepath.Join(sys, "bus/pci/devices/0000:00:05.0")),
	} {
		expect.NoError(t, err)
	}

	host, problems := readHost(open(t, sys), []topology.DeviceID{
		pci(t, "0000:00:02.0"), pci(t, "0000:00:03.0"), pci(t, "0000:00:04.0"),
		pci(t, "0000:00:05.0"),
	})

	expect.Problems(t, problems, []string{
		"bad-sysfs " + dir + "/numa_node: not a regular file",
		"bad-sysfs bus/pci/devices/0000:00:03.0: outside",
		"bad-sysfs bus/pci/devices/0000:00:04.0: outside",
		"bad-sysfs bus/pci/devices/0000:00:05.0: symbolic link",
	})

	if len(host.Functions) != 1 || host.Functions[0].Vendor != 0x10de {
		t.Errorf("devices: %+v", host.Functions)
	}
}

func TestOpenSysfsRefuses(t *testing.T) {
	dir := t.TempDir()
	pipe, empty, large := filepath.Join(dir, "pipe"), filepath.Join(dir,
		"empty"), filepath.Join(dir, "large")
	for _, err := range []error{
		syscall.Mkfifo(pipe, 0o600), os.WriteFile(empty, nil, 0o600),
		os.WriteFile(large, nil, 0o600), os.Truncate(large, 1<<30),
	} {
		expect.NoError(t, err)
	}

	for _, name := range []string{pipe, empty, large, filepath.Join(dir, "gone"), ""} {
		if fsys, err := host.OpenSysfs(name); err == nil || fsys != nil {
			t.Errorf("OpenSysfs(%q) = %v, %v", name, fsys, err)
		}
	}
}

// The host has more directories than the process may have open files.
func TestReadHostOpensFewFiles(t *testing.T) {
	files := simple(nil)
	const devices = 600
	for i := range devices {
		name := fmt.Sprintf("0000:%02x:%02x.%d", 1+i/256, i/8%32, i%8)
		dir := "devices/pci0000:00/" + name
		files[dir+"/class"] = &fstest.MapFile{Data: []byte("0x030000")}
		files["bus/pci/devices/"+name] = &fstest.MapFile{
			Data: []byte("../../../" + dir), Mode: fs.ModeSymlink,
		}
	}

	sys := expect.HostDir(t, files)
	var before syscall.Rlimit
	expect.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before))
	limited := before
	limited.Cur = 512
	expect.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limited))
	t.Cleanup(func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
			t.Error(err)
		}
	})

	host, problems := host.Read(open(t, sys), nil, host.All)
	if len(problems) > 0 || len(host.Functions) != devices+1 {
		t.Errorf("%d devices, want %d; %d problems, the first %.1v", len(host.Functions), devices+1,
			len(problems), problems)
	}
}
