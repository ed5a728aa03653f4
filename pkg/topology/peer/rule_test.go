package peer_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/topology/peer"
	"hook-sidecar/test/expect"
)

// TestJudge: the rule says about each pair what was seen or follows from a source. Each cause has a
// case.
func TestJudge(t *testing.T) {
	data, err := os.ReadFile("testdata/cases.txt")
	expect.NoError(t, err)
	untried := peer.Causes()
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}

		columns := strings.Split(line, ";")
		if len(columns) != 7 {
			t.Fatalf("%d columns, want 7: %s", len(columns), line)
		}

		for i, column := range columns {
			columns[i] = strings.TrimSpace(column)
		}

		a := peer.Judge(factsOf(t, columns))
		expect.Same(t, columns[6], fmt.Sprintf("%s %s", a.Cause.Readiness(), a.Cause),
			"%s (-want +got)", columns[0])
		untried = slices.DeleteFunc(untried, func(c peer.Cause) bool { return c == a.Cause })
	}

	expect.Same(t, []peer.Cause{}, untried, "causes without a case (-want +got)")
}

// factsOf returns the facts of a line of cases.txt.
func factsOf(t *testing.T, columns []string) peer.Facts {
	t.Helper()
	f := peer.Facts{
		Own: portsOf(t, columns[1]), Peers: portsOf(t, columns[2]), Shared: portsOf(t, columns[3]),
	}

	for fact := range strings.FieldsSeq(columns[4]) {
		switch fact {
		case "switch":
			f.OneSwitch = true
		case "ats":
			f.ATS = true
		case "group":
			f.SameGroup = true
		case "iommufd":
			f.Mapping = peer.MappingUnknown
		case "iommufd-old":
			f.Mapping = peer.NotMapped
		case "ht":
			f.AtHT = true
		case "no-ats-register":
			f.ATSUnreadable = true
		case "no-translation":
			f.NoTranslation = true
		default:
			f.Obstacle = peer.Cause(fact)
			if !slices.Contains(peer.Causes(), f.Obstacle) {
				t.Fatalf("unknown fact %q", fact)
			}
		}
	}

	roots := map[string]peer.RootComplex{
		"listed": peer.RootListed, "unlisted": peer.RootUnlisted, "unknown": peer.RootUnknown,
	}

	root, isRoot := roots[columns[5]]
	if !isRoot {
		t.Fatalf("unknown root complex %q", columns[5])
	}

	f.Root = root
	return f
}

const allACS = topology.DirectTranslated<<1 - 1

func portsOf(t *testing.T, text string) []peer.Port {
	t.Helper()
	var ports []peer.Port
	for word := range strings.FieldsSeq(text) {
		kind, bits, _ := strings.Cut(word, ":")
		port := peer.Port{IsRootPort: kind != "down", IsVera: kind == "vera"}
		switch bits {
		case "none":
		case "?":
			port.Unreadable = true
		case "old":
			port.ACS = &topology.ACS{Capable: topology.RequestRedirect, Partial: true}
		default:
			control, err := strconv.ParseUint(bits, 2, 7)
			expect.NoError(t, err)
			port.ACS = &topology.ACS{Capable: allACS, Control: topology.ACSBits(control)}
		}

		ports = append(ports, port)
	}

	return ports
}

// TestJudgeEveryRegister tries all values of the ACS of both ports of a switch: what the rule says
// works is delivered by the bits, and is ready exactly if requests turn in the switch.
func TestJudgeEveryRegister(t *testing.T) {
	port := func(control topology.ACSBits) []peer.Port {
		return []peer.Port{{ACS: &topology.ACS{Capable: allACS, Control: control}}}
	}

	ready := 0
	for own := range allACS + 1 {
		for peers := range allACS + 1 {
			for _, ats := range []bool{false, true} {
				a := peer.Judge(peer.Facts{
					Own: port(own), Peers: port(peers), OneSwitch: true, ATS: ats,
					Root: peer.RootListed,
				})

				way := wayOf(own, ats)
				if a.Cause.Readiness().Works() && way != "up" && way != "direct" ||
					a.Cause.Readiness() == peer.Ready && way != "direct" {
					t.Errorf("own %s, peer's %s, ats %t: %s, but requests go %s", own, peers, ats,
						a.Cause.Readiness(), way)
				}

				if a.Cause.Readiness() == peer.Ready {
					ready++
				}
			}
		}
	}

	// SV RR CR UF DT at the own port, SV RR CR UF at the other, whose DT and TB do not matter.
	if ready != 4 {
		t.Errorf("%d states are ready, want 4", ready)
	}
}

