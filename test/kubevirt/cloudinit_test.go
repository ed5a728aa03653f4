package kubevirt

import (
	"testing"

	v1 "kubevirt.io/api/core/v1"
	cloudinit "kubevirt.io/kubevirt/pkg/cloud-init"
)

// cloudInitVMI is a sample with this volume for cloud-init and no other.
func cloudInitVMI(t *testing.T, source v1.VolumeSource, annotations map[string]string) *v1.VirtualMachineInstance {
	t.Helper()
	vmi := sampleVMI(t, "01-single-gpu", annotations)
	vmi.Spec.Volumes = []v1.Volume{{Name: "init", VolumeSource: source}}
	return vmi
}

// TestPreCloudInitIsoHasAPrice shows why only a flag announces the call. Where KubeVirt
// no longer does this, the hook may announce it always (hooks.Config.CloudInit).
func TestPreCloudInitIsoHasAPrice(t *testing.T) {
	vmi := sampleVMI(t, "01-single-gpu", nil)
	t.Run("not announced", func(t *testing.T) {
		start(t, "hook-sidecar-0", "x86-2n8g-hgx-h100")
		if data, err := launcher(t, 1).PreCloudInitIso(vmi, nil); data != nil || err != nil {
			t.Errorf("a VM without cloud-init: %v, %v", data, err)
		}
	})
	t.Run("announced", func(t *testing.T) {
		start(t, "hook-sidecar-0", "x86-2n8g-hgx-h100", "--nccl-topology=cloudinit")
		manager := launcher(t, 1)
		defer func() {
			if recover() == nil {
				t.Error("KubeVirt no longer panics for a VM without cloud-init")
			}
		}()
		_, _ = manager.PreCloudInitIso(vmi, nil)
	})
	t.Run("twice", func(t *testing.T) {
		start(t, "hook-sidecar-0", "x86-2n8g-hgx-h100", "--nccl-topology=cloudinit", "--lock=nccl-topology", "--dry-run")
		start(t, "hook-sidecar-1", "x86-2n8g-hgx-h100", "--nccl-topology=cloudinit")
		vmi := cloudInitVMI(t, v1.VolumeSource{CloudInitNoCloud: &v1.CloudInitNoCloudSource{UserData: "#cloud-config\n"}}, nil)
		data, err := cloudinit.ReadCloudInitVolumeDataSource(vmi, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if got, err := launcher(t, 2).PreCloudInitIso(vmi, data); err != nil || got.UserData != "#cloud-config\n" {
			t.Errorf("KubeVirt asks the second sidecar, too: %v, %v", got, err)
		}
	})
}
