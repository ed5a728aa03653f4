package mutate

import (
	"encoding/base64"
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/nccl"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
)

// NCCLEntry is the fw_cfg entry with the topology file for NCCL, in base64. A
// guest reads it under /sys/firmware/qemu_fw_cfg/by_name.
const NCCLEntry = "opt/org.kubevirt.hostdev/nccl-topology"

// withNCCL is the plan with the topology file for NCCL in the domain, where the
// policy asks for it. The file is written in every call: KubeVirt's types do not
// have fw_cfg, so the entry of one call is gone in the next (virtwrap/api/schema.go,
// SysInfo).
//
// It is in base64 because libvirt 9 passes a text to QEMU with XML references in
// it and with single commas, where QEMU takes a comma for the next option
// (src/qemu/qemu_command.c, qemuBuildSysinfoCommandLine; seen in the arguments
// that it makes).
func withNCCL(plan *placement.Plan) *placement.Plan {
	if plan.Policy.NCCLTopology == policy.NCCLTopologyNone {
		return plan
	}
	file := nccl.New(plan)
	if file.IsEmpty() {
		return plan.With(plan.Changes, nil, file.Warnings)
	}
	entry := domain.FirmwareEntry{Name: NCCLEntry, Value: base64.StdEncoding.EncodeToString([]byte(file.String()))}
	changes := plan.Changes
	if !slices.Contains(plan.Domain().FirmwareEntries, entry) {
		changes.SetFirmwareEntry = &entry
	}
	return plan.With(changes, nil, file.Warnings)
}
