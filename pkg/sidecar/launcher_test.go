package sidecar

import (
	"bytes"
	"testing"

	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/hooks/hookstest"
	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/test/expect"
)

// TestLauncherOfVMI: the VMI of a call names the launcher's image, in both protocols. To that of KubeVirt
// 1.7, whose QEMU is older, no port of a switch gets a link.
func TestLauncherOfVMI(t *testing.T) {
	s := demo(t)
	s.planner.Source = policy.Source{Flags: map[policy.Key]string{policy.KeyPortSpeed: "host"}}
	server := hookstest.Start(t, hooks.Config{Mutator: quiet(s.planner)})
	hook, plugin := hookstest.Dial(t, server.HookSocket), hookstest.Dial(t, server.PluginSocket)
	info, err := hook.Info(t.Context())
	expect.NoError(t, err)
	version, err := info.Version()
	expect.NoError(t, err)

	for tag, want := range map[string]bool{"v1.7.2": false, "v1.8.0": true} {
		vmi := withLauncher(t, s.request.VMI, "quay.io/kubevirt/virt-launcher:"+tag)
		old, err := hook.OnDefineDomain(t.Context(), version, s.request.Domain, vmi)
		expect.NoError(t, err)
		boot, err := plugin.MutateDomain(t.Context(), hooks.Boot, s.request.Domain, vmi)
		expect.NoError(t, err)
		for protocol, domain := range map[string][]byte{"OnDefineDomain": old, "MutateDomain": boot} {
			hasLinks := bytes.Contains(domain, []byte("cxl-upstream"))
			isPlaced := bytes.Contains(domain, []byte("pcie-switch-upstream-port"))
			if hasLinks != want || !isPlaced {
				t.Errorf("%s with %s: links %t, want %t; switches %t", protocol, tag, hasLinks, want,
					isPlaced)
			}
		}
	}
}

// withLauncher returns a VMI whose status names the launcher's image as virt-controller writes it.
func withLauncher(t *testing.T, vmi []byte, image string) []byte {
	t.Helper()
	status := []byte(`{"status":{"launcherContainerImageVersion":"` + image + `"},`)
	changed := bytes.Replace(vmi, []byte("{"), status, 1)
	read, err := kubevirt.ParseVMI(changed)
	expect.NoError(t, err)
	if read.LauncherImage != image {
		t.Fatalf("the VMI names launcher %q, want %q", read.LauncherImage, image)
	}

	return changed
}
