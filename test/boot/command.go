package boot

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"hook-sidecar/test/oracle"
	"hook-sidecar/test/tree"
)

// cellMemory is the usual memory in MiB of each NUMA cell: enough for firmware,
// kernel and the bridges' tables, little enough to boot fast.
const cellMemory = 256

// arguments returns QEMU's arguments for a domain that libvirt has read back, without firmware,
// CPU and kernel.
func arguments(
	lib *oracle.Libvirt, readback []byte, instead standIn, cellMemory int,
) ([]string, error) {
	root, err := tree.Parse(readback)
	if err != nil {
		return nil, err
	}

	nics := slim(root, cellMemory)
	given, err := lib.QEMUArguments(root.Bytes())
	if err != nil {
		return nil, err
	}

	args := []string{"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"}
	for i := 0; i < len(given); i++ {
		switch option := given[i]; option {
		case "-machine":
			i++
			args = append(args, option, flash.ReplaceAllString(given[i], ""))

		case "-accel", "-m", "-smp", "-numa", "-global", "-audiodev":
			i++
			args = append(args, option, given[i])

		case "-object":
			i++
			// Monitors are objects since QEMU 11.
			if !strings.Contains(given[i], `"secret"`) && !strings.Contains(given[i], `"chardev"`) {
				args = append(args, option, given[i])
			}

		case "-device":
			i++
			if !strings.HasPrefix(given[i], "{") { // of qemu:commandline: libvirt's are JSON
				args = append(args, option, given[i])
				continue
			}

			device, err := replace(given[i], instead)
			if err != nil {
				return nil, err
			}
			args = append(args, device...)
		}
	}

	for i, nic := range nics {
		device, err := nicArguments(i, nic)
		if err != nil {
			return nil, err
		}
		args = append(args, device...)
	}

	return args, nil
}

// flash names files of a UEFI, which a domain of aarch64 has to have.
var flash = regexp.MustCompile(`,pflash[01]=[^,]*`)

// slim removes from a domain what needs a large host or does not decide where
// devices sit, and gives each cell that many MiB. It removes the NICs too, and
// returns them.
func slim(root *tree.Node, cellMemory int) (nics []*tree.Node) {
	root.Remove(func(n *tree.Node) bool {
		switch n.Name {
		case "memoryBacking", "numatune", "cputune", "sysinfo", "maxMemory", "currentMemory",
			"launchSecurity", "iommufd":
			return true
		}
		return false
	})

	root.Find("os").Remove(func(n *tree.Node) bool {
		loader := n.Name == "loader" || n.Name == "nvram"
		return loader && root.Find("os", "type").Attr("arch") != "aarch64" || n.Name == "smbios" ||
			n.Name == "firmware"
	})

	count := 2
	cpu := &tree.Node{Name: "cpu"}
	if cells := root.Find("cpu", "numa").All("cell"); len(cells) > 0 {
		count = 0
		numa := cpu.Add("numa")
		for i, cell := range cells {
			if cell.Attr("memory") == "0" { // a GPU's, on Grace
				numa.Nodes = append(numa.Nodes, cell)
				continue
			}

			small := numa.Add("cell", "id", fmt.Sprint(i), "cpus", fmt.Sprint(count), "memory",
				fmt.Sprint(cellMemory), "unit", "MiB")
			small.Nodes = cell.All("distances")
			count++
		}
	}

	root.Remove(func(n *tree.Node) bool {
		return n.Name == "cpu" || n.Name == "memory" || n.Name == "vcpu" || n.Name == "vcpus"
	})

	root.Nodes = append(root.Nodes, cpu)
	root.Add("memory", "unit", "MiB").Text = fmt.Sprint(count * cellMemory)
	root.Add("vcpu").Text = fmt.Sprint(count)
	devices := root.Find("devices")
	nics = devices.All("interface")
	devices.Remove(func(n *tree.Node) bool { return n.Name == "interface" })

	for _, h := range devices.All("hostdev") {
		if h.Attr("type") == "pci" && h.Find("driver") == nil {
			h.Add("driver", "name", "vfio")
		}
	}

	return nics
}

// nicArguments returns a NIC as libvirt would make it (src/qemu/qemu_command.c): on the bus that
// is named after its controller. It is JSON as libvirt's devices are: QEMU makes all others before
// those, and before their bus.
func nicArguments(i int, nic *tree.Node) ([]string, error) {
	at := nic.Find("address")
	bus := "pcie.0"
	if index := tree.Number(at.Attr("bus")); index != 0 {
		bus = fmt.Sprintf("pci.%d", index)
	}

	model := nic.Find("model").Attr("type")
	if suffix, ok := strings.CutPrefix(model, "virtio"); ok {
		model = "virtio-net-pci" + suffix
	}

	device, err := json.Marshal(map[string]any{
		"driver": model, "netdev": fmt.Sprint("net", i), "mac": nic.Find("mac").Attr("address"),
		"romfile": "",
		"bus":     bus,
		"addr": fmt.Sprintf("0x%x.0x%x", tree.Number(at.Attr("slot")),
			tree.Number(at.Attr("function"))),
	})

	return []string{
		"-netdev", fmt.Sprintf("hubport,hubid=%d,id=net%d", i, i), "-device", string(device),
	}, err
}
