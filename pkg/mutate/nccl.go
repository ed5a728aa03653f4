package mutate

import (
	"encoding/base64"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/report"
)

// NCCLEntry is the fw_cfg entry with the topology file for NCCL, in base64. A
// guest reads it below /sys/firmware/qemu_fw_cfg/by_name.
const NCCLEntry = "opt/org.kubevirt.hostdev/nccl-topology"

// handOver puts the topology file for NCCL into the domain where the policy
// says so. It does it in every call: KubeVirt's types do not know fw_cfg, so
// the entry of one call is gone in the next (virtwrap/api/schema.go, SysInfo).
//
// It is in base64 because libvirt 9 hands a text to QEMU with XML references in
// it and with single commas, where QEMU takes a comma for the next option
// (src/qemu/qemu_command.c, qemuBuildSysinfoCommandLine; seen in the arguments
// that it makes).
func handOver(plan *placement.Plan) {
	if plan.Policy.NCCLTopology != policy.NCCLTopologyFWCfg {
		return
	}
	topology := report.NewNCCL(plan)
	plan.Warnings = reasons.Sort(append(plan.Warnings, topology.Warnings...))
	if !topology.IsEmpty() {
		plan.SetFirmwareEntry(domain.FirmwareEntry{Name: NCCLEntry, Value: base64.StdEncoding.EncodeToString([]byte(topology.String()))})
	}
}
