package topology

// Tree is the part of the host's PCI Express tree that leads to devices. Each
// device has its NUMA node. One whose place the host does not show is at the
// top, without a root.
func (h *Host) Tree(ids []DeviceID) *Tree {
	t := NewTree()
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
		at = t.Add(at, Node{Kind: hostBridge(i, len(f.Bridges)), ID: bridge, Slot: hostSlot(bridge), Function: int(bridge.Function)})
		if at.Kind == Bridge && i+1 < len(f.Bridges) {
			at.Kind = UpstreamPort // another device is directly under it
		}
	}
	slot, function := hostSlot(f.Address), int(f.Address.Function)
	if _, isMDEV := id.MDEV(); isMDEV {
		at = t.Add(at, Node{Kind: Function, ID: f.Address, Slot: slot, Function: function})
	} else {
		device.Slot, device.Function = slot, function
	}
	t.Add(at, device)
}

// hostSlot is the Slot of a function of the host: its address but for the
// function. Virtual functions may be on another bus number than the port above
// them leads to.
func hostSlot(a Address) int { return int(a.Domain)<<13 | int(a.Bus)<<5 | int(a.Device) }
