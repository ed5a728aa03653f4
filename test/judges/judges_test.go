//go:build lane

package judges_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"hook-sidecar/pkg/consumers"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/judges"
	"hook-sidecar/test/oracle"
	"hook-sidecar/test/sys"
)

// seedVariable names the environment variable with the seed of random hosts and registers; a
// new one is taken, and printed, without it.
const seedVariable = "SEED"

// The values of UCX_DISTANCE_BW that are asked for: UCX's default, its own ucx.conf's for AMD's
// CPUs and for Grace (config/ucx.conf of openucx/ucx, sections AMD and Grace Hopper), and the one that
// docs/reasons.md advises.
const (
	byDefault = "auto"
	onAMD     = "auto,sys:5100MBs"
	onGrace   = "auto,sys:16500MBs"
	cured     = "auto,phb:48GBs"
)

// TestModels: of each VM's host and guests the models of consumers say what the programs say: the
// MB/s that UCX assumes of each GPU and NIC, which NICs hwloc has nearest and which CPUs, and what
// DRA publishes of each device. With the value that is advised for UCX no GPU of a guest that the
// hook planned takes another NIC than on the host. The layout auto keeps its promise
// (promise_test.go).
func TestModels(t *testing.T) {
	l := lab{judges.New(t), oracle.New(t)}
	for _, vm := range judges.VMs(t, seedOf(t), 20) {
		t.Run(vm.Title, func(t *testing.T) {
			t.Parallel()
			l.judge(t, vm)
		})
	}
}

// seedOf returns a seed, which it logs.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().Unix())
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		expect.NoError(t, err)
	}

	t.Logf("%s=%d", seedVariable, seed)
	return seed
}

// lab asks the programs.
type lab struct {
	programs judges.Programs
	libvirt  *oracle.Libvirt
}

// machine is a host or a guest, with what the models see and what the programs say.
type machine struct {
	title string
	asked judges.Asked
	seen  consumers.Machine
	nodes map[string]*topology.Node // by name

	guest   judges.Guest // none for a host
	cells   int          // of a guest
	isOurs  bool         // the hook planned it, for a known host
	isMixed bool         // a PCIe root of the host has functions of several nodes

	verdict map[string]verdicts // by consumer, as the table has them

	ucx   map[string]map[judges.Pair]float64 // MB/s by the value of UCX_DISTANCE_BW
	hwloc judges.Hwloc
	dra   map[string]judges.DRA
}

// judge compares models and programs on the host and in each guest of a VM, and logs the table.
func (l lab) judge(t *testing.T, vm judges.VM) {
	t.Helper()
	all := l.machines(t, vm)
	l.ask(t, all)
	host, lines := all[0], []string{header()}
	for _, m := range all {
		m.checkUCX(t)
		m.checkHwloc(t)
		m.checkDRA(t)
		lines = append(lines, m.row(t, host))
	}

	checkPromise(t, host, all[1:])
	t.Logf("%s\n%s", vm, strings.Join(lines, "\n"))
}

// machines writes the /sys of the host, which is the first, and of the guests.
func (l lab) machines(t *testing.T, vm judges.VM) []*machine {
	t.Helper()
	recorded, err := sys.Recorded(vm.Sysfs)
	expect.NoError(t, err)
	if len(recorded.GPUs(vm.Devices)) == 0 {
		t.Skip("no GPU that is a PCI function")
	}

	dir := expect.MemoryDir(t)
	host := l.write(t, dir, "host", vm, recorded)
	host.isMixed = recorded.IsMixed()

	all := []*machine{host}
	for _, g := range judges.Guests() {
		complete, err := l.libvirt.Readback(g.Domain(t, vm))
		if err != nil && g.Core != "" { // KubeVirt may put more on a bus than it has slots
			t.Logf("%s: %v", g.Title(), err)
			continue
		}
		expect.NoError(t, err)
		guest, err := sys.Guest(vm.Sysfs, complete)
		expect.NoError(t, err)
		m := l.write(t, dir, g.Title(), vm, guest)
		m.guest, m.isOurs = g, g.Flags != nil && vm.File != ""
		if g.HasCells {
			m.cells = len(vm.NUMA)
		}

		all = append(all, m)
	}

	return all
}

