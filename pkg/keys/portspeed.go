package keys

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// writePortSpeed makes ports above passthrough devices advertise the host's links, with an override
// per port: a root port with a device that is faster than QEMU's port, and all ports of a switch
// together with its root port. KubeVirt's types lack qemu:override, so that every call writes it.
func writePortSpeed(vm Planned) Writing {
	switch {
	case len(vm.Devices) == 0:
		return Writing{}
	case !libvirt.HasExpanderBuses(vm.Domain()):
		return Writing{Line: fmt.Sprintf("machine %q has no root ports", vm.Domain().Machine)}
	}

	p := newPortSpeed(vm.Plan)
	for _, root := range vm.GuestTree.Roots {
		for n := range root.Walk() {
			switch {
			case n.Kind != topology.RootPort:
			case slices.ContainsFunc(n.Children, func(c *topology.Node) bool {
				return c.Kind == topology.UpstreamPort
			}):
				p.addSwitch(n)

			default:
				p.addRootPort(n)
			}
		}
	}

	// A tree that has no switches says why those of mirror would have no links.
	if p.allSwitches != "" && p.isWithoutSwitches() {
		p.refused[p.allSwitches] = append(p.refused[p.allSwitches], "the switches of layout mirror")
	}

	slices.SortFunc(p.written, func(a, b portLink) int { return cmp.Compare(a.Index, b.Index) })
	w := Writing{Line: p.String(), Warnings: p.warnings()}
	for _, port := range p.written {
		w.Fragments = append(w.Fragments, port.override())
	}

	return w
}

// NoRoomForPorts returns why the firmware has no room below 4 GiB for the BARs of the switch ports
// that a written plan gives links, "" where it has. All calls of a boot agree on it.
func NoRoomForPorts(plan *placement.Plan) string {
	if plan.Policy.PortSpeed != "host" {
		return ""
	}

	guest := Firmware(plan, plan.Domain(), 0)
	need, forPorts := guest.MostLow()
	if forPorts == 0 || need <= guest.LowWindow() {
		return ""
	}

	return fmt.Sprintf("below 4 GiB BARs and hotplug take up to %s, %s of it for such ports, and the "+
		"window has %s", words.BytesNeeded(need), words.BytesNeeded(forPorts),
		words.BytesThere(guest.LowWindow()))
}

// portSpeed has the links to write.
type portSpeed struct {
	hostLinks
	allSwitches string         // why no switch may have links, "" where they may
	users       *domain.Option // the user's own for such ports
	written     []portLink
	switches    []topology.Link     // uplinks of those written
	rootPorts   []topology.Link     // of those written without a switch
	isEnough    bool                // a root port's own speed is enough for a device
	refused     map[string][]string // ports and switches by the reason
}

// portLink is a controller with the link that it gets.
type portLink struct {
	domain.Controller
	topology.Link
}

func newPortSpeed(plan *placement.Plan) *portSpeed {
	return &portSpeed{
		hostLinks: hostLinks{plan}, refused: map[string][]string{},
		allSwitches: plan.SwitchPortsRefused, users: libvirt.PortLinkOption(plan.Domain()),
	}
}

// override returns the override for a port.
func (p portLink) override() domain.PortOverride {
	speed, width, _ := libvirt.LinkProperties(p.Link)
	return domain.PortOverride{
		Alias: p.QEMUAlias(), Driver: libvirt.LinkDriver(p.Model), Speed: speed, Width: width,
		Own: true,
	}
}

// addRootPort gives a root port the link of the device directly under it, where QEMU's own is
// slower.
func (p *portSpeed) addRootPort(n *topology.Node) {
	device := slices.IndexFunc(n.Children, func(c *topology.Node) bool {
		id, isPassedThrough := c.ID.(topology.DeviceID)
		// the link of a mediated device is unknown
		return isPassedThrough && id.Kind() == topology.KindPCI
	})

	port := p.controller(n)
	if device < 0 || port == nil {
		return
	}

	// The path is as fast on the host as its slowest link, and the port must not promise more.
	link := p.plan.Host.SlowestLink(p.plan.HostTree.Node(n.Children[device].ID).Path())
	if link.Speed <= libvirt.DefaultRootPortLink().Speed {
		p.isEnough = p.isEnough || link.Speed > 0
		return
	}

	if p.users != nil {
		return
	}

	if why := p.refusal(portLink{*port, link}); why != "" {
		p.refused[why] = append(p.refused[why], "root port "+p.name(*port))
		return
	}

	p.rootPorts = append(p.rootPorts, link)
	p.written = append(p.written, portLink{*port, link})
}

