package mutate

import (
	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/report"
)

// NCCLEntry is the fw_cfg entry with the topology file for NCCL. A guest reads
// it below /sys/firmware/qemu_fw_cfg/by_name.
const NCCLEntry = "opt/org.kubevirt.hostdev/nccl-topology"

// handOver puts the topology file for NCCL into the domain where the policy
// says so. It does it in every call: KubeVirt's types do not know fw_cfg, so
// the entry of one call is gone in the next (virtwrap/api/schema.go, SysInfo).
func handOver(plan *placement.Plan) {
	if plan.Policy.NCCLTopology != placement.NCCLTopologyFWCfg {
		return
	}
	topology := report.NewNCCL(plan)
	plan.AddWarnings(topology.Warnings, nil)
	if !topology.IsEmpty() {
		plan.SetFirmwareEntry(domain.FirmwareEntry{Name: NCCLEntry, Value: topology.Compact()})
	}
}
