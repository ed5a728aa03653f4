package plan

import (
	"fmt"

	"hook-sidecar/pkg/keys/cloudinit"
	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/pkg/policy"
)

// CloudInitResult is the result of a call before virt-launcher writes the VM's
// cloud-init data.
type CloudInitResult struct {
	Data   []byte        // the bytes to return, those of the call where nothing changes
	Policy policy.Policy // zero when an error came before it
	VMI    *kubevirt.VMI // nil when an error came before it
	Err    error         // why the data is unchanged, though it should not be
}

// CloudInit handles such a call: it adds the reader of the topology file to KubeVirt's
// CloudInitData, where the policy requests it. It never panics.
func (p Planner) CloudInit(vmi, data []byte) (result CloudInitResult) {
	result.Data = data
	defer func() {
		if cause := recover(); cause != nil {
			result.Data, result.Err = data, newPanicError(cause)
		}
	}()
	if result.VMI, result.Err = kubevirt.ParseVMI(vmi); result.Err != nil {
		return result
	}

	// The domain's call warns of invalid annotations.
	result.Policy, _, _ = p.Policy(result.VMI)
	if result.Policy.NCCLTopology != policy.NCCLTopologyCloudInit || result.Policy.DryRun {
		return result
	}

	var original []byte
	if volume := result.VMI.CloudInit(); volume != nil {
		original = volume.UserData
	}

	changed, err := cloudinit.Answer(data, original)
	if err != nil {
		result.Err = fmt.Errorf("add the reader of the topology file: %w", err)
		return result
	}

	result.Data = changed
	return result
}
