package host_test

import (
	"os"
	"strings"
	"testing"

	"hook-sidecar/pkg/host"
	"hook-sidecar/test/expect"
)

// TestKernel: the release of the kernel is that which a snapshot's comment names, this machine's
// for its own sysfs, and not known of another directory.
func TestKernel(t *testing.T) {
	entry := "-- devices/system/node/online --\n0\n"
	for comment, want := range map[string]string{
		"": "",
		"Host snapshot, taken 2026-11-22T10:00:00Z from a directory\n":                      "",
		"Host snapshot, taken 2026-11-22T10:00:00Z from /sys in a pod\n":                    "",
		"Host snapshot, taken 2026-11-22T10:00:00Z from /sys of Linux 6.1.0-50-amd64\nby 1": "6.1.0-50-amd64",
		"from /sys of Linux 6.1.0-50-amd64 in a pod\n":                                      "6.1.0-50-amd64",
	} {
		sysfs, err := host.ParseSnapshot([]byte(strings.TrimSuffix(comment, "\n") + "\n" + entry))
		expect.NoError(t, err)
		expect.Same(t, want, host.Kernel(sysfs), "of %q (-want +got)", comment)
	}

	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	expect.NoError(t, err)

	for dir, want := range map[string]string{
		"/sys": strings.TrimSpace(string(release)), t.TempDir(): "",
	} {
		sysfs, err := host.OpenSysfs(dir)
		expect.NoError(t, err)
		expect.Same(t, want, host.Kernel(sysfs), "of %s (-want +got)", dir)
	}

	// Of no device, since a test machine may have none: the comment comes before them.
	printed := runScript(t, "sh", "/sys", nil)
	expect.Same(t, strings.TrimSpace(string(release)), host.Kernel(printed),
		"of the script's (-want +got)")
}
