package verdict_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"hook-sidecar/pkg/paste"
	"hook-sidecar/pkg/verdict"
	"hook-sidecar/test/expect"
)

// TestManyDevices: 1,024 devices, half of them NICs, are read and judged in seconds also on a busy
// machine; -v prints how long each format takes.
func TestManyDevices(t *testing.T) {
	const gpus, nics = 512, 512
	var table, records, list, file, log strings.Builder
	for i := range gpus + nics {
		fmt.Fprintf(&table, "\t%s", name(i, gpus))
	}

	file.WriteString(`<system version="1"><cpu numaid="0">`)
	log.WriteString("h:1:2 [0] NCCL INFO === System : maxBw 1.0 ===\nh:1:2 [0] NCCL INFO CPU/0-0 (1/1/2)\n")

	for i := range gpus + nics {
		fmt.Fprintf(&table, "\n%s", name(i, gpus))
		for j := range gpus + nics {
			table.WriteString("\t" + map[bool]string{true: "X", false: "PHB"}[i == j])
		}

		class, kind, long := "0302", "GPU", "3D controller [0302]: NVIDIA [10de:2330]"
		if i >= gpus {
			class, kind, long = "0207", "NIC", "Infiniband controller [0207]: Mellanox [15b3:1021]"
		}

		slot := fmt.Sprintf("%02x:%02x.0", i/32, i%32)
		fmt.Fprintf(&records, "Slot:\t%s\nClass:\t%s\nNUMANode:\t0\n\n", slot, class)
		fmt.Fprintf(&list, "%s %s\n\tControl: I/O-\n\tNUMA node: 0\n", slot, long)
		fmt.Fprintf(&file, `<pci busid="0000:%s" class="0x%s00"/>`, slot, class)
		fmt.Fprintf(&log, "h:1:2 [0] NCCL INFO + PCI[24.0] - %s/0-%x\n", kind, i/32<<12|i%32<<4)
	}

	for format, text := range map[string]string{
		"nvidia-smi topo": table.String(), "lspci -vmm": records.String(),
		"lspci -vv":   list.String(),
		"NCCL's file": file.String() + "</cpu></system>", "NCCL's log": log.String(),
	} {
		start := time.Now()
		m, _, err := paste.Read([]byte(text))
		expect.NoError(t, err)
		read := time.Since(start)
		v := verdict.New(m, nil)
		t.Logf("%s: read in %v, judged in %v", format, read, time.Since(start)-read)
		if len(v.GPUs) != gpus || len(v.NICs) != nics || time.Since(start) > 10*time.Second {
			t.Errorf("%s: %d GPUs, %d NICs in %v", format, len(v.GPUs), len(v.NICs),
				time.Since(start))
		}
	}
}

// name returns the name of a device in nvidia-smi's table.
func name(i, gpus int) string {
	if i < gpus {
		return fmt.Sprintf("GPU%d", i)
	}
	return fmt.Sprintf("NIC%d", i-gpus)
}
