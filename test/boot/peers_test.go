package boot

import (
	"fmt"
	"os"
	"testing"

	"hook-sidecar/pkg/consumers"
	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/oracle"
)

// PeersVariable names the environment variable with the directory into which get-newest has
// unpacked Debian testing's linux-image-amd64: its cloud kernel, and kernels 6.1 and 6.12, have no
// CONFIG_PCI_P2PDMA.
const PeersVariable = "BOOT_PEERS"

// TestPeers: Linux allows peer-to-peer DMA between two devices of a guest where the model of it
// does (pkg/consumers): in a guest with an Intel CPU under one switch only, with one of AMD
// everywhere. NVMe controllers stand for GPUs and NICs, and nvmet asks. Two devices are under a
// switch of the host, and one is on another PCIe root: on one expander bus with numa, on two with
// root.
func TestPeers(t *testing.T) {
	t.Parallel()
	for _, cpu := range []string{"Skylake-Server", "EPYC"} {
		s := amd64()
		s.cpu = cpu
		s.modules = append(s.modules, "nvme", "nvmet")
		s.parameters = []string{"no_timer_check"} // see Steady
		t.Run(cpu, func(t *testing.T) {
			b := newBench(t, s, PeersVariable, "root")
			for _, guest := range []struct{ layout, speed string }{
				{"keep", "default"}, {"numa", "default"}, {"root", "default"},
				{"mirror", "default"}, {"mirror", "host"},
			} {
				t.Run(guest.layout+"-"+guest.speed, func(t *testing.T) {
					if guest.speed == "host" && os.Getenv(oracle.RootVariable) == "" {
						t.Skipf("%s is not set: QEMU 7.2 has no such ports", oracle.RootVariable)
					}

					t.Parallel()
					allowed := b.peers(t, guest.layout, guest.speed)
					want := "[false false false]"
					switch {
					case cpu == "EPYC":
						want = "[true true true]"
					case guest.layout == "mirror":
						want = "[true false false]"
					}

					if got := fmt.Sprint(allowed); got != want {
						t.Errorf("allowed %s, want %s", got, want)
					}
				})
			}
		})
	}
}

// peerHost has two devices under a switch, and one on another PCIe root of their node.
func peerHost() *machine {
	m := &machine{instead: peer()}
	under := []string{"pci0000:10", "0000:10:01.0", "0000:11:00.0"}
	m.add(0, append(under[:3:3], "0000:12:00.0", "0000:13:00.0")...)
	m.add(0, append(under[:3:3], "0000:12:01.0", "0000:14:00.0")...)
	m.add(0, "pci0000:20", "0000:20:01.0", "0000:21:00.0")
	for i := range m.host {
		m.host[i] += " maxlink=32.0x16"
	}

	return m
}

// peers boots the guest of a layout and returns which of its devices, two by two, may reach the
// memory of each other.
func (b *bench) peers(t *testing.T, layout, speed string) (allowed []bool) {
	t.Helper()
	m := peerHost()
	args, err := arguments(b.libvirt, b.placed(t, m, layout, speed), m.instead, cellMemory)
	expect.NoError(t, err)
	guest, err := b.lab.Boot(t.Context(), args, SeaBIOS)
	expect.NoError(t, err)

	at := map[string]string{}
	for _, d := range guest.Devices {
		at[d.Label] = d.Address()
	}

	files, err := host.ParseSnapshot(guest.Snapshot)
	expect.NoError(t, err)
	seen, _ := host.Read(files, nil, host.All)
	nodes := nodesAt(t, seen, topology.Map(m.hostdevs, func(id string) string { return at[id] }))
	t.Logf("CPU %+v, devices at %v", seen.CPU, at)

	for j, y := range m.hostdevs {
		for i, x := range m.hostdevs[:j] {
			model := consumers.AllowsPeers(seen.CPU, nodes[i], nodes[j])
			for _, pair := range [][2]string{{at[x], at[y]}, {at[y], at[x]}} {
				answer, isAsked := guest.Peers[pair]
				if !isAsked || answer != model {
					t.Errorf("%v: asked %t, Linux allows %t, the model %t", pair, isAsked,
						answer, model)
				}
			}
			allowed = append(allowed, guest.Peers[[2]string{at[x], at[y]}])
		}
	}

	return allowed
}

// placed returns the domain of a layout as libvirt completes it.
func (b *bench) placed(t *testing.T, m *machine, layout, speed string) []byte {
	t.Helper()
	if layout == "keep" {
		domain, err := b.libvirt.Readback(m.domain())
		expect.NoError(t, err)
		return domain
	}

	domain, _ := b.place(t, m, append(m.flags(t, layout), "--port-speed", speed))
	return domain
}

// nodesAt returns the devices at addresses in the tree of the guest.
func nodesAt(t *testing.T, seen *topology.Host, addresses []string) []*topology.Node {
	t.Helper()
	ids := topology.Map(addresses, func(address string) topology.DeviceID {
		a, err := topology.ParseAddress(address)
		expect.NoError(t, err)
		return topology.PCIDevice(a)
	})

	return seen.Tree(ids).Devices(ids)
}
