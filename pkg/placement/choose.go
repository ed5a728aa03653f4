package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/consumers"
	"hook-sidecar/pkg/consumers/ncclgraph"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// choose returns the proposal of the layout that the policy names. With auto it is the layout by
// which the consumers of the tree decide as on the host most often, of those by which none decides
// more wrongly than without the hook. It depends on the devices, the host and the cells, so that
// all calls of a boot choose the same.
func choose(s start) proposal {
	if s.Policy.Layout != policy.LayoutAuto {
		return propose(s, s.Policy.Layout, "")
	}

	j := newJudge(s)
	all := j.candidates()

	// In a guest without cells numa places nothing. That is the tree without the hook, by which the
	// others are measured: none has fewer wrong decisions. So it is not the best if the finest layout
	// places a device, but it may be the simpler tree that is taken below.
	eligible := slices.DeleteFunc(slices.Clone(all), func(c candidate) bool {
		return len(c.managed) == 0 && len(all[0].managed) > 0
	})
	best := slices.MinFunc(eligible, candidate.compare) // of equal ones the finest, which is first
	best.Why = j.why(best, all)

	// A simpler tree that is no worse, and in which every pair is as near, is easier to read and takes
	// fewer ports. It may be the one in which nothing is placed: a single GPU gains nothing from a
	// place, and a place may take a GPU away from a NIC that stays.
	for _, simpler := range slices.Backward(all) {
		if simpler.Layout == best.Layout {
			break
		}

		if simpler.compare(best) <= 0 && simpler.isAsNear(best.proposal, s) {
			simpler.Why = best.Why
			if best.Layout.HasSwitches() {
				simpler.Why = asNear(best)
			}
			return simpler.proposal
		}
	}

	return best.proposal
}

// candidate is a proposal for auto, with what its tree brings.
type candidate struct {
	proposal
	score
	tallies []consumers.Tally
	// a device that NCCL pairs is under a switch in its tree
	usesSwitches bool
}

// score orders candidates. The fields are in the order in which they count.
type score struct {
	// How many decisions use what the host lacks, or are slowed down by a port of the guest. Without
	// the hook there are none.
	harm int
	// Decisions that are wrong beyond those of a flat tree: of NCCL, and of all consumers. They are
	// 0 where no consumer decides more wrongly than without the hook.
	worseNCCL, worse int
	right            int // decisions as on the host
	// 1 if two GPUs, accelerators or NICs are passed through, and one of them is under a switch
	// whose ports advertise a speed that is not the host's; else 0
	falseSpeed int
}

// compare orders candidates from the best. Those of one score are equal.
func (c candidate) compare(other candidate) int {
	x, y := c.score, other.score
	return cmp.Or(
		cmp.Compare(x.harm, y.harm),
		cmp.Compare(x.worseNCCL, y.worseNCCL),
		cmp.Compare(x.worse, y.worse),
		cmp.Compare(y.right, x.right),
		cmp.Compare(x.falseSpeed, y.falseSpeed),
	)
}

// judge compares trees by what the consumers decide in them.
type judge struct {
	start
	onHost consumers.Machine
	flat   *topology.Tree // each device on a root port of the root bus
	// what the consumers decide in flat
	withoutHook []consumers.Tally
}

func newJudge(s start) judge {
	j := judge{start: s, flat: flatTree(s.ids)}
	devices := shownBy(s.Host, topology.Map(s.devices, func(d PassthroughDevice) Decision {
		return Decision{PassthroughDevice: d}
	}))

	shown := s.Host.AsShown(s.hostTree, s.ids)
	j.onHost = consumers.Machine{
		Machine: machineOf(devices, shown.Node, unlimited), CPU: cpuOf(s.Host, s.Domain),
	}
	j.withoutHook = consumers.Tallies(j.onHost, j.guest(devices, j.flat.Node))
	return j
}

// flatTree returns the tree of a guest whose devices libvirt places. They are in the host's order,
// and not in the domain's, in which libvirt numbers them: else the order of hostdevs, which a device
// plugin shuffles, would choose the layout. NCCL breaks ties by order. So a domain in another order
// may have more wrong decisions of NCCL's than this measure, and auto takes a layout for NCCL's sake
// by which another consumer has more wrong ones than in that domain.
func flatTree(ids []topology.DeviceID) *topology.Tree {
	flat := topology.NewTree(len(ids), 0)
	bus := flat.Add(nil, topology.Node{Kind: topology.Root, ID: topology.Index(0)})
	for i, id := range ids {
		port := flat.Add(bus, topology.Node{Kind: topology.RootPort, Slot: i})
		flat.Add(port, topology.Node{Kind: topology.Endpoint, ID: id})
	}

	return flat
}