// wayOf returns which way a port sends a request of a guest (PCI Express 5.0, 6.12.3).
func wayOf(control topology.ACSBits, isTranslated bool) string {
	switch {
	case isTranslated && control.Has(topology.TranslationBlocking):
		return "nowhere"
	case isTranslated && control.Has(topology.DirectTranslated):
		return "direct"
	case control.Has(topology.EgressControl):
		return "where a vector says"
	case control.Has(topology.RequestRedirect):
		return "up"
	case isTranslated:
		return "direct"
	}

	return "where the host has the guest's address"
}

// The control bits that rdma_topo of rdma-core wants of the port above a NIC, 1x111x1, and of all
// others, xx111x1; an x may be either.
const (
	wantedOn = topology.SourceValidation | topology.RequestRedirect |
		topology.CompletionRedirect | topology.UpstreamForwarding
	wantedOwn = wantedOn | topology.DirectTranslated
)

// TestJudgeSweep changes one register of a pair that is ready, or of Vera's root ports, to each of
// its values, with ATS and groups as they should be and not: 2,048 states. None is ready that
// rdma_topo fails.
func TestJudgeSweep(t *testing.T) {
	got := map[string]int{}
	for _, where := range []string{"own", "peer", "root", "vera"} {
		for control := range allACS + 1 {
			for _, ats := range []bool{false, true} {
				for _, isOneGroup := range []bool{false, true} {
					f := sweptFacts(where, control, ats, isOneGroup)
					answer := peer.Judge(f).Cause.Readiness()
					got[fmt.Sprintf("%s %s", where, answer)]++

					fits := ats && !isOneGroup && areAsWanted(f)
					if answer == peer.Ready && !fits {
						t.Errorf("%s %s, ats %t, one group %t: ready, and rdma_topo fails it",
							where, control, ats, isOneGroup)
					}
				}
			}
		}
	}

	expect.Same(t, map[string]int{
		"own ready": 1, "own through the root complex": 5, "own not ready": 250, "own unknown": 256,
		"peer ready": 4, "peer through the root complex": 4,
		"peer not ready": 248, "peer unknown": 256,
		"root ready": 2, "root through the root complex": 4,
		"root not ready": 250, "root unknown": 256,
		"vera through the root complex": 8, "vera not ready": 504,
	}, got, "states (-want +got)")
}

// sweptFacts returns a pair as NVIDIA sets it, or on Vera, with other control bits of one register.
func sweptFacts(where string, control topology.ACSBits, ats, isOneGroup bool) peer.Facts {
	port := func(kind string, as topology.ACSBits) []peer.Port {
		if kind == where {
			as = control
		}
		return []peer.Port{{
			ACS: &topology.ACS{Capable: allACS, Control: as}, IsRootPort: kind == "root",
		}}
	}

	f := peer.Facts{ATS: ats, SameGroup: isOneGroup}
	if where == "vera" {
		f.Own, f.Peers = port(where, 0), port(where, 0)
		f.Own[0].IsVera, f.Peers[0].IsVera = true, true
		return f
	}

	f.Own, f.Peers, f.Shared = port("own", wantedOwn), port("peer", wantedOn), port("root", wantedOn)
	f.OneSwitch, f.Root = true, peer.RootListed
	return f
}

// areAsWanted reports whether the ports are as rdma_topo wants them.
func areAsWanted(f peer.Facts) bool {
	isOther := func(p peer.Port) bool { return !p.ACS.Control.Has(wantedOn) }
	return f.Own[0].ACS.Control.Has(wantedOwn) &&
		!slices.ContainsFunc(slices.Concat(f.Peers, f.Shared), isOther)
}
