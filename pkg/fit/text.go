package fit

import (
	"bytes"
	"cmp"
	"context"
	"errors"
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
	for _, note := range a.Notes {
		fmt.Fprintln(b, topology.Printable(note))
	}
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

// YAML returns the ResourceClaimTemplate with a shape's claim, and as a comment the fields of
// a VM's spec that use it, so that kubectl apply takes all of it. A claim that no node could
// meet if nothing ran is an error.
func (w Wish) YAML(ctx context.Context, f *Fleet, s Shape) ([]byte, error) {
	if len(s.Claims) == 0 {
		return nil, errors.New("write a claim: a device plugin's resource has none")
	}
	if why := f.refusal(ctx, s.Claims[0]); why != "" {
		return nil, fmt.Errorf("write a claim for %s: %s: %s", s.Name, describe(s.Claims[0]), why)
	}
	name := fmt.Sprintf("gpus-%d-nics-%d", w.GPUs, w.NICs)
	template := resourceapi.ResourceClaimTemplate{
		TypeMeta:   metav1.TypeMeta{APIVersion: resourceapi.SchemeGroupVersion.String(), Kind: "ResourceClaimTemplate"},
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.ResourceClaimTemplateSpec{Spec: s.Claims[0].Spec},
	}
	object, err := yaml.Marshal(template)
	if err != nil {
		return nil, err
	}
	fields, err := yaml.Marshal(vmSpec(name, s.Claims[0]))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for _, line := range append([]string{s.Name}, s.Notes...) {
		fmt.Fprintf(&b, "# %s\n", topology.Printable(line))
	}
	fmt.Fprintf(&b, "%s# In the VM's spec.template.spec:\n", object)
	for line := range strings.Lines(string(fields)) {
		b.WriteString("#   " + line)
	}
	return b.Bytes(), nil
}

// vmSpec returns the fields of a VM's spec that use a claim.
func vmSpec(template string, claim *resourceapi.ResourceClaim) map[string]any {
	const entry = "devices"
	var devices v1.Devices
	for _, r := range claim.Spec.Devices.Requests {
		of := &v1.ClaimRequest{ClaimName: entry, RequestName: r.Name}
		if strings.HasPrefix(r.Name, "gpu") {
			devices.GPUs = append(devices.GPUs, v1.GPU{Name: r.Name, ClaimRequest: of})
		} else {
			devices.HostDevices = append(devices.HostDevices, v1.HostDevice{Name: r.Name, ClaimRequest: of})
		}
	}
	return map[string]any{
		"resourceClaims": []v1.VirtualMachineInstanceResourceClaim{{Name: entry, ResourceClaimTemplateName: &template}},
		"domain":         map[string]any{"devices": map[string]any{"gpus": devices.GPUs, "hostDevices": devices.HostDevices}},
	}
}
