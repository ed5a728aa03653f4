package topology_test

import (
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hook-sidecar/pkg/topology"
)

func TestParseIDs(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"", ""},
		{"\n", ""},
		{"0", "0"},
		{"0-3,8", "0-3,8"},
		{"0-17,36-53", "0-17,36-53"},
		{" 0 , 2 ", "0,2"},
		{"3,1,2,0", "0-3"},
		{"0-3,2-5,2", "0-5"},
		{"7-7", "7"},
		// KubeVirt writes the CPUs of a cell as a list without ranges.
		{"0,1,2,3,8,9", "0-3,8-9"},
		// libvirt's exclusions (libvirt docs/formatdomain.rst, "cpuset").
		{"0-7,^3", "0-2,4-7"},
		{"0-7,^2-4,^7", "0-1,5-6"},
		{"^3,0-7", "0-2,4-7"},
		{"0-3,^8", "0-3"},
		{"^3", ""},
		{"65536", "65536"},
	} {
		got, err := topology.ParseIDs(tc.text)
		if err != nil || got.String() != tc.want {
			t.Errorf("ParseIDs(%q) = %q, %v; want %q", tc.text, got, err, tc.want)
		}
	}
}

func TestParseIDsRefuses(t *testing.T) {
	for _, text := range []string{
		"a", "0-", "-1", "-", "0,,1", "0,", ",", "3-1", "0-1-2", "0x1", "1.5", "+1", "^", "^^1",
		"0 1",
		"65537", "0-65537", "0-4294967295", "99999999999999999999",
	} {
		if got, err := topology.ParseIDs(text); err == nil {
			t.Errorf("ParseIDs(%q) = %q, want an error", text, got)
		}
	}
}

// A list may be as long as its file: the time to read it must not grow with its
// length times the size of its ranges.
func TestParseIDsRepeated(t *testing.T) {
	got, err := topology.ParseIDs(strings.Repeat("0-65536,", 10_000) + "5")
	if err != nil || got.String() != "0-65536" {
		t.Errorf("ParseIDs of repeated ranges = %.40q, %v", got.String(), err)
	}
}

// However many numbers a list names, and however often, they take little memory.
func TestParseIDsMemory(t *testing.T) {
	for name, list := range map[string]string{
		"every number":                 "0-65535",
		"numbers that repeat":          strings.Repeat("1,3,", 1<<18) + "5",
		"every number but one in many": "0-65535" + strings.Repeat(",^7", 1<<18),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := topology.ParseIDs(list)
		runtime.ReadMemStats(&after)
		if err != nil || got.IsEmpty() {
			t.Errorf("%s: %.40q, %v", name, got, err)
		}

		const most = 8 << 20
		if taken := after.TotalAlloc - before.TotalAlloc; taken > most {
			t.Errorf("%s: %d bytes, more than %d", name, taken, most)
		}
	}
}

// FuzzParseIDs compares sets with lists of all their numbers.
func FuzzParseIDs(f *testing.F) {
	for _, list := range []string{
		"0-3,8", "0-7,^3", "^3,0-7,^9-12", "2,1,0,65536", "5-9,7-12,^8-10,^6",
	} {
		f.Add(list, "0-7")
		f.Add("1-4,6", list)
	}

	f.Fuzz(func(t *testing.T, x, y string) {
		a, errA := topology.ParseIDs(x)
		b, errB := topology.ParseIDs(y)
		if errA != nil || errB != nil {
			return
		}

		again, err := topology.ParseIDs(a.String())
		if err != nil || !again.Equal(a) {
			t.Errorf("%q is %q, and that is %q, %v", x, a, again, err)
		}

		inA, inB := slices.Collect(a.All()), slices.Collect(b.All())
		if want := expand(x); !slices.Equal(inA, want) {
			t.Errorf("%q has %v, want %v", x, inA, want)
		}

		isIn := map[int]bool{}
		for _, n := range inB {
			isIn[n] = true
		}

		subset := true
		for _, n := range inA {
			subset = subset && isIn[n]
			if b.Contains(n) != isIn[n] {
				t.Errorf("%q contains %d: %t", y, n, b.Contains(n))
			}
		}

		if a.IsSubsetOf(b) != subset {
			t.Errorf("%q is a subset of %q: %t", x, y, !subset)
		}

		if a.IsEmpty() != (len(inA) == 0) {
			t.Errorf("%q: empty %t", x, a.IsEmpty())
		}
	})
}

// expand returns the numbers of a valid list, in order, each once.
func expand(list string) []int {
	wanted := map[int]bool{}
	for _, excluded := range []bool{false, true} {
		for part := range strings.SplitSeq(list, ",") {
			digits, isExcluded := strings.CutPrefix(strings.TrimSpace(part), "^")
			if isExcluded != excluded || digits == "" {
				continue
			}

			low, high, isRange := strings.Cut(digits, "-")
			if !isRange {
				high = low
			}

			from, _ := strconv.Atoi(low)
			to, _ := strconv.Atoi(high)
			for n := from; n <= to; n++ {
				wanted[n] = !excluded
			}
		}
	}

	var numbers []int
	for n, in := range wanted {
		if in {
			numbers = append(numbers, n)
		}
	}

	slices.Sort(numbers)
	return numbers
}
