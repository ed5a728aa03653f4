package keys

import (
	"encoding/base64"
	"fmt"
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/keys/cloudinit"
	"hook-sidecar/pkg/keys/nccl"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
)

// NCCLEntry is the fw_cfg entry with the topology file for NCCL, in base64.
const NCCLEntry = domain.EntryPrefix + "nccl-topology"

// writeNCCLTopology writes the topology file for NCCL or RCCL into an entry of fw_cfg, in every
// call: KubeVirt's types lose it in between (virtwrap/api/schema.go, SysInfo). It is in base64
// because libvirt 9 keeps XML references and single commas, and QEMU ends the value at a comma
// (src/qemu/qemu_command.c, qemuBuildSysinfoCommandLine; seen in its arguments).
func writeNCCLTopology(vm Planned) Writing {
	file := nccl.New(vm.Plan)
	if file.IsEmpty() {
		return Writing{Warnings: file.Warnings}
	}

	text := file.String()
	w := one(domain.FirmwareEntry{
		Name: NCCLEntry, Value: base64.StdEncoding.EncodeToString([]byte(text)),
	},
		fmt.Sprintf("a file for %s of %d bytes in the fw_cfg entry %s", file.Library, len(text),
			NCCLEntry))

	w.Warnings = file.Warnings

	if vm.Policy.NCCLTopology == policy.NCCLTopologyCloudInit {
		if missing := missingReader(vm); missing == "" {
			w.Line += ", which cloud-init copies to " + cloudinit.File
		} else {
			w.Warnings = append(w.Warnings,
				reasons.NewFinding(reasons.CodeNCCLNoReader, nil, missing))
		}
	}

	return w
}

// NCCLExtras returns the line that says that the topology file adds nothing, where that is so.
func NCCLExtras(plan *placement.Plan) []placement.Extra {
	hasFile := slices.ContainsFunc(plan.Extras, func(e placement.Extra) bool {
		return e.Key == policy.KeyNCCLTopology
	})
	if !hasFile || !plan.ShowsHost() {
		return nil
	}
	return []placement.Extra{{Key: policy.KeyNCCLTopology,
		Text: "the guest's own tree and links show NCCL the same, so the file adds nothing"}}
}

// missingReader returns why cloud-init will not copy the topology file in the guest, "" where it
// will, and without a VMI.
func missingReader(vm Planned) string {
	if vm.VMI == nil {
		return ""
	}

	data := vm.VMI.CloudInit()
	switch {
	case data == nil:
		return "the VM has no cloud-init volume"
	case data.Unknown, cloudinit.HasReader(data.UserData):
		return ""
	case vm.CloudInitSkipped != "":
		return vm.CloudInitSkipped
	}

	if _, err := cloudinit.Merge(data.UserData); err != nil {
		return err.Error()
	}

	return ""
}
