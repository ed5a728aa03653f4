package fit

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"text/tabwriter"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"hook-sidecar/pkg/topology"
)

// Table writes the answer as a line per node.
func (a Answer) Table(b *bytes.Buffer) error {
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NODE\tFIT NOW\tWHEN EMPTY\tPAIRS OF THE NEXT\tWHY NOT NOW")
	for _, n := range a.Nodes {
		fmt.Fprintf(table, "%s\t%d\t%d\t%s\t%s\n", n.Name, n.Now, n.Empty, n.pairs(), cmp.Or(topology.Printable(n.Why), "-"))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(b, "\n%s: %d fit now, %d when empty\n", topology.Printable(a.VM), a.Now, a.Empty)
	for _, what := range a.Unread {
		fmt.Fprintf(b, "not counted: %s\n", topology.Printable(what))
	}
	return nil
}

// pairs lists the pairs by path type, the nearest first.
func (n Node) pairs() string {
	var parts []string
	for _, name := range []string{"PHB", "NODE", "SYS", unknown} {
		if n.Pairs[name] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n.Pairs[name], name))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "-")
}

// Picture writes a node's devices under their NUMA nodes and PCIe roots.
func (n Node) Picture(b *bytes.Buffer) error {
	fmt.Fprintf(b, "%s: %d fit now, %d when empty; pairs of the next: %s\n", n.Name, n.Now, n.Empty, n.pairs())
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	var last Device
	for i, d := range n.Devices {
		if i == 0 || d.NUMA != last.NUMA {
			fmt.Fprintf(table, "NUMA node %s\n", cmp.Or(d.NUMA, unknown))
		}
		if i == 0 || d.NUMA != last.NUMA || d.Root != last.Root {
			fmt.Fprintf(table, "  %s\n", topology.Printable(cmp.Or(d.Root, "PCIe root "+unknown)))
		}
		fmt.Fprintln(table, strings.TrimSuffix(fmt.Sprintf("    %s\t%s\t%s\t%s", d.Name, topology.Printable(d.Address), d.State, topology.Printable(d.By)), "\t"))
		last = d
	}
	return table.Flush()
}

// YAML returns the ResourceClaimTemplate with the claim, and as a comment the fields of a
// VM's spec that use it, so that kubectl apply takes all of it.
func (w Wish) YAML(name string, claim *resourceapi.ResourceClaim, why []string) ([]byte, error) {
	template := resourceapi.ResourceClaimTemplate{
		TypeMeta:   metav1.TypeMeta{APIVersion: resourceapi.SchemeGroupVersion.String(), Kind: "ResourceClaimTemplate"},
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.ResourceClaimTemplateSpec{Spec: claim.Spec},
	}
	const entry = "devices"
	var spec struct {
		ResourceClaims []v1.VirtualMachineInstanceResourceClaim `json:"resourceClaims"`
		Domain         struct {
			Devices struct {
				GPUs        []v1.GPU        `json:"gpus,omitempty"`
				HostDevices []v1.HostDevice `json:"hostDevices,omitempty"`
			} `json:"devices"`
		} `json:"domain"`
	}
	spec.ResourceClaims = []v1.VirtualMachineInstanceResourceClaim{{Name: entry, ResourceClaimTemplateName: &name}}
	devices := &spec.Domain.Devices
	for _, request := range w.requests() {
		of := &v1.ClaimRequest{ClaimName: entry, RequestName: request}
		if strings.HasPrefix(request, "gpu") {
			devices.GPUs = append(devices.GPUs, v1.GPU{Name: request, ClaimRequest: of})
		} else {
			devices.HostDevices = append(devices.HostDevices, v1.HostDevice{Name: request, ClaimRequest: of})
		}
	}
	object, err := yaml.Marshal(template)
	if err != nil {
		return nil, err
	}
	fields, err := yaml.Marshal(spec)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n", w)
	for _, line := range why {
		fmt.Fprintf(&b, "# %s\n", topology.Printable(line))
	}
	fmt.Fprintf(&b, "%s# In the VM's spec.template.spec:\n", object)
	for line := range strings.Lines(string(fields)) {
		b.WriteString("#   " + line)
	}
	return b.Bytes(), nil
}
