package main

import (
	"bytes"
	"errors"
	"log/slog"

	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
)

// announcesCloudInit reports whether virt-launcher is asked for the VM's cloud-init data.
func (a answerer) announcesCloudInit() bool {
	return a.mutator.Flags[policy.KeyNCCLTopology] == string(policy.NCCLTopologyCloudInit)
}

// noReader says why this way of calling the hook has no call for cloud-init's data; ""
// where it has.
func (a answerer) noReader(protocol string) string {
	switch {
	case protocol == hooks.Plugin:
		return "a structured plugin cannot change the VM's cloud-init data"
	case protocol == hooks.V1alpha1:
		return "version v1alpha1 of the hooks cannot change the VM's cloud-init data; v1alpha3 can"
	case protocol == onDefineDomainName:
		return "the hook does not change cloud-init data under KubeVirt's sidecar-shim"
	case !a.announcesCloudInit():
		return `the sidecar's args lack "--nccl-topology=cloudinit", and an annotation comes too late for cloud-init data`
	}
	return ""
}

// cloudInit answers a call of virt-launcher before it writes cloud-init's data, and logs
// it. User data holds passwords and is never logged.
func (a answerer) cloudInit(log *slog.Logger, call hooks.CloudInitCall) []byte {
	result := a.mutator.CloudInit(call.VMI, call.Data)
	log = withVMI(log.With("protocol", call.Protocol), result.VMI)
	if result.Err == nil {
		log.Info("cloud-init data planned", "changed", !bytes.Equal(result.Data, call.Data))
		return result.Data
	}
	attrs := []any{"error", result.Err}
	if panicked := (*plan.PanicError)(nil); errors.As(result.Err, &panicked) {
		attrs = append(attrs, "stack", string(panicked.Stack))
	}
	log.Error("cloud-init data left unchanged", attrs...)
	return result.Data
}