// write writes a machine's /sys.
func (l lab) write(t *testing.T, dir, title string, vm judges.VM, m sys.Machine) *machine {
	t.Helper()
	at := filepath.Join(dir, strings.ReplaceAll(title, " ", ""), "sys")
	expect.NoError(t, m.Write(at))
	seen, err := m.Seen(os.DirFS(at), vm.Devices)
	expect.NoError(t, err)
	seen.CPU = vm.Host

	nodes := map[string]*topology.Node{}
	for _, gpu := range seen.GPUs {
		nodes[gpu.Node.ID.String()] = gpu.Node
	}
	for _, nic := range seen.NICs {
		nodes[nic.ID.String()] = nic
	}

	return &machine{title: title, seen: seen, nodes: nodes, asked: judges.Asked{
		Dir: at, GPUs: m.GPUs(vm.Devices), NICs: m.NICs(vm.Devices), At: m.Devices}}
}

// ask asks the programs about machines.
func (l lab) ask(t *testing.T, all []*machine) {
	t.Helper()
	asked := topology.Map(all, func(m *machine) judges.Asked { return m.asked })
	bandwidths := l.programs.UCX(t, []string{byDefault, onAMD, onGrace, cured}, asked)
	for i, m := range all {
		m.ucx = bandwidths[i]
		m.hwloc = l.programs.Hwloc(t, m.asked)
		m.dra = judges.AskDRA(t, m.asked)
	}
}

// unlimited is what the model has for UCX's bandwidth without a limit.
const unlimited = 1 << 20

// checkUCX: the bandwidth of each pair is the model's, for Intel's CPUs UCX's default, and for AMD's
// and Grace that of its ucx.conf.
func (m *machine) checkUCX(t *testing.T) {
	t.Helper()
	for value, cpu := range map[string]topology.CPU{
		byDefault: {}, onAMD: {Vendor: topology.CPUVendorAMD}, onGrace: {IsGrace: true},
	} {
		seen := m.seen
		seen.CPU = cpu
		for pair, says := range m.ucx[value] {
			model := consumers.UCXBandwidth(seen, m.nodes[pair.GPU], m.nodes[pair.NIC])
			if rounded := math.Floor(min(says, unlimited)); int(rounded) != model {
				t.Errorf("%s: UCX assumes %g MB/s between %s and %s, the model %d", m.title, says,
					m.asked.At[pair.GPU], m.asked.At[pair.NIC], model)
			}
		}
	}
}

// checkHwloc: of two NICs the same one is nearer a GPU as in the model. The model has no sockets:
// of two NICs on other nodes than the GPU's it has none nearer. To hwloc a PCIe root is on the node
// of the first function under it.
func (m *machine) checkHwloc(t *testing.T) {
	t.Helper()
	if m.isMixed {
		return
	}

	for _, gpu := range m.asked.GPUs {
		for i, x := range m.asked.NICs {
			for _, y := range m.asked.NICs[:i] {
				modelX, modelY := m.modelDepth(gpu, x), m.modelDepth(gpu, y)
				says := m.hwloc.Depth(judges.Pair{GPU: gpu, NIC: x}) -
					m.hwloc.Depth(judges.Pair{GPU: gpu, NIC: y})
				if max(modelX, modelY) > 0 && sign(modelX-modelY) != sign(says) {
					t.Errorf("%s: %s is %d deeper with %s than with %s by hwloc, %d by the model",
						m.title, m.asked.At[gpu], says, m.asked.At[x], m.asked.At[y], modelX-modelY)
				}
			}
		}
	}
}

func (m *machine) modelDepth(gpu, nic string) int {
	return consumers.HwlocDepth(m.seen, m.nodes[gpu], m.nodes[nic])
}

func sign(n int) int { return max(-1, min(n, 1)) }

// checkDRA: root and node of each device are those of the tree, and the list of nodes begins with
// it.
func (m *machine) checkDRA(t *testing.T) {
	t.Helper()
	for name, says := range m.dra {
		model := judges.DRA{Root: m.nodes[name].Top().ID.String()}
		if node := m.nodes[name].NUMANode(); node != nil {
			model.Node = fmt.Sprint(*node)
		}

		isFirst := says.Node == "" && says.Nodes == nil ||
			says.Nodes != nil && fmt.Sprint(says.Nodes[0]) == says.Node
		if says.Root != model.Root || says.Node != model.Node || !isFirst {
			t.Errorf("%s: DRA publishes %+v of %s, the model %+v", m.title, says,
				m.asked.At[name], model)
		}
	}
}
