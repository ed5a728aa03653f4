package kubevirt

import (
	"encoding/xml"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/api"
)

// TestVersions: virt-launcher finds the program with each version of the hooks. The
// program exits with status 0 after Shutdown, or after the kubelet's SIGTERM in the
// versions without Shutdown.
func TestVersions(t *testing.T) {
	name := "02-8gpu-8nic-gate-off"
	for _, version := range []string{"v1alpha1", "v1alpha2", "v1alpha3"} {
		t.Run(version, func(t *testing.T) {
			sidecar := start(t, "hook-sidecar-0", "x86-2n8g-hgx-h100", "--version", version)
			manager := launcher(t, 1)
			answer, err := manager.OnDefineDomain(firstSpec(t, name), sampleVMI(t, name, nil))
			if err != nil {
				t.Fatal(err)
			}
			if got := placed(t, answer); len(got) != 16 {
				t.Errorf("%d devices placed, want 16", len(got))
			}
			if err := manager.Shutdown(); err != nil {
				t.Error(err)
			}
			if version != "v1alpha3" {
				if err := sidecar.command.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
			}
			sidecar.ended(t)
		})
	}
}

// TestTwoSidecars: virt-launcher tells sockets apart by their file name, and passes
// the first sidecar's answer to the second.
func TestTwoSidecars(t *testing.T) {
	name := "02-8gpu-8nic-gate-off"
	start(t, "hook-sidecar-0", "x86-2n8g-hgx-h100")
	one, err := launcher(t, 1).OnDefineDomain(firstSpec(t, name), sampleVMI(t, name, nil))
	if err != nil {
		t.Fatal(err)
	}
	start(t, "hook-sidecar-1", "x86-2n8g-hgx-h100")
	two, err := launcher(t, 2).OnDefineDomain(firstSpec(t, name), sampleVMI(t, name, nil))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(one, two); d != "" {
		t.Errorf("the second sidecar changes the first one's answer:\n%s", d)
	}
}

func firstSpec(t *testing.T, name string) *api.DomainSpec {
	t.Helper()
	spec := &api.DomainSpec{}
	if err := xml.Unmarshal(sample(t, name+".xml"), spec); err != nil {
		t.Fatal(err)
	}
	return spec
}
