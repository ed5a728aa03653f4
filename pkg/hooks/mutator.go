package hooks

import "context"

// The versions of KubeVirt's Callbacks service, as InfoResult.versions spells
// them (KubeVirt pkg/hooks/v1alpha{1,2,3}).
const (
	V1alpha1 = "v1alpha1"
	V1alpha2 = "v1alpha2"
	V1alpha3 = "v1alpha3"
)

// Plugin is the Protocol of a call by KubeVirt's structured plugins.
const Plugin = "plugin"

// Versions returns all versions of the Callbacks service, newest first, as virt-launcher
// prefers them (KubeVirt pkg/hooks/manager.go).
func Versions() []string {
	return []string{V1alpha3, V1alpha2, V1alpha1}
}

// MaxReply is the size in bytes of the largest domain that virt-launcher can receive:
// gRPC's default limit of 4 MiB, minus the tag and length of the field.
const MaxReply = 4<<20 - 5

// Mutator returns the domain to reply to a call with. It must be safe for
// concurrent use and must not change the bytes of the call.
//
// An error fails the call, and so the start of the VM. It has a gRPC status, for the
// client.
type Mutator interface {
	Mutate(ctx context.Context, call Call) (domainXML []byte, err error)
}

// Call is a request of virt-launcher.
type Call struct {
	Protocol string // V1alpha1, V1alpha2, V1alpha3 or Plugin
	Domain   []byte // libvirt domain XML, may be empty
	VMI      []byte // VirtualMachineInstance as JSON, may be empty

	// Migration is true where KubeVirt discards the result: the server returns the input.
	Migration bool
}

// CloudInitCall is a request of virt-launcher before it writes cloud-init's data.
type CloudInitCall struct {
	Protocol string // V1alpha2 or V1alpha3
	Data     []byte // KubeVirt's CloudInitData as JSON
	VMI      []byte // as in Call
}
