package kubevirt_test

import (
	"fmt"
	"testing"

	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/test/expect"
)

// TestLauncherRelease: only the tag of a release of KubeVirt's own image says which release it is.
func TestLauncherRelease(t *testing.T) {
	const migrates = `,"migrationState":{"targetNode":"b"}`
	for _, test := range []struct{ image, status, want string }{
		{"quay.io/kubevirt/virt-launcher:v1.7.2", "", "7 true"},
		{"registry:5000/kubevirt/virt-launcher:v1.10.0", "", "10 true"},
		{"quay.io/kubevirt/virt-launcher:v1.7.2", migrates, "0 false"},
		{"quay.io/kubevirt/virt-launcher@sha256:f2310000", "", "0 false"},
		{"quay.io/kubevirt/virt-launcher:v1.7.2@sha256:f2310000", "", "0 false"},
		{"registry.suse.com/harvester/virt-launcher:1.6.3-150700.3.13.1", "", "0 false"},
		{"quay.io/kubevirt/virt-launcher:v1.7.2-own", "", "0 false"},
		{"quay.io/kubevirt/virt-launcher:v1.7", "", "0 false"},
		{"quay.io/kubevirt/virt-launcher:v2.0.0", "", "0 false"},
		{"quay.io/kubevirt/virt-launcher:v1.-1.0", "", "0 false"},
		{"quay.io/own/launcher:v1.7.2", "", "0 false"},
		{"virt-launcher:5000/x", "", "0 false"},
		{"", "", "0 false"},
	} {
		vmi, err := kubevirt.ParseVMI(fmt.Appendf(nil, `{"kind":"VirtualMachineInstance",`+
			`"status":{"launcherContainerImageVersion":%q%s}}`, test.image, test.status))
		expect.NoError(t, err)
		if got := fmt.Sprint(vmi.LauncherRelease()); got != test.want {
			t.Errorf("%q%s: %s, want %s", test.image, test.status, got, test.want)
		}
	}
}
