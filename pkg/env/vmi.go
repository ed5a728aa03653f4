package env

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"

	"hook-sidecar/pkg/topology"
)

// VMI is what placement reads of a VirtualMachineInstance.
type VMI struct {
	types.NamespacedName
	UID         types.UID
	Annotations map[string]string

	GPUs        []Request   // spec.domain.devices.gpus
	HostDevices []Request   // spec.domain.devices.hostDevices
	Interfaces  []Interface // spec.domain.devices.interfaces

	// MigrationInProgress: status.migrationState is there and says neither
	// completed nor failed nor when it ended. The start does not count: when
	// the hook of the target pod is called KubeVirt has only named the target
	// (pkg/virt-controller/watch/migration/migration.go, handleTargetPodHandoff);
	// startTimestamp comes later from the source. The state of an old migration
	// stays in the status, with its end.
	MigrationInProgress bool

	// What KubeVirt gives a guest NUMA cells for; all three are needed.
	DedicatedCPU            bool // spec.domain.cpu.dedicatedCpuPlacement
	Hugepages               bool // spec.domain.memory.hugepages
	GuestMappingPassthrough bool // spec.domain.cpu.numa.guestMappingPassthrough
}

// Request is a device that the VMI asks for by resource or by claim.
type Request struct {
	Name     string
	Resource string         // deviceName; "" with a claim
	Display  DisplayOptions // gpus only
	Claim    bool           // allocated by a resource claim (DRA): no variable names it
}

// DisplayOptions is virtualGPUOptions.display of a gpu. KubeVirt tells "not
// said" from "false" and its defaults differ between PCI and mediated devices
// (pkg/virt-launcher/virtwrap/device/hostdevice/hostdev.go), so both stay.
type DisplayOptions struct {
	Set     bool  // display is there, be it empty
	Enabled *bool // display.enabled, nil when not said
	RamFB   *bool // display.ramFB.enabled, nil when not said
}

// Interface is a network interface of the VMI.
type Interface struct {
	Name       string
	SRIOV      bool
	PCIAddress string // the guest address that the user chose, as written; "" for none
}

// document is the part of a VMI that is decoded. What is left out, such as the
// user data of cloud-init, is scanned and never copied; and a field that a
// later KubeVirt gives another type does no harm unless it is one of these.
type document struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Namespace   string            `json:"namespace"`
		Name        string            `json:"name"`
		UID         types.UID         `json:"uid"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Domain struct {
			CPU struct {
				DedicatedCPUPlacement bool     `json:"dedicatedCpuPlacement"`
				NUMA                  *v1.NUMA `json:"numa"`
			} `json:"cpu"`
			Memory struct {
				Hugepages *v1.Hugepages `json:"hugepages"`
			} `json:"memory"`
			Devices struct {
				GPUs        []v1.GPU        `json:"gpus"`
				HostDevices []v1.HostDevice `json:"hostDevices"`
				Interfaces  []v1.Interface  `json:"interfaces"`
			} `json:"devices"`
		} `json:"domain"`
	} `json:"spec"`
	Status struct {
		MigrationState *v1.VirtualMachineInstanceMigrationState `json:"migrationState"`
	} `json:"status"`
}

// ParseVMI reads a VirtualMachineInstance from JSON. Unknown fields do no
// harm. Errors name line and column, and never show what the VMI says there:
// a VMI holds passwords. No data at all is an error.
func ParseVMI(data []byte) (*VMI, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("parse VMI: no data")
	}
	if first := bytes.TrimSpace(data)[0]; first != '{' {
		return nil, errors.New("parse VMI: not a JSON object")
	}
	var doc document
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("parse VMI: %w", withoutPayload(data, err))
	}
	// virt-launcher's own JSON may lack the kind; another kind is a mix-up.
	if doc.Kind != "" && doc.Kind != "VirtualMachineInstance" {
		return nil, fmt.Errorf("parse VMI: kind is %q, want VirtualMachineInstance", topology.Abridge(doc.Kind))
	}
	return doc.vmi(), nil
}

func (doc *document) vmi() *VMI {
	d := &doc.Spec.Domain
	vmi := &VMI{
		NamespacedName: types.NamespacedName{Namespace: doc.Metadata.Namespace, Name: doc.Metadata.Name},
		UID:            doc.Metadata.UID,
		Annotations:    doc.Metadata.Annotations,

		MigrationInProgress: inProgress(doc.Status.MigrationState),

		DedicatedCPU:            d.CPU.DedicatedCPUPlacement,
		Hugepages:               d.Memory.Hugepages != nil,
		GuestMappingPassthrough: d.CPU.NUMA != nil && d.CPU.NUMA.GuestMappingPassthrough != nil,
	}
	for i := range d.Devices.GPUs {
		gpu := &d.Devices.GPUs[i]
		vmi.GPUs = append(vmi.GPUs, Request{
			Name: gpu.Name, Resource: gpu.DeviceName, Display: displayOptions(gpu.VirtualGPUOptions),
			Claim: isClaim(gpu.DeviceName, gpu.ClaimRequest),
		})
	}
	for i := range d.Devices.HostDevices {
		device := &d.Devices.HostDevices[i]
		vmi.HostDevices = append(vmi.HostDevices, Request{
			Name: device.Name, Resource: device.DeviceName,
			Claim: isClaim(device.DeviceName, device.ClaimRequest),
		})
	}
	for i := range d.Devices.Interfaces {
		nic := &d.Devices.Interfaces[i]
		vmi.Interfaces = append(vmi.Interfaces, Interface{
			Name: nic.Name, SRIOV: nic.SRIOV != nil, PCIAddress: nic.PciAddress,
		})
	}
	return vmi
}

// isClaim is KubeVirt's rule (pkg/dra/utils.go): with both a resource name and
// a claim, the resource name counts.
func isClaim(resource string, claim *v1.ClaimRequest) bool {
	return resource == "" && claim != nil
}

func displayOptions(options *v1.VGPUOptions) DisplayOptions {
	if options == nil || options.Display == nil {
		return DisplayOptions{}
	}
	display := DisplayOptions{Set: true, Enabled: options.Display.Enabled}
	if options.Display.RamFB != nil {
		display.RamFB = options.Display.RamFB.Enabled
	}
	return display
}

func inProgress(state *v1.VirtualMachineInstanceMigrationState) bool {
	return state != nil && !state.Completed && !state.Failed && state.EndTimestamp == nil
}

// withoutPayload says where decoding failed and in which field.
func withoutPayload(data []byte, err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		// Offset counts the bytes read, the offending one included.
		line, column := position(data, syntax.Offset-1)
		return fmt.Errorf("line %d, column %d: bad JSON", line, column)
	}
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) {
		line, column := position(data, mismatch.Offset-1)
		return fmt.Errorf("line %d, column %d: field %s is not of its type", line, column, mismatch.Field)
	}
	return errors.New("a field cannot be decoded")
}

// position is the line and the column in bytes of an offset, from 1.
func position(data []byte, offset int64) (line, column int) {
	before := data[:max(0, min(offset, int64(len(data))))]
	line = 1 + bytes.Count(before, []byte("\n"))
	return line, len(before) - bytes.LastIndexByte(before, '\n')
}
