package verdict_test

import (
	"fmt"
	"strings"
	"testing"

	"hook-sidecar/pkg/paste"
	"hook-sidecar/pkg/verdict"
	"hook-sidecar/test/expect"
)

// most is the most devices that a text may have.
const most = 1024

// slot returns the address of device i, without a PCI domain.
func slot(i int) string { return fmt.Sprintf("%02x:%02x.0", i/32, i%32) }

// isNIC reports whether device i of n is a NIC. The first half are GPUs.
func isNIC(i, n int) bool { return i >= n/2 }

// either returns one of two words for device i of n.
func either(i, n int, gpu, nic string) string {
	if isNIC(i, n) {
		return nic
	}
	return gpu
}

// lines writes a head and a line per device.
func lines(n int, head string, line func(i int) string) string {
	var b strings.Builder
	b.WriteString(head)
	for i := range n {
		b.WriteString(line(i))
	}

	return b.String()
}

// matrixOf writes the table of nvidia-smi topo -m.
func matrixOf(n int, cell func(i, j int) string) string {
	name := func(i int) string { return fmt.Sprintf("%s%d", either(i, n, "GPU", "NIC"), i%(n/2)) }
	head := lines(n, "", func(i int) string { return "\t" + name(i) }) + "\n"
	return lines(n, head, func(i int) string {
		return name(i) + lines(n, "", func(j int) string {
			if i == j {
				return "\tX"
			}
			return "\t" + cell(i, j)
		}) + "\n"
	})
}

