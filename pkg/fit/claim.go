package fit

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"hook-sidecar/pkg/topology"
)

// Pairing is which devices have to share a PCIe root.
type Pairing string

// The pairings.
const (
	PairAuto Pairing = "auto" // GPU and NIC, where a node has such pairs
	PairRoot Pairing = "root" // GPU and NIC: one constraint per pair
	PairAll  Pairing = "all"  // all GPUs and NICs: one constraint
	PairNone Pairing = "none"
)

// Pairings returns the pairings.
func Pairings() []string {
	return []string{string(PairAuto), string(PairRoot), string(PairAll), string(PairNone)}
}

// Wish is a shape in numbers, for which a claim is to be written.
type Wish struct {
	GPUs, NICs         int
	GPUClass, NICClass string
	Pair               Pairing
	OneSocket          bool // all on one NUMA node
}

// String describes the wish.
func (w Wish) String() string {
	var parts []string
	if w.GPUs > 0 {
		parts = append(parts, topology.Counted(w.GPUs, "GPU")+" of "+w.GPUClass)
	}
	if w.NICs > 0 {
		parts = append(parts, topology.Counted(w.NICs, "NIC")+" of "+w.NICClass)
	}
	return strings.Join(parts, " and ")
}

// Shape returns the wish as a shape. What has a device class is in one claim: the strictest
// that a node could meet if nothing ran, as the scheduler's allocator says. Notes say why it
// is not stricter. A pairing other than auto is taken as it is.
func (w Wish) Shape(ctx context.Context, f *Fleet) (Shape, error) {
	s := Shape{Name: w.String(), Needs: corev1.ResourceList{}}
	for _, of := range []struct {
		class string
		count *int
	}{{w.GPUClass, &w.GPUs}, {w.NICClass, &w.NICs}} {
		if strings.Contains(of.class, "/") && *of.count > 0 {
			s.need(corev1.ResourceName(of.class), *resource.NewQuantity(int64(*of.count), resource.DecimalSI))
			*of.count = 0
		}
	}
	if w.GPUs+w.NICs == 0 {
		return s, nil
	}
	all := []*resourceapi.ResourceClaim{w.claim(w.pairs(), w.OneSocket)}
	if err := f.check(all[0]); err != nil {
		return s, err
	}
	if w.Pair == PairAuto {
		all = append(all, w.claim(w.pairs(), false), w.claim(nil, w.OneSocket), w.claim(nil, false))
	}
	for i, claim := range all {
		s.Claims = []*resourceapi.ResourceClaim{claim}
		if i == len(all)-1 {
			break // the last is the one to explain
		}
		if i > 0 && reflect.DeepEqual(claim, all[i-1]) {
			continue
		}
		refused := f.refusal(ctx, claim)
		if refused == "" {
			break
		}
		s.Notes = append(s.Notes, fmt.Sprintf("%s cannot be met: %s", describe(claim), refused))
	}
	return s, nil
}

// refusal returns why no node would meet a claim if nothing ran, "" where one would.
func (f *Fleet) refusal(ctx context.Context, claim *resourceapi.ResourceClaim) string {
	refused := "there is no node"
	for _, of := range f.nodes {
		n := f.node(of)
		_, why := n.allocate(ctx, []*resourceapi.ResourceClaim{claim}, unused())
		if why == "" {
			return ""
		}
		if len(n.devices) > 0 {
			refused = "on node " + of.Name + " " + why
		}
	}
	return refused
}

// describe names what a claim asks for beside devices.
func describe(claim *resourceapi.ResourceClaim) string {
	constraints := wanted{}
	for _, c := range claim.Spec.Devices.Constraints {
		constraints["on "+string(*c.MatchAttribute)]++
	}
	return fmt.Sprintf("a claim with constraints (%s)", cmp.Or(constraints.String(), "none"))
}

// pairs returns the requests that have to share a PCIe root.
func (w Wish) pairs() [][]string {
	switch w.Pair {
	case PairNone:
		return nil
	case PairAll:
		return [][]string{w.requests()}
	}
	var all [][]string
	for i := range min(w.GPUs, w.NICs) {
		all = append(all, []string{fmt.Sprint("gpu", i), fmt.Sprint("nic", i)})
	}
	return all
}

// requests returns the names of the requests. A GPU's NIC is after it: the allocator goes
// back one request at a time, and finds at once that a pair does not match.
func (w Wish) requests() []string {
	var all []string
	for i := range max(w.GPUs, w.NICs) {
		if i < w.GPUs {
			all = append(all, fmt.Sprint("gpu", i))
		}
		if i < w.NICs {
			all = append(all, fmt.Sprint("nic", i))
		}
	}
	return all
}

// NVIDIA's class for passthrough, and the configuration that KubeVirt needs with it
// (kubevirt/user-guide docs/compute/dra_gpu.md).
const (
	nvidiaClass  = "vfio.gpu.nvidia.com"
	nvidiaDriver = "gpu.nvidia.com"
	nvidiaConfig = `{"apiVersion":"resource.nvidia.com/v1beta1","kind":"VfioDeviceConfig","iommu":{"backendPolicy":"LegacyOnly","enableAPIDevice":true}}`
)

// The attributes that Kubernetes names (k8s.io/dynamic-resource-allocation deviceattribute;
// KEP-6072).
const (
	pcieRoot = "resource.kubernetes.io/pcieRoot"
	numaNode = "resource.kubernetes.io/numaNode"
)

// claim returns the claim with a constraint per pair, and one over all for the socket.
func (w Wish) claim(pairs [][]string, oneSocket bool) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{}
	devices := &claim.Spec.Devices
	var nvidia []string
	for _, name := range w.requests() {
		class := w.NICClass
		if strings.HasPrefix(name, "gpu") {
			class = w.GPUClass
		}
		if class == nvidiaClass {
			nvidia = append(nvidia, name)
		}
		devices.Requests = append(devices.Requests, resourceapi.DeviceRequest{Name: name, Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: class}})
	}
	match := func(attribute resourceapi.FullyQualifiedName, requests []string) {
		devices.Constraints = append(devices.Constraints, resourceapi.DeviceConstraint{Requests: requests, MatchAttribute: &attribute})
	}
	for _, pair := range pairs {
		match(pcieRoot, pair)
	}
	if oneSocket {
		match(numaNode, w.requests())
	}
	if nvidia != nil {
		config := &resourceapi.OpaqueDeviceConfiguration{Driver: nvidiaDriver, Parameters: runtime.RawExtension{Raw: []byte(nvidiaConfig)}}
		devices.Config = []resourceapi.DeviceClaimConfiguration{{Requests: nvidia, DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: config}}}
	}
	return completed(claim)
}
