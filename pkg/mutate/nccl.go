package mutate

import (
	"encoding/base64"
	"fmt"
	"slices"

	"hook-sidecar/pkg/cloudinit"
	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/nccl"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
)

// NCCLEntry is the fw_cfg entry with the topology file for NCCL, in base64. A
// guest reads it under /sys/firmware/qemu_fw_cfg/by_name.
const NCCLEntry = "opt/org.kubevirt.hostdev/nccl-topology"

// withNCCL is the plan with the topology file for NCCL in the domain, where the
// policy asks for it, and elsewhere without the file of another call. The file is
// written in every call: KubeVirt's types do not have fw_cfg, so the entry of one
// call is gone in the next (virtwrap/api/schema.go, SysInfo).
//
// It is in base64 because libvirt 9 passes a text to QEMU with XML references in
// it and with single commas, where QEMU takes a comma for the next option
// (src/qemu/qemu_command.c, qemuBuildSysinfoCommandLine; seen in the arguments
// that it makes).
//
// vmi may be nil. noReader is that of Request.
func withNCCL(plan *placement.Plan, vmi *env.VMI, noReader string) *placement.Plan {
	changes, stale := plan.Changes, positionsOf(plan.Domain().FirmwareEntries, isEntry)
	if plan.Policy.NCCLTopology == policy.NCCLTopologyNone && len(stale) == 0 {
		return plan
	}
	if plan.Policy.NCCLTopology == policy.NCCLTopologyNone {
		changes.RemoveFirmwareEntries = stale
		return plan.With(changes, nil, nil)
	}
	file := nccl.New(plan)
	if file.IsEmpty() {
		changes.RemoveFirmwareEntries = stale
		return plan.With(changes, nil, file.Warnings)
	}
	text := file.String()
	entry := domain.FirmwareEntry{Name: NCCLEntry, Value: base64.StdEncoding.EncodeToString([]byte(text))}
	if !slices.Contains(plan.Domain().FirmwareEntries, entry) {
		changes.SetFirmwareEntry = &entry
	}
	says := fmt.Sprintf("a file of %d bytes in the fw_cfg entry %s", len(text), NCCLEntry)
	warnings := file.Warnings
	if plan.Policy.NCCLTopology == policy.NCCLTopologyCloudInit {
		if missing := missingReader(vmi, noReader); missing == "" {
			says += ", which cloud-init copies to " + cloudinit.File
		} else {
			warnings = append(warnings, reasons.NewWarning(reasons.CodeNCCLNoReader, nil, missing))
		}
	}
	return plan.With(changes, extra(policy.KeyNCCLTopology, says), warnings)
}

// isEntry reports whether an entry is the topology file's, whoever has written it.
func isEntry(e domain.FirmwareEntry) bool { return e.Name == NCCLEntry }

// missingReader says why cloud-init will not copy the topology file in the guest, ""
// where it will. Without a VMI nothing is known of it.
func missingReader(vmi *env.VMI, noReader string) string {
	if vmi == nil {
		return ""
	}
	data := vmi.CloudInit()
	switch {
	case data == nil:
		return "the VM has no cloud-init volume"
	case data.Unknown, cloudinit.HasReader(data.UserData):
		return ""
	case noReader != "":
		return noReader
	}
	if _, err := cloudinit.Merge(data.UserData); err != nil {
		return err.Error()
	}
	return ""
}
