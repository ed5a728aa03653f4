package hooks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

const (
	// MaxMessage is the size in bytes of the largest request: MaxReply, with a VMI of 3 MiB,
	// twice the size that etcd stores.
	MaxMessage = 8 << 20

	// DefaultGrace is the time that calls in progress have after the server is asked to
	// stop. It is less than the 30 s that a kubelet waits by default between SIGTERM and
	// SIGKILL.
	DefaultGrace = 10 * time.Second

	// DefaultPatience limits four waits: until a client speaks HTTP/2, for a connection without a
	// call, for silence before a client is pinged, and for its answer to that. virt-launcher hangs
	// up after each call.
	DefaultPatience = 5 * time.Second
)

// Config configures a Server.
type Config struct {
	Mutator Mutator
	Logger  *slog.Logger // nil: no log

	// CloudInit answers PreCloudInitIso. nil: the call is not announced, and returns its
	// input. Announcing it affects every VM of this server (KubeVirt 1.9.0): virt-launcher
	// panics before it starts a VM without a cloud-init volume, sends this call to no other
	// sidecar, and loses user data that is not UTF-8 (pkg/hooks/manager.go,
	// PreCloudInitIso).
	CloudInit func(CloudInitCall) []byte

	// Versions selects from Versions() what to serve and announce; empty: all.
	Versions []string

	// HookSocket is the full path of the socket for the Info and Callbacks
	// services; empty: they are not served. Its directory must exist.
	HookSocket string
	// PluginSocket is the full path of the socket for structured plugins;
	// empty: they are not served. Its directory is created if needed.
	PluginSocket string

	Grace    time.Duration // 0: DefaultGrace
	Patience time.Duration // 0: DefaultPatience
}

// withDefaults returns the configuration with defaults for empty fields.
func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}

	// Each once: gRPC ends the process when a service is registered twice.
	c.Versions = slices.Compact(slices.Sorted(slices.Values(c.Versions)))
	c.Versions = slices.DeleteFunc(c.Versions, func(version string) bool {
		return !slices.Contains(Versions(), version)
	})

	if len(c.Versions) == 0 {
		c.Versions = Versions()
	}

	c.Grace = cmp.Or(c.Grace, DefaultGrace)
	c.Patience = cmp.Or(c.Patience, DefaultPatience)
	return c
}

// validate returns an error when the configuration cannot be served.
func (c Config) validate() error {
	if c.HookSocket == "" && c.PluginSocket == "" {
		return errors.New("serve hooks: no socket: set a hook socket, a plugin socket or both")
	}

	if c.HookSocket == c.PluginSocket {
		return fmt.Errorf("serve hooks: hook socket and plugin socket must differ: both are %s",
			c.HookSocket)
	}

	return nil
}

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
