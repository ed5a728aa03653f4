package boot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// Explained is the part of `explain -o json` that a guest can confirm.
type Explained struct {
	Devices []struct {
		ID, Outcome, Reason string
		GuestCell           *int
		GuestAddress        *string
		GuestPath           []int
		Predicted           *string
	}
	Controllers []struct {
		Index, Slot, Function, BusNr *int
		Model                        string
	}
}

// explain asks the program under test about a domain.
func explain(binary string, domain []byte, flags ...string) (*Explained, error) {
	out, err := ask(binary, domain,
		append([]string{"explain", "-o", "json", "--domain", "-"}, flags...)...)
	if err != nil {
		return nil, err
	}

	plan := &Explained{}
	return plan, json.Unmarshal(out, plan)
}

// mutate lets the program under test place the devices of a domain.
func mutate(binary string, domain []byte, flags ...string) ([]byte, error) {
	return ask(binary, domain, append([]string{"mutate", "--domain", "-"}, flags...)...)
}

// ask runs the program under test and returns what it prints.
func ask(binary string, domain []byte, args ...string) ([]byte, error) {
	command := exec.Command(binary, args...)
	command.Stdin = bytes.NewReader(domain)
	var out, stderr bytes.Buffer
	command.Stdout, command.Stderr = &out, &stderr
	if err := command.Run(); err != nil {
		return out.Bytes(), fmt.Errorf("%s: %w: %s", args[0], err, stderr.String())
	}

	return out.Bytes(), nil
}

// Expected is where a guest has to show a device.
type Expected struct {
	Address string
	Node    int
	// Tree has the root bus, then slot and function of each bridge and of the
	// device: what stays the same when bus numbers change.
	Tree string
}

// Expectations returns what explain predicts, by the label of the device's stand-in. A device for
// which explain predicts nothing has none.
func (e *Explained) Expectations() map[string]Expected {
	all := map[string]Expected{}
	for _, d := range e.Devices {
		if d.Predicted == nil || d.GuestAddress == nil {
			continue
		}

		want := Expected{
			Address: *d.Predicted, Node: -1, Tree: e.tree(d.GuestPath, *d.GuestAddress),
		}

		if d.GuestCell != nil {
			want.Node = *d.GuestCell
		}

		all[Label(d.ID)] = want
	}

	return all
}

// Label returns the serial number of the stand-in for a device.
func Label(id string) string { return id[:min(len(id), serialLength)] }

// ids returns the devices' ids.
func (e *Explained) ids() []string {
	var all []string
	for _, d := range e.Devices {
		all = append(all, d.ID)
	}
	return all
}

func (e *Explained) tree(path []int, address string) string {
	parts := []string{"pci0000:00"}
	for _, index := range path {
		for _, c := range e.Controllers {
			switch {
			case *c.Index != index:
			case c.BusNr != nil:
				parts[0] = fmt.Sprintf("pci0000:%02x", *c.BusNr)
			case c.Slot != nil && c.Function != nil:
				parts = append(parts, fmt.Sprintf("%02x.%x", *c.Slot, *c.Function))
			}
		}
	}

	return strings.Join(append(parts, address[strings.LastIndex(address, ":")+1:]), "/")
}

// found returns what the guest shows of the stand-ins, by label.
func (g *Guest) found() map[string]Expected {
	all := map[string]Expected{}
	for _, d := range g.Devices {
		if isStandIn(d.ID) {
			all[d.Label] = d.Place()
		}
	}

	return all
}

// Place returns where the guest shows a device.
func (d Device) Place() Expected {
	return Expected{Address: d.Address(), Node: d.Node, Tree: d.tree()}
}

// tree returns a device's path without bus numbers.
func (d Device) tree() string {
	parts := strings.Split(d.Path, "/")
	for i, part := range parts[1:] {
		parts[i+1] = part[strings.LastIndex(part, ":")+1:]
	}
	return strings.Join(parts, "/")
}

// others returns the devices that the hook must not move: all but the stand-ins, the bridges, and
// those that libvirt addresses after hostdevs. They are named by label where they have one.
func (g *Guest) others() []string {
	var all []string
	for _, d := range g.Devices {
		if isStandIn(d.ID) || strings.HasPrefix(d.Class, "0604") ||
			slices.Contains(shifting(), d.ID) {
			continue
		}

		name := d.Label
		if name == "" {
			name = d.ID
		}

		all = append(all, fmt.Sprintf("%s at %s, %s", name, d.Address(), d.tree()))
	}

	slices.Sort(all)
	return all
}

// shifting returns the IDs of the expander bus, and of virtio's entropy source, balloon, input and
// socket, which come after hostdevs in libvirt's order.
func shifting() []string {
	return []string{
		"1b36:000b", "1af4:1044", "1af4:1005", "1af4:1045", "1af4:1002", "1af4:1052", "1af4:1053",
		"1af4:1012",
	}
}
