package kubevirt

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"hook-sidecar/pkg/words"
)

// VMI holds the part of a VirtualMachineInstance that placement needs.
type VMI struct {
	types.NamespacedName
	UID         types.UID
	Annotations map[string]string

	Devices

	// MigrationInProgress is true when status.migrationState exists and is not completed,
	// failed or ended. The startTimestamp does not matter: the source sets it after
	// KubeVirt has called the hook of the target pod
	// (pkg/virt-controller/watch/migration/migration.go, handleTargetPodHandoff). A past
	// migration stays in the status, with its end.
	MigrationInProgress bool

	// LauncherImage is status.launcherContainerImageVersion, the image of virt-launcher in the VM's
	// pod: virt-controller writes it as soon as the pod exists
	// (pkg/virt-controller/watch/vmi/lifecycle.go, setLauncherContainerInfo). It is "" before, and
	// that of the source in a migration.
	LauncherImage string

	// Machine is spec.domain.machine.type, such as "q35", which virt-launcher writes into the domain
	// of each call; "" for one that KubeVirt has yet to choose.
	Machine string

	// KubeVirt creates guest NUMA cells only when all three are set.
	DedicatedCPU            bool // spec.domain.cpu.dedicatedCpuPlacement
	Hugepages               bool // spec.domain.memory.hugepages
	GuestMappingPassthrough bool // spec.domain.cpu.numa.guestMappingPassthrough

	volumes json.RawMessage // spec.volumes
}

// Devices is the part of spec.domain.devices that placement needs.
type Devices struct {
	GPUs        []Request   `json:"gpus"`
	HostDevices []Request   `json:"hostDevices"`
	Interfaces  []Interface `json:"interfaces"`
}

// CloudInit is the VMI's volume for cloud-init.
type CloudInit struct {
	UserData []byte // as virt-launcher writes it
	// Unknown is true where the user data is in a Secret. Before virt-launcher calls the
	// hook, it copies the data into the VMI (pkg/cloud-init/cloud-init.go,
	// resolveNoCloudSecrets).
	Unknown bool
}

// CloudInit returns the volume of virt-launcher's cloud-init data, the first of its kind
// (pkg/cloud-init/cloud-init.go, ReadCloudInitVolumeDataSource); nil without one.
func (v *VMI) CloudInit() *CloudInit {
	type source struct {
		UserData          string    `json:"userData"`
		UserDataBase64    []byte    `json:"userDataBase64"`
		UserDataSecretRef *struct{} `json:"secretRef"`
	}

	var volumes []struct {
		NoCloud     *source `json:"cloudInitNoCloud"`
		ConfigDrive *source `json:"cloudInitConfigDrive"`
	}
	if json.Unmarshal(v.volumes, &volumes) != nil {
		return nil // a form that this version does not know
	}

	for _, volume := range volumes {
		if s := cmp.Or(volume.NoCloud, volume.ConfigDrive); s != nil {
			data := []byte(s.UserData)
			if len(data) == 0 {
				data = s.UserDataBase64
			}
			return &CloudInit{UserData: data, Unknown: len(data) == 0 && s.UserDataSecretRef != nil}
		}
	}

	return nil
}

// Doubt returns why a domain with a name, and with KubeVirt's uid unless "", is not this
// VMI's; "" if it is, or if one of them has no name.
func (v *VMI) Doubt(name, uid string) string {
	own := words.Abridge(v.String())

	// A VMI from a file may lack its namespace, and then the name alone has to be right.
	isNamed := name == DomainName(v.NamespacedName) || v.Namespace == "" &&
		strings.HasSuffix("_"+name, "_"+v.Name)
	switch {
	case name == "" || v.Name == "":
		return ""
	case !isNamed:
		return fmt.Sprintf("the VMI is %s, and the domain is of %s", own,
			words.Abridge(strings.Replace(name, "_", "/", 1)))

	case uid != "" && v.UID != "" && uid != string(v.UID):
		return fmt.Sprintf("the VMI and the domain are of two runs of %s: their uids differ", own)
	}

	return ""
}

// DomainName returns how KubeVirt names the domain of a VMI: NAMESPACE_NAME
// (pkg/virt-launcher/virtwrap/util/libvirt_helper.go, DomainFromNamespaceName).
func DomainName(vmi types.NamespacedName) string { return vmi.Namespace + "_" + vmi.Name }

// OfDomain returns the VMI of a domain with this name; false if KubeVirt did not make it. Names of
// Kubernetes have no underscore.
func OfDomain(name string) (vmi types.NamespacedName, isKubeVirts bool) {
	vmi.Namespace, vmi.Name, isKubeVirts = strings.Cut(name, "_")
	return vmi, isKubeVirts
}

// Request is a device that the VMI requests by resource or by claim.
type Request struct {
	Name      string  `json:"name"`
	Resource  string  `json:"deviceName"` // "" with a claim
	ClaimName *string `json:"claimName"`
	Options   struct {
		Display *DisplayOptions `json:"display"`
	} `json:"virtualGPUOptions"` // gpus only
}

// IsClaim reports whether a resource claim allocates the device (DRA), so that no environment
// variable has it. A resource takes precedence (KubeVirt pkg/dra/utils.go).
func (r Request) IsClaim() bool { return r.Resource == "" && r.ClaimName != nil }

