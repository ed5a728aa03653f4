package kubevirt

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
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

// TestPreCloudInitIso: with the flag the user data gets a boothook and nothing else
// changes; without it, or with an annotation that says otherwise, nothing does.
func TestPreCloudInitIso(t *testing.T) {
	text := "#cloud-config\npassword: é\n"
	packed, err := os.ReadFile(filepath.Join("testdata", "user-data.gz"))
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string]v1.VolumeSource{
		"noCloud":     {CloudInitNoCloud: &v1.CloudInitNoCloudSource{UserData: text, NetworkData: "version: 2"}},
		"configDrive": {CloudInitConfigDrive: &v1.CloudInitConfigDriveSource{UserDataBase64: base64.StdEncoding.EncodeToString([]byte(text))}},
		"network":     {CloudInitNoCloud: &v1.CloudInitNoCloudSource{NetworkData: "version: 2"}},
		"compressed":  {CloudInitNoCloud: &v1.CloudInitNoCloudSource{UserDataBase64: base64.StdEncoding.EncodeToString(packed)}},
	}
	for name, tc := range map[string]struct {
		flags       []string
		annotations map[string]string
		changes     bool
	}{
		"flag":                  {[]string{"--nccl-topology=cloudinit"}, nil, true},
		"v1alpha2":              {[]string{"--nccl-topology=cloudinit", "--version=v1alpha2"}, nil, true},
		"flag, annotation none": {[]string{"--nccl-topology=cloudinit"}, map[string]string{"nccl-topology": "none"}, false},
		"annotation":            {nil, map[string]string{"nccl-topology": "cloudinit"}, false},
		"neither":               {nil, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			start(t, "hook-sidecar-0", "x86-2n8g-hgx-h100", tc.flags...)
			manager := launcher(t, 1)
			for name, source := range sources {
				if !tc.changes && len(tc.flags) > 0 && (name == "network" || name == "compressed") {
					continue // announced, KubeVirt itself changes these
				}
				vmi := cloudInitVMI(t, source, tc.annotations)
				data, err := cloudinit.ReadCloudInitVolumeDataSource(vmi, t.TempDir())
				if err != nil {
					t.Fatal(err)
				}
				was := *data
				got, err := manager.PreCloudInitIso(vmi, data)
				if err != nil {
					t.Fatal(err)
				}
				if tc.changes {
					if !strings.Contains(got.UserData, "#cloud-boothook\n#!/bin/sh\n") {
						t.Errorf("%s: no boothook in %s", name, got.UserData)
					}
					if kept := base64.StdEncoding.EncodeToString([]byte(text)); name != "network" && !strings.Contains(got.UserData, kept) {
						t.Errorf("%s: no %s in %s", name, kept, got.UserData)
					}
					was.UserData = got.UserData
				}
				if d := cmp.Diff(was, *got, cmpopts.EquateEmpty()); d != "" {
					t.Errorf("%s (-before +after):\n%s", name, d)
				}
			}
		})
	}
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