// addSwitch gives the ports of the switch under a root port, and of all switches under that, the
// host's links, if all of them can have one: Linux and NCCL take the slowest.
func (p *portSpeed) addSwitch(rootPort *topology.Node) {
	if len(p.paths(rootPort)) == 0 {
		return
	}

	links := map[*topology.Node]topology.Link{}
	for _, upstream := range rootPort.Children {
		if upstream.Kind == topology.UpstreamPort {
			links[rootPort] = p.addLinks(upstream, 0, links)
		}
	}

	// All ports of the switch are looked at before any is written: a reason against one of them
	// is one against the switch.
	why := p.allSwitches
	var ports []portLink
	var name string
	for n := range rootPort.Walk() {
		link, isPort := links[n]
		if !isPort {
			continue
		}

		port := p.controller(n)
		if port == nil {
			return // libvirt has yet to add it
		}

		if n.Kind == topology.UpstreamPort && name == "" {
			name = p.name(*port)
		}

		ports = append(ports, portLink{*port, link})
		why = cmp.Or(why, p.refusal(ports[len(ports)-1]))
	}

	if why != "" {
		p.refused[why] = append(p.refused[why], "switch "+name)
		return
	}

	for _, port := range ports {
		if port.Model == domain.UpstreamPort {
			p.switches = append(p.switches, port.Link)
		}
	}

	p.written = append(p.written, ports...)
}

// isWithoutSwitches reports whether auto has taken a tree without the host's switches, though GPUs or
// NICs are under some that it could have.
func (p *portSpeed) isWithoutSwitches() bool {
	isUnderSwitch := func(d placement.Decision) bool {
		n := p.plan.HostTree.Node(d.ID)
		return d.Function.IsGPUOrNIC() && !d.OwnPort && n != nil && n.IsUnderSwitch()
	}
	return p.plan.Policy.Layout == policy.LayoutAuto && !p.plan.Layout.HasSwitches() &&
		slices.ContainsFunc(p.plan.Devices, isUnderSwitch)
}

// refusal returns why a port cannot have a link, "" where it can.
func (p *portSpeed) refusal(port portLink) string {
	_, _, isKnown := libvirt.LinkProperties(port.Link)
	since := libvirt.SpeedSince(port.Speed)
	switch d := p.plan.Domain(); {
	case slices.Contains(d.References, port.Index):
		return fmt.Sprintf("the domain itself refers to %s", port.QEMUAlias())
	case port.Link == topology.Link{}:
		return fmt.Sprintf("the host has no link for %s, or does not show it", port.QEMUAlias())
	case !isKnown:
		return fmt.Sprintf("QEMU has no value for %s", port.Link)
	case port.Model == domain.RootPort && since != "" && libvirt.IsOlderThan(d.Machine, since):
		return fmt.Sprintf("QEMU has %s GT/s since %s, and machine %q runs on older ones",
			words.Number(port.Speed), since, words.Abridge(d.Machine))
	}

	return ""
}

// controller returns the controller of a node; nil for one that libvirt has yet to add.
func (p *portSpeed) controller(n *topology.Node) *domain.Controller {
	for _, c := range p.plan.Controllers {
		if topology.Index(c.Index) == n.ID {
			return &c.Controller
		}
	}
	return nil
}

// name returns the address of a bridge in the guest, or its alias while that is unknown.
func (p *portSpeed) name(port domain.Controller) string {
	for _, c := range p.plan.Controllers {
		if c.Index == port.Index && c.Predicted != nil {
			return c.Predicted.String()
		}
	}
	return port.QEMUAlias()
}

// String says what is written, or why nothing is.
func (p *portSpeed) String() string {
	var parts []string
	if n := len(p.switches); n > 0 {
		noun := "1 switch advertises"
		if n > 1 {
			noun = fmt.Sprintf("%d switches advertise", n)
		}

		parts = append(parts,
			fmt.Sprintf("%s the host's links, up to %s, which takes QEMU 10.0 or newer", noun,
				fastest(p.switches)))
	}

	if n := len(p.rootPorts); n > 0 {
		noun := "1 root port advertises"
		if n > 1 {
			noun = fmt.Sprintf("%d root ports advertise", n)
		}

		link := fastest(p.rootPorts)
		parts = append(parts,
			fmt.Sprintf("%s the host's links, up to %s, which takes QEMU %s or newer", noun, link,
				libvirt.SpeedSince(link.Speed)))
	}

	if p.users != nil {
		parts = append(parts,
			fmt.Sprintf("the domain's own %s %q stays", p.users.Name,
				words.Abridge(p.users.Value)))
	}

	switch {
	case len(parts) > 0 || len(p.refused) > 0:
	case p.isEnough:
		parts = []string{
			fmt.Sprintf("root ports advertise QEMU's %s GT/s, which is enough",
				words.Number(libvirt.DefaultRootPortLink().Speed)),
		}

	default:
		parts = []string{
			"ports stay as they are: the host shows no link of a device that is under one",
		}
	}

	return strings.Join(parts, "; ")
}

// fastest returns the fastest of links.
func fastest(links []topology.Link) topology.Link {
	return slices.MaxFunc(links, func(a, b topology.Link) int {
		return cmp.Compare(a.Speed*float64(a.Width), b.Speed*float64(b.Width))
	})
}

func (p *portSpeed) warnings() []reasons.Finding {
	if len(p.refused) == 0 {
		return nil
	}

	parts := topology.Map(slices.Sorted(maps.Keys(p.refused)), func(why string) string {
		return strings.Join(p.refused[why], ", ") + ": " + why
	})

	return []reasons.Finding{
		reasons.NewFinding(reasons.CodePortSpeedRefused, nil, "no link of the host for "+
			strings.Join(parts, "; ")),
	}
}
