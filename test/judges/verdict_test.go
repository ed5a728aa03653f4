//go:build lane

package judges_test

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/consumers"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/judges"
)

// What the table has beside the consumers' names: UCX with the advised value, and DRA's list form.
const (
	curedUCX = "UCX, cured"
	nodeList = "numaNode, list"
)

// columns are the consumers of the table: those that were asked, then those that only the models
// answer for here.
var columns = []string{
	consumers.UCX, curedUCX, consumers.HWLoc, consumers.DRARoot, consumers.DRANode, nodeList,
	consumers.P2PDMA, consumers.NCCL, consumers.AtomicOps,
}

func header() string {
	return "| guest | " + strings.Join(columns, " | ") + " |\n" +
		strings.Repeat("|---", len(columns)+1) + "|"
}

// row returns a machine's row of the table: right, open and wrong decisions beside the host's.
// Those by the programs' answers have to be the models', and the advised value cures UCX's.
func (m *machine) row(t *testing.T, host *machine) string {
	t.Helper()
	says, models := m.verdicts(host), modelVerdicts(host.seen, m.seen)
	m.verdict = map[string]verdicts{}
	cells := []string{m.title}
	for _, column := range columns {
		answers, isAsked := says[column]
		model, isModelled := models[column]
		isOdd := column == consumers.HWLoc && host.isMixed
		if isAsked && isModelled && !isOdd {
			expect.Same(t, answers, model, "%s, %s: verdicts (-its code +the model)", m.title,
				column)
		}
		if !isAsked {
			answers = model
		}
		m.verdict[column] = answers
		cells = append(cells, answers.String())
	}

	for gpu, verdict := range says[curedUCX] {
		if m.isOurs && verdict == consumers.Wrong {
			t.Errorf("%s: with %s UCX takes another NIC for %s", m.title, cured, gpu)
		}
	}

	return "| " + strings.Join(cells, " | ") + " |"
}

// verdicts are those on the decisions of a consumer, by what these are about.
type verdicts map[string]consumers.Verdict

// String counts those that are right, open and wrong.
func (v verdicts) String() string {
	var t consumers.Tally
	for _, verdict := range v {
		t.Count(verdict)
	}

	return fmt.Sprintf("%d/%d/%d", t.Right, t.Open, t.Wrong)
}

// modelVerdicts returns the models' verdicts by consumer.
func modelVerdicts(host, guest consumers.Machine) map[string]verdicts {
	all := map[string]verdicts{}
	for _, c := range consumers.All {
		all[c.Name] = verdicts{}
	}

	consumers.Judge(host, guest, func(consumer int, d consumers.Decision) {
		about := []string{d.GPU.String()}
		if d.Other != nil {
			about = append(about, d.Other.String())
		}
		all[consumers.All[consumer].Name][strings.Join(about, " ")] = d.Verdict
	})

	return all
}

// verdicts returns those on what the programs answered.
func (m *machine) verdicts(host *machine) map[string]verdicts {
	all := map[string]verdicts{consumers.UCX: {}, curedUCX: {}, consumers.HWLoc: {},
		consumers.DRARoot: {}, consumers.DRANode: {}, nodeList: {}}
	for _, gpu := range m.asked.GPUs {
		if len(m.asked.NICs) > 0 {
			all[consumers.UCX][gpu] = m.compare(host, gpu, (*machine).bandwidth)
			all[curedUCX][gpu] = m.compare(host, gpu, (*machine).curedBandwidth)
		}
		all[consumers.HWLoc][gpu] = m.byHwloc(host, gpu)
	}

	for x, y := range host.pairs() {
		on, in := draPair{host.dra[x], host.dra[y]}, draPair{m.dra[x], m.dra[y]}
		if in[0].Root == "" || in[1].Root == "" {
			continue // the guest lacks it
		}

		all[consumers.DRARoot][x+" "+y] = byRoot(on, in)
		all[consumers.DRANode][x+" "+y] = m.byNode(on, in)
		all[nodeList][x+" "+y] = rightIf(on.shareNode() == in.shareNode())
	}

	return all
}

