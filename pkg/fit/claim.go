package fit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Wish is a shape in numbers, for which there is no claim yet.
type Wish struct {
	GPUs, NICs         int
	GPUClass, NICClass string // a DeviceClass, or a resource of a device plugin: it has a slash
	Pair               string // which devices share a PCIe root, one of Pairings
	OneSocket          bool   // all devices are of one NUMA node
}

// The pairings.
const (
	PairAuto = "auto" // as root, where a node can meet it
	PairRoot = "root" // each GPU and its NIC: one constraint per pair
	PairAll  = "all"  // all GPUs and NICs: one constraint
	PairNone = "none"
)

// Pairings returns the pairings.
func Pairings() []string { return []string{PairAuto, PairRoot, PairAll, PairNone} }

// Shape returns the wish as a shape. What has a DeviceClass is in one claim. With PairAuto it
// is the strictest that a node could meet if nothing ran, as the scheduler's allocator says;
// notes say why it is not stricter.
func (w Wish) Shape(ctx context.Context, f *Fleet) (Shape, error) {
	s := Shape{
		Name: wanted{w.GPUClass: w.GPUs, w.NICClass: w.NICs}.String(), Needs: corev1.ResourceList{},
		Pod:    corev1.PodSpec{Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}},
		Unread: []string{"CPUs, memory and taints: pass a VM with -f"},
	}
	if strings.Contains(w.GPUClass, "/") {
		s.need(corev1.ResourceName(w.GPUClass), *resource.NewQuantity(int64(w.GPUs), resource.DecimalSI))
		w.GPUs = 0
	}
	if strings.Contains(w.NICClass, "/") {
		s.need(corev1.ResourceName(w.NICClass), *resource.NewQuantity(int64(w.NICs), resource.DecimalSI))
		w.NICs = 0
	}
	if w.GPUs+w.NICs == 0 {
		return s, nil
	}
	all := []string{w.template(w.groups(), w.OneSocket)}
	if w.Pair == PairAuto {
		all = append(all, w.template(w.groups(), false), w.template(nil, w.OneSocket), w.template(nil, false))
	}
	for _, template := range slices.Compact(all) {
		var o Objects
		if err := o.Add([]byte(template)); err != nil {
			return s, fmt.Errorf("write a claim: %w", err)
		}
		claim := completed(&resourceapi.ResourceClaim{Spec: o.Templates[0].Spec.Spec})
		s.Template, s.Claims = template, []*resourceapi.ResourceClaim{claim}
		if s.refused != "" {
			s.Notes = append(s.Notes, s.refused)
		}
		if s.refused = f.refusal(ctx, claim); s.refused == "" {
			break
		}
	}
	return s, nil
}

// refusal returns why no node would meet a claim if nothing ran, "" where one would.
func (f *Fleet) refusal(ctx context.Context, claim *resourceapi.ResourceClaim) string {
	refused := "no node has devices"
	for _, of := range f.nodes {
		n := f.node(of)
		_, why := n.allocate(ctx, []*resourceapi.ResourceClaim{claim}, unused())
		if why == "" {
			return ""
		}
		if len(n.devices) > 0 {
			refused = fmt.Sprintf("on node %s %s", n.Name, why)
		}
	}
	constraints := wanted{}
	for _, c := range claim.Spec.Devices.Constraints {
		constraints["on "+string(*c.MatchAttribute)]++
	}
	return fmt.Sprintf("a claim with constraints (%s) cannot be met: %s", cmp.Or(constraints.String(), "none"), refused)
}

// groups returns the requests that share a PCIe root.
func (w Wish) groups() [][]string {
	var pairs [][]string
	for i := range min(w.GPUs, w.NICs) {
		pairs = append(pairs, []string{fmt.Sprint("gpu", i), fmt.Sprint("nic", i)})
	}
	switch w.Pair {
	case PairNone:
		return nil
	case PairAll:
		return [][]string{w.requests()}
	}
	return pairs
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
	nvidiaConfig = `      config:
      - requests: [%s]
        opaque:
          driver: gpu.nvidia.com
          parameters:
            apiVersion: resource.nvidia.com/v1beta1
            kind: VfioDeviceConfig
            iommu: {backendPolicy: LegacyOnly, enableAPIDevice: true}
`
)

// template returns the ResourceClaimTemplate with a constraint per group, and one over all
// for the socket. A comment has the fields of a VM's spec that use it, so that kubectl apply
// takes all of it.
func (w Wish) template(groups [][]string, oneSocket bool) string {
	var requests, constraints strings.Builder
	fields := map[string]string{}
	var gpus []string
	for _, name := range w.requests() {
		class, list := w.NICClass, "hostDevices"
		if strings.HasPrefix(name, "gpu") {
			class, list = w.GPUClass, "gpus"
			gpus = append(gpus, name)
		}
		fmt.Fprintf(&requests, "      - {name: %s, exactly: {deviceClassName: %q}}\n", name, class)
		fields[list] += fmt.Sprintf("#       - {name: %s, claimName: devices, requestName: %s}\n", name, name)
	}
	for _, group := range groups {
		fmt.Fprintf(&constraints, "      - {matchAttribute: resource.kubernetes.io/pcieRoot, requests: [%s]}\n", strings.Join(group, ", "))
	}
	if oneSocket {
		fmt.Fprintf(&constraints, "      - {matchAttribute: resource.kubernetes.io/numaNode, requests: [%s]}\n", strings.Join(w.requests(), ", "))
	}
	name := fmt.Sprintf("gpus-%d-nics-%d", w.GPUs, w.NICs)
	text := "apiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata: {name: " + name + "}\n" +
		"spec:\n  spec:\n    devices:\n      requests:\n" + requests.String()
	if constraints.Len() > 0 {
		text += "      constraints:\n" + constraints.String()
	}
	if w.GPUClass == nvidiaClass && w.GPUs > 0 {
		text += fmt.Sprintf(nvidiaConfig, strings.Join(gpus, ", "))
	}
	text += "# In the VM's spec.template.spec:\n#   resourceClaims: [{name: devices, resourceClaimTemplateName: " + name + "}]\n#   domain:\n#     devices:\n"
	for _, list := range []string{"gpus", "hostDevices"} {
		if fields[list] != "" {
			text += "#       " + list + ":\n" + fields[list]
		}
	}
	return text
}