// guest returns a guest that has devices at nodes, as the consumers find it. The links of devices
// count as fast: not every call reads them, and all calls of a boot have to choose the same.
func (j judge) guest(
	devices []Decision, node func(topology.ID) *topology.Node,
) consumers.Machine {
	port := silentPort
	if j.switchPortsSpeak() {
		port = j.speakingPort
	}

	own := func(*topology.Function) topology.Link { return ncclgraph.Unlimited }
	m := machineOf(devices, node, guestLinks(j.Host, port, own))
	return asGuest(m, j.onHost, j.Domain, j.Policy)
}

// speakingPort returns the link of a port in the tree that a layout wants, with port-speed=host. A
// port above a device that the host has directly on a root bus has no link of the host to show, and
// stays as QEMU's ports are.
func (j judge) speakingPort(n *topology.Node) topology.Link {
	for e := range n.Endpoints() {
		if on := j.hostTree.Node(e.ID); on != nil && on.Parent != nil && on.Parent.Kind != topology.Root {
			return ncclgraph.Unlimited
		}
	}
	return silentPort(n)
}

// candidates returns what auto may take, the finest layout first.
func (j judge) candidates() (all []candidate) {
	for _, layout := range slices.Backward(layoutsFor(j.hostPlaces)) {
		all = append(all, j.judged(propose(j.start, layout, "")))
	}
	return all
}

// judged returns a proposal with its score.
func (j judge) judged(p proposal) candidate {
	c := candidate{proposal: p, usesSwitches: anyPairedUnderSwitch(p.decisions, p.wanted)}
	node := func(id topology.ID) *topology.Node {
		if n := p.wanted.Node(id); n != nil {
			return n
		}
		return j.flat.Node(id) // it stays where it is
	}

	c.tallies = consumers.Tallies(j.onHost, j.guest(shownBy(j.Host, p.decisions), node))
	// Harm counts in full, since no tree without the hook does any. Wrong decisions count if they are
	// more than in the flat tree.
	c.harm = j.falseSwitches(p)
	for i, t := range c.tallies {
		more := max(0, t.Wrong-j.withoutHook[i].Wrong)
		c.harm, c.worse, c.right = c.harm+t.Harmful, c.worse+more, c.right+t.Right
		if t.Consumer == consumers.NCCL {
			c.worseNCCL = more
		}
	}

	hasTrueSpeed := j.Policy.NCCLTopology != policy.NCCLTopologyNone || j.switchPortsSpeak()
	if !hasTrueSpeed && hasFalseLinkSpeed(p.decisions, p.wanted) {
		c.falseSpeed = 1
	}

	return c
}

// falseSwitches counts the pairs of devices that a proposal puts under a common switch without one
// on the host.
func (j judge) falseSwitches(p proposal) (count int) {
	for i, x := range j.hostPlaces {
		for k, y := range j.hostPlaces[:i] {
			isKnown := j.devices[i].Function != nil && j.devices[k].Function != nil
			if isKnown && p.pathType(i, k) <= topology.PXB && x.PathType(y) > topology.PXB {
				count++
			}
		}
	}

	return count
}

// asNear returns why a layout is taken that is simpler than the best.
func asNear(best candidate) string {
	if slices.ContainsFunc(best.decisions, func(d Decision) bool { return d.OwnPort }) {
		return "whole AMD GPUs keep PCIe AtomicOps only directly under a root port, and a finer tree " +
			"would bring no two other devices nearer to the host's path type"
	}
	return "a finer tree would bring no two devices nearer to the host's path type"
}