func (m *machine) bandwidth(p judges.Pair) float64 {
	switch {
	case m.seen.CPU.IsAMD():
		return m.ucx[onAMD][p]
	case m.seen.CPU.IsGrace:
		return m.ucx[onGrace][p]
	}

	return m.ucx[byDefault][p]
}

func (m *machine) curedBandwidth(p judges.Pair) float64 { return m.ucx[cured][p] }

func (m *machine) depth(p judges.Pair) float64 { return float64(m.hwloc.Depth(p)) }

// compare compares the NICs with the highest score for a GPU with those of the host.
func (m *machine) compare(
	host *machine, gpu string, score func(*machine, judges.Pair) float64,
) consumers.Verdict {
	wanted, taken := host.best(gpu, score), m.best(gpu, score)
	hits := topology.CountFunc(taken, func(nic string) bool { return slices.Contains(wanted, nic) })
	switch hits {
	case len(taken):
		return consumers.Right
	case 0:
		return consumers.Wrong
	}

	return consumers.Open
}

// best returns the NICs with the highest score for a GPU.
func (m *machine) best(gpu string, score func(*machine, judges.Pair) float64) (best []string) {
	highest := 0.0
	for _, nic := range m.asked.NICs {
		switch n := score(m, judges.Pair{GPU: gpu, NIC: nic}); {
		case len(best) == 0 || n > highest:
			highest, best = n, []string{nic}
		case n == highest:
			best = append(best, nic)
		}
	}

	return best
}

// byHwloc returns the verdict on the nearest NICs and on the CPUs of a GPU.
func (m *machine) byHwloc(host *machine, gpu string) consumers.Verdict {
	verdict := m.compare(host, gpu, (*machine).depth)
	isLost := host.hwloc.IsLocal(gpu) && !m.hwloc.IsLocal(gpu)
	if m.cells > 1 && isLost {
		verdict = max(verdict, consumers.Open)
	}

	return verdict
}

// pairs yields each GPU with each NIC, and with each GPU before it, in the order of addresses.
func (m *machine) pairs() iter.Seq2[string, string] {
	gpus := slices.SortedFunc(slices.Values(m.asked.GPUs), func(x, y string) int {
		return cmp.Compare(m.asked.At[x], m.asked.At[y])
	})

	return func(yield func(string, string) bool) {
		for i, gpu := range gpus {
			for _, other := range slices.Concat(m.asked.NICs, gpus[:i]) {
				if !yield(gpu, other) {
					return
				}
			}
		}
	}
}

// draPair is what DRA publishes of two devices.
type draPair [2]judges.DRA

// shareRoot reports whether a claim with matchAttribute pcieRoot takes both, shareNode with
// numaNode in its list form: one value is enough there.
func (p draPair) shareRoot() bool { return p[0].Root == p[1].Root }

func (p draPair) shareNode() bool {
	return slices.ContainsFunc(p[0].Nodes, func(node int64) bool {
		return slices.Contains(p[1].Nodes, node)
	})
}

// byRoot returns the verdict on a claim by pcieRoot. Guest cells may part the pair.
func byRoot(host, guest draPair) consumers.Verdict {
	wanted, claimed := host.shareRoot(), guest.shareRoot()
	isByCells := guest[0].Node != guest[1].Node
	return rightIf(claimed == wanted || wanted && isByCells)
}

// byNode returns the verdict on a claim by numaNode, which is refused where a device publishes
// none.
func (m *machine) byNode(on, in draPair) consumers.Verdict {
	isTogether := on[0].Node != "" && on[0].Node == on[1].Node
	isKnown := in[0].Node != "" && in[1].Node != ""
	return rightIf(isKnown || !isTogether || m.cells == 0)
}

func rightIf(isRight bool) consumers.Verdict {
	if isRight {
		return consumers.Right
	}
	return consumers.Wrong
}