// DisplayOptions are those of a GPU. A field is nil where it is unset, because KubeVirt's
// defaults differ between PCI and mediated devices
// (pkg/virt-launcher/virtwrap/device/hostdevice/hostdev.go).
type DisplayOptions struct {
	Enabled *bool `json:"enabled"`
	RamFB   struct {
		Enabled *bool `json:"enabled"`
	} `json:"ramFB"`
}

// Interface is a network interface of the VMI.
type Interface struct {
	Name string `json:"name"`
	// the guest address that the user chose, as written; "" for none
	PCIAddress string `json:"pciAddress"`

	SRIOV *struct{} `json:"sriov"` // not nil: it is a virtual function
}

// document is the decoded part of a VMI, with volumes decoded on demand. Other fields are
// scanned and not copied, and a later KubeVirt may change their types.
type document struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Namespace   string            `json:"namespace"`
		Name        string            `json:"name"`
		UID         types.UID         `json:"uid"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Domain   *domainSpec     `json:"domain"`
		Volumes  json.RawMessage `json:"volumes"`
		Template *document       `json:"template"` // of a VirtualMachine
	} `json:"spec"`
	Status struct {
		MigrationState                *migrationState `json:"migrationState"`
		LauncherContainerImageVersion string          `json:"launcherContainerImageVersion"`
	} `json:"status"`
}

type migrationState struct {
	Completed    bool    `json:"completed"`
	Failed       bool    `json:"failed"`
	EndTimestamp *string `json:"endTimestamp"`
	TargetNode   string  `json:"targetNode"`
}

func (m *migrationState) isInProgress() bool {
	return m != nil && !m.Completed && !m.Failed && m.EndTimestamp == nil
}

type domainSpec struct {
	CPU struct {
		DedicatedCPUPlacement bool `json:"dedicatedCpuPlacement"`
		NUMA                  struct {
			GuestMappingPassthrough *struct{} `json:"guestMappingPassthrough"`
		} `json:"numa"`
	} `json:"cpu"`
	Memory struct {
		Hugepages *struct{} `json:"hugepages"`
	} `json:"memory"`
	Machine struct {
		Type string `json:"type"`
	} `json:"machine"`
	Devices Devices `json:"devices"`
}

// ParseVMI reads a VirtualMachineInstance, or that of a VirtualMachine's template, from JSON.
// Unknown fields are ignored. Errors name line and column and never show the content, because a
// VMI holds passwords.
func ParseVMI(data []byte) (*VMI, error) {
	switch text := bytes.TrimSpace(data); {
	case len(text) == 0:
		return nil, errors.New("parse VMI: no data")
	case text[0] != '{':
		return nil, errors.New("parse VMI: not a JSON object")
	}

	// Before it is decoded: a file of empty entries would take a hundred times its size.
	if count := separators(data); count > maxSeparators {
		return nil, fmt.Errorf("parse VMI: it has %d fields and list entries, the limit is %d",
			count, maxSeparators)
	}

	var doc document
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("parse VMI: %w", words.JSONError(data, err))
	}

	// A VM gives its VMI the template, which has the annotations, and its own name.
	if t := doc.Spec.Template; t != nil && (doc.Kind == "VirtualMachine" || doc.Kind == "") {
		t.Metadata.Namespace, t.Metadata.Name = doc.Metadata.Namespace, doc.Metadata.Name
		doc = *t
	}

	if err := doc.checkKind(); err != nil {
		return nil, fmt.Errorf("parse VMI: %w", err)
	}

	return doc.vmi(), nil
}

// checkKind rejects everything but a VMI. virt-launcher's own JSON may lack the kind.
func (doc *document) checkKind() error {
	switch {
	case doc.Kind == "" && doc.Spec.Domain == nil:
		return errors.New("it has neither a kind nor spec.domain, want a VirtualMachineInstance")
	case doc.Kind != "" && doc.Kind != "VirtualMachineInstance":
		return fmt.Errorf("kind is %q, want VirtualMachineInstance", words.Abridge(doc.Kind))
	}

	return nil
}

// maxSeparators limits the fields and list entries of a VMI, which has a few hundred. An
// entry takes up to a hundred times the memory of its shortest form, {}.
const maxSeparators = 20_000

// separators counts the commas outside of strings, without parsing.
func separators(data []byte) int {
	if bytes.Count(data, []byte(",")) <= maxSeparators {
		return 0 // few, wherever they are
	}

	count, inString := 0, false
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++ // only strings have one
		case '"':
			inString = !inString
		case ',':
			if !inString {
				count++
			}
		}
	}

	return count
}

func (doc *document) vmi() *VMI {
	d := cmp.Or(doc.Spec.Domain, &domainSpec{})
	return &VMI{
		NamespacedName: types.NamespacedName{
			Namespace: doc.Metadata.Namespace, Name: doc.Metadata.Name,
		},
		UID:         doc.Metadata.UID,
		Annotations: doc.Metadata.Annotations,
		Devices:     d.Devices,

		MigrationInProgress: doc.Status.MigrationState.isInProgress(),
		LauncherImage:       doc.Status.LauncherContainerImageVersion,

		Machine: d.Machine.Type,

		DedicatedCPU:            d.CPU.DedicatedCPUPlacement,
		Hugepages:               d.Memory.Hugepages != nil,
		GuestMappingPassthrough: d.CPU.NUMA.GuestMappingPassthrough != nil,

		volumes: doc.Spec.Volumes,
	}
}
