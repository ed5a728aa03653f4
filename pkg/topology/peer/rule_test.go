package peer_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/topology/peer"
	"hook-sidecar/test/expect"
)

// TestJudge: the rule says about each pair what was seen or follows from a source.
func TestJudge(t *testing.T) {
	data, err := os.ReadFile("testdata/cases.txt")
	expect.NoError(t, err)
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
	}
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
		default:
			t.Fatalf("unknown fact %q", fact)
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
