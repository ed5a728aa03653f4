package topology

// Tree is the part of the host's PCI Express tree that leads to devices. Each
// device has its NUMA node. One whose place the host does not show is at the
// top, without a root.
func (h *Host) Tree(ids []DeviceID) *Tree {
	t := NewTree(len(ids), 2*len(ids))
	for _, id := range ids {
		t.addDevice(h, id)
	}
	return t
}

func (t *Tree) addDevice(h *Host, id DeviceID) {
	device := Node{Kind: Endpoint, ID: id, Slot: NoSlot}
	if node, known := h.Affinity(id).Node(); known {
		device.NUMA = new(int(node))
	}
	f := h.Function(id)
	if f == nil || f.Root == "" {
		t.Add(nil, device)
		return
	}
	at := t.Add(nil, Node{Kind: Root, ID: f.Root})
	for i, bridge := range f.Bridges {
		at = t.Add(at, Node{Kind: bridgeKind(i, len(f.Bridges)), ID: bridge, Slot: hostSlot(bridge), Function: int(bridge.Function)})
		if at.Kind == Bridge && i+1 < len(f.Bridges) {
			at.Kind = UpstreamPort // another device is directly under it
		}
	}
	slot, function := hostSlot(f.Address), int(f.Address.Function)
	if _, isMDEV := id.MDEV(); isMDEV {
		at = t.Add(at, Node{Kind: MDEVParent, ID: f.Address, Slot: slot, Function: function})
	} else {
		device.Slot, device.Function = slot, function
	}
	t.Add(at, device)
}

// hostSlot is the Slot of a function of the host: its address but for the
// function. Virtual functions may be on another bus number than the port above
// them leads to.
func hostSlot(a Address) int { return int(a.Domain)<<13 | int(a.Bus)<<5 | int(a.Device) }

// bridgeKind is the kind of bridge i of the n bridges above a device, the root
// port first. Under the root port a switch is a pair, its upstream and its
// downstream port (PCI Express 5.0, 1.3.3). Sysfs does not say which is which.
func bridgeKind(i, n int) NodeKind {
	switch {
	case i == 0:
		return RootPort
	case i%2 == 0:
		return DownstreamPort
	case i+1 < n:
		return UpstreamPort
	}
	return Bridge
}