// why returns why a candidate is the best of all, which begin with mirror.
func (j judge) why(best candidate, all []candidate) string {
	mirror := all[0]
	// Mirror puts vGPUs of one GPU, or virtual functions of one NIC, under a switch without one on
	// the host, too.
	isHosts := anyPairedUnderSwitch(mirror.decisions, mirror.wanted, j.hostTree)
	hasFile := j.Policy.NCCLTopology != policy.NCCLTopologyNone
	switch {
	case best.Layout == policy.LayoutSwitch:
		return "NCCL uses GPUDirect RDMA under one switch as under cascaded ones, whose inner " +
			"uplinks would advertise 2.5 GT/s"

	case best.Layout != policy.LayoutMirror:
		return j.whyNoSwitches(best, all, isHosts)

	case hasFile && !isHosts:
		return "it shows which devices are of one place on the host, such as vGPUs of one " +
			"GPU, and nccl-topology says the speeds"

	case hasFile:
		return "it shows the host's switches, and nccl-topology says their speeds"
	case j.switchPortsSpeak() && mirror.usesSwitches:
		return "it shows the host's switches, and port-speed gives their ports the host's links"
	case !hasFalseLinkSpeed(mirror.decisions, mirror.wanted):
		return "it shows the host's switches, and none of them is between GPUs, " +
			"accelerators or NICs"
	}

	without := all[slices.IndexFunc(all, func(c candidate) bool { return !c.Layout.HasSwitches() })]
	return fmt.Sprintf("%s decide as on the host more often with its switches, and no path that "+
		"NCCL uses crosses an uplink of 2.5 GT/s", gaining(mirror.tallies, without.tallies))
}

// gaining lists the consumers that decide as on the host more often in one tree than in another.
func gaining(in, other []consumers.Tally) string {
	var names []string
	for i, t := range in {
		if t.Right > other[i].Right {
			names = append(names, t.Consumer)
		}
	}

	return words.And(names)
}

// whyNoSwitches returns why a tree has no switches, with the key that would bring them, and why it
// is not the finest of those without.
func (j judge) whyNoSwitches(best candidate, all []candidate, isHosts bool) string {
	var causes []string
	for _, finer := range all {
		if finer.Layout == best.Layout {
			break
		}

		if finer.Layout == policy.LayoutRoot && finer.worse > best.worse {
			causes = append(causes, worseIn(finer, j.withoutHook))
		}
	}

	if all[0].usesSwitches {
		causes = append(causes, j.slowSwitches(isHosts))
	}

	if len(causes) == 0 {
		return asNear(best)
	}
	return strings.Join(causes, ", and ")
}

// worseIn says which consumer decides more wrongly in a tree than without the hook.
func worseIn(c candidate, withoutHook []consumers.Tally) string {
	for i, t := range c.tallies {
		if more := t.Wrong - withoutHook[i].Wrong; more > 0 {
			return fmt.Sprintf("with %s %s would decide otherwise than on the host for %s more than "+
				"without the hook", c.Layout, t.Consumer, words.Counted(more, t.Unit))
		}
	}

	return ""
}

// slowSwitches returns why a tree has no switches, and the key that would bring them.
func (j judge) slowSwitches(isHosts bool) string {
	key := string(policy.KeyPortSpeed) + "=host"
	if j.Policy.PortSpeed == "host" { // which the domain refuses
		key = string(policy.KeyNCCLTopology)
	}

	if isHosts {
		return fmt.Sprintf("GPUs, accelerators or NICs are under switches whose ports would "+
			"advertise 2.5 GT/s; set %s for mirror", key)
	}

	return fmt.Sprintf("devices of one place on the host, such as vGPUs of one GPU, would be "+
		"under a switch of the guest, whose ports advertise 2.5 GT/s; set %s for mirror", key)
}

// hasFalseLinkSpeed reports whether NCCL or RCCL would take the link speed that QEMU's
// switch ports advertise for that of a device which it pairs with others: two GPUs,
// accelerators or NICs are passed through, and one of them is under a switch of the guest.
func hasFalseLinkSpeed(devices []Decision, guest *topology.Tree) bool {
	isGPUOrNIC := func(d Decision) bool { return d.Function.IsGPUOrNIC() }
	return topology.CountFunc(devices, isGPUOrNIC) > 1 && anyPairedUnderSwitch(devices, guest)
}

// anyPairedUnderSwitch reports whether a device that NCCL pairs is under a switch in each tree.
func anyPairedUnderSwitch(devices []Decision, trees ...*topology.Tree) bool {
	return slices.ContainsFunc(devices, func(d Decision) bool {
		isOutside := func(t *topology.Tree) bool {
			n := t.Node(d.ID)
			return n == nil || !n.IsUnderSwitch()
		}
		return d.Function.IsGPUOrNIC() && !slices.ContainsFunc(trees, isOutside)
	})
}
