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

// TestArguments: of the kernel's arguments those about PCI and the IOMMU are kept, as others may say
// what is private; old snapshots have none.
func TestArguments(t *testing.T) {
	const device = "pci0000:00/0000:00:01.0\n"
	for text, want := range map[string]string{
		"": "",
		"arguments root=UUID=4a1f0b5c ro pci=noats,realloc iommu=pt iommu.passthrough=1 " +
			"pcie_acs_override=downstream ip=10.0.0.1 intel_iommu=on,sm_on pcie_aspm=off": "pci=noats,realloc " +
			"iommu=pt iommu.passthrough=1 pcie_acs_override=downstream intel_iommu=on,sm_on",
	} {
		sysfs := expect.Host(t, device+text)
		read, _ := readAll(sysfs)
		expect.Same(t, want, strings.Join(read.Arguments, " "), "%q (-want +got)", text)
		copied, _ := readAll(parse(t, string(take(t, sysfs, ""))))
		expect.Same(t, read.Arguments, copied.Arguments, "%q (-read +snapshot)", text)
	}
}
