package verdict

import (
	"errors"
	"slices"

	"hook-sidecar/pkg/keys/nccl"
	"hook-sidecar/pkg/tools/paste"
	"hook-sidecar/pkg/topology"
)

// TopologyFile returns the file that shows NCCL in the guest the host's switches; without a host
// the guest's own, with the links that its devices tell and not those that QEMU's ports do.
func (v *Verdict) TopologyFile() (nccl.File, error) {
	own := pairings(append(slices.Clone(v.gpus), v.nics...))
	shown := &v.guest
	if v.host != nil {
		gpus, nics, isShown := v.pairs()
		if !isShown {
			return nccl.File{}, errors.New("which device of the host is which in the guest is not " +
				"shown; the administrator can write the file: " + writeFile)
		}

		own, shown = append(gpus, nics...), v.host
	}

	hosts := topology.Map(own, func(p pairing) topology.DeviceID { return idOf(p.host) })
	tree := shown.Tree(hosts)
	if !slices.ContainsFunc(tree.Devices(hosts), (*topology.Node).IsUnderSwitch) {
		return nccl.File{},
			errors.New("no switch is shown, so the file would tell NCCL nothing new")
	}

	if slices.ContainsFunc(own, func(p pairing) bool {
		return !paste.HasAddress(p.guest.Address)
	}) {
		return nccl.File{},
			errors.New("the guest's text has no addresses: paste lspci -Dvmmnn, too")
	}

	var functions []nccl.Function
	for _, p := range own {
		node := -1
		if n := nodeOf(&v.guest, p.guest); n != nil {
			node = *n
		}

		functions = append(functions, nccl.Function{
			Address: p.guest.Address, Node: node, Device: p.guest, Link: p.host.MaxLink,
			Switches: tree.Node(idOf(p.host)).Switches(),
		})
	}

	return nccl.Of(functions), nil
}

// pairings returns devices as their own counterparts.
func pairings(devices []*topology.Function) []pairing {
	return topology.Map(devices, func(d *topology.Function) pairing { return pairing{d, d} })
}