// many writes n devices, half of them NICs, in each format.
var many = map[string]func(n int) string{
	"nvidia-smi topo": func(n int) string {
		return matrixOf(n, func(int, int) string { return "PHB" })
	},
	"nvidia-smi topo, NVLink": func(n int) string {
		return matrixOf(n, func(i, j int) string {
			return either(max(i, j), n, "NV18", "SYS")
		})
	},
	"lspci -Dvmm": func(n int) string {
		return lines(n, "", func(i int) string {
			return fmt.Sprintf("Slot:\t%s\nClass:\t%s\nNUMANode:\t0\n\n", slot(i),
				either(i, n, "0302", "0207"))
		})
	},
	"lspci -vv": func(n int) string {
		return lines(n, "", func(i int) string {
			return slot(i) + either(i, n, " 3D controller [0302]: NVIDIA [10de:2330]",
				" Infiniband controller [0207]: Mellanox [15b3:1021]") +
				"\n\tControl: I/O-\n\tNUMA node: 0\n"
		})
	},
	"lspci -tv": func(n int) string {
		return lines(n, "", func(i int) string {
			return fmt.Sprintf(" +-[0000:%02x]---%02x.0  %s\n", i/32, i%32,
				either(i, n, "NVIDIA Corporation GH100", "Mellanox Technologies MT2910"))
		})
	},
	"lstopo": func(n int) string {
		return lines(n, `<topology><object type="NUMANode" os_index="0" nodeset="0x1"/>`,
			func(i int) string {
				return fmt.Sprintf(`<object type="PCIDev" pci_busid="0000:%s" pci_type="%s"/>`, slot(i),
					either(i, n, "0302 [10de:2330]", "0207 [15b3:1021]"))
			}) + "</topology>"
	},
	"lstopo's text": func(n int) string {
		return lines(n, "NUMANode L#0 (P#0)\nHostBridge L#0\n", func(i int) string {
			return "  PCI " + slot(i) + either(i, n, " (3D)\n", " (InfiniBand)\n")
		})
	},
	"NCCL's file": func(n int) string {
		return lines(n, `<system version="1"><cpu numaid="0">`, func(i int) string {
			return fmt.Sprintf(`<pci busid="0000:%s" class="0x%s00"/>`, slot(i),
				either(i, n, "0302", "0207"))
		}) + "</cpu></system>"
	},
	"NCCL's log": func(n int) string {
		head := "h:1:2 [0] NCCL INFO === System : maxBw 1.0 ===\nh:1:2 [0] NCCL INFO CPU/0-0 (1/1/2)\n"
		return lines(n, head, func(i int) string {
			return fmt.Sprintf("h:1:2 [0] NCCL INFO + PCI[24.0] - %s/0-%x\n",
				either(i, n, "GPU", "NIC"), i/32<<12|i%32<<4)
		})
	},
	"NCCL's log, paths": func(n int) string {
		node := func(i int) string {
			return fmt.Sprintf("%s/0-%x", either(i, n, "GPU", "NET"),
				map[bool]int{true: i - n/2, false: i/32<<12 | i%32<<4}[isNIC(i, n)])
		}
		row := lines(n, "", func(i int) string { return node(i) + " (2/12.0/PHB) " })
		return lines(n/2, "", func(i int) string {
			return "h:1:2 [0] NCCL INFO " + node(i) + " :" + row + "\n"
		})
	},
	"snapshot": func(n int) string {
		return lines(n, "", func(i int) string {
			dir := "devices/pci0000:00/0000:" + slot(i)
			return "-- bus/pci/devices/0000:" + slot(i) + " -> ../../../" + dir + " --\n"
		}) + lines(n, "", func(i int) string {
			dir := "-- devices/pci0000:00/0000:" + slot(i)
			return dir + "/class --\n0x" + either(i, n, "0302", "0207") + "00\n" +
				dir + "/numa_node --\n0\n" +
				dir + "/vendor --\n" + either(i, n, "0x10de", "0x15b3") + "\n"
		})
	},
	"nvidia-smi -q, mst status": func(n int) string {
		return lines(n, "", func(i int) string {
			return either(i, n, "GPU 00000000:"+slot(i)+"\n",
				fmt.Sprintf("ConnectX7(rev:0) /dev/mst/mt%d %s mlx5_%d net-ib%[1]d 0\n", i, slot(i), i))
		})
	},
	"amd-smi, ibdev2netdev": func(n int) string {
		return lines(n, "", func(i int) string {
			return either(i, n, "GPU: 0\n    BDF: 0000:"+slot(i)+"\n",
				fmt.Sprintf("0000:%s mlx5_%d (MT4129) port 1 (ACTIVE) ==> ib%[2]d (Up)\n", slot(i), i))
		})
	},
	"rocm-smi, lspci": func(n int) string {
		return lines(n, "", func(i int) string {
			return either(i, n, fmt.Sprintf("GPU[%d]\t\t: PCI Bus: 0000:%s\n", i, slot(i)),
				slot(i)+" Infiniband controller [0207]: Mellanox [15b3:1021]\n")
		})
	},
}

// TestManyDevices: 256 devices are read in every format, and the most with WHOLE=1.
// BenchmarkManyDevices says how fast.
func TestManyDevices(t *testing.T) {
	count := expect.Count(most/4, most)
	for format, text := range many {
		m, _, err := paste.Read([]byte(text(count)))
		expect.NoError(t, err)
		v := verdict.New(m, nil)
		if len(v.GPUs) != count/2 || len(v.NICs) != count/2 {
			t.Errorf("%s: %d GPUs, %d NICs", format, len(v.GPUs), len(v.NICs))
		}
	}
}

// BenchmarkManyDevices reads and judges a quarter of the most devices, and the most. What a verdict
// counts is pairs, so the time per pair stays the same.
func BenchmarkManyDevices(b *testing.B) {
	for format, write := range many {
		for _, n := range []int{most / 4, most} {
			text := []byte(write(n))
			var m paste.Machine
			b.Run(fmt.Sprintf("read/%s/%d", format, n), func(b *testing.B) {
				for b.Loop() {
					var err error
					m, _, err = paste.Read(text)
					expect.NoError(b, err)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(text)), "ns/byte")
			})

			b.Run(fmt.Sprintf("judge/%s/%d", format, n), func(b *testing.B) {
				for b.Loop() {
					verdict.New(m, nil)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n*n), "ns/pair")
			})
		}
	}
}
