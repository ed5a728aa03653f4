package topology_test

import (
	"encoding/json"
	"strings"
	"testing"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
)

func TestParseAddress(t *testing.T) {
	for _, tc := range []struct {
		text string
		want topology.Address
		// canonical is the kernel's form, %04x:%02x:%02x.%d
		// (drivers/pci/probe.c, pci_setup_device).
		canonical string
	}{
		{"0000:17:00.0", topology.Address{Bus: 0x17}, "0000:17:00.0"},
		// KubeVirt's own test case, in mixed case (hw_utils_test.go).
		{"05EA:Fc:1d.6", topology.Address{
			Domain: 0x5ea, Bus: 0xfc, Device: 0x1d, Function: 6,
		}, "05ea:fc:1d.6"},
		{"0000:81:11.1", topology.Address{Bus: 0x81, Device: 0x11, Function: 1}, "0000:81:11.1"},
		{"0000:ff:1f.7", topology.Address{Bus: 0xff, Device: 0x1f, Function: 7}, "0000:ff:1f.7"},
		// VMD and Hyper-V use domains from 0x10000; KubeVirt refuses these.
		{"10000:01:00.0", topology.Address{Domain: 0x10000, Bus: 1}, "10000:01:00.0"},
		{"abcdef:01:00.0", topology.Address{Domain: 0xabcdef, Bus: 1}, "abcdef:01:00.0"},
		{"1234567:01:00.0", topology.Address{Domain: 0x1234567, Bus: 1}, "1234567:01:00.0"},
		{"FFFFFFFF:01:00.0", topology.Address{Domain: 0xffffffff, Bus: 1}, "ffffffff:01:00.0"},
		// More digits than the number needs.
		{"00000001:01:00.0", topology.Address{Domain: 1, Bus: 1}, "0001:01:00.0"},
	} {
		got, err := topology.ParseAddress(tc.text)
		if err != nil || got != tc.want {
			t.Errorf("ParseAddress(%q) = %+v, %v; want %+v", tc.text, got, err, tc.want)
		}

		if got.String() != tc.canonical {
			t.Errorf("ParseAddress(%q).String() = %q, want %q", tc.text, got, tc.canonical)
		}
	}
}

func TestParseAddressRefuses(t *testing.T) {
	for _, text := range []string{
		// KubeVirt's cases, hw_utils_test.go and pciaddress_test.go.
		"", "invalid address", " 05EA:Fc:1d.6", "05EA:Fc:1d.6 ", "00Z0:00:1d.6", "0000:z0:1d.6",
		"0000:00:Zd.6", "05EA:Fc:1d:6", "0000:00:1d.9", "0000:81:11:1", "0bad0pci0address0",
		// Digits missing, too many, or out of range.
		"000:17:00.0", "123456789:17:00.0", "0000:7:00.0", "0000:017:00.0", "0000:17:0.0",
		"0000:17:20.0", "0000:17:00.8", "0000:17:00.00", "0000:17:00.", "0000:17:00", "17:00.0",
		// Separators in the wrong places.
		"0000.17.00.0", "0000:17.00:0", ":0000:17:00.0", "0000::17:00.0", "0000:17:00..0",
		"0000:17:00.0.",
		// What strconv would accept, and look-alikes.
		"0x00:17:00.0", "+000:17:00.0", "0_00:17:00.0", "-001:17:00.0", "0000:17:00.0\x00",
		"0000:17:00.0\n",
		"００００:17:00.0", "../../../etc/passwd",
	} {
		if got, err := topology.ParseAddress(text); err == nil {
			t.Errorf("ParseAddress(%q) = %v, want an error", text, got)
		}
	}
}

func TestParseErrorsAreShort(t *testing.T) {
	_, errAddress := topology.ParseAddress(strings.Repeat("x", 1<<20))
	_, errUUID := topology.ParseUUID(strings.Repeat("x", 1<<20))
	_, errIDs := topology.ParseIDs(strings.Repeat("x", 1<<20))
	for _, err := range []error{errAddress, errUUID, errIDs} {
		if err == nil || len(err.Error()) > 200 {
			t.Errorf("error for 1 MiB of x: %.300v; want at most 200 bytes", err)
		}
	}
}

func TestAddressText(t *testing.T) {
	text, err := json.Marshal(topology.Address{Domain: 0x10000, Bus: 1})
	if err != nil || string(text) != `"10000:01:00.0"` {
		t.Errorf("json.Marshal = %s, %v", text, err)
	}
}

func TestAddressOrder(t *testing.T) {
	// The domain is the most significant part, the function the least.
	ordered := []string{
		"0000:00:00.0", "0000:00:00.7", "0000:00:1f.0", "0000:01:00.0", "0000:ff:00.0",
		"0001:00:00.0", "ffff:ff:1f.7", "10000:00:00.0",
	}
	for i := range ordered {
		for j := range ordered {
			a, b := address(t, ordered[i]), address(t, ordered[j])
			if got := a.Compare(b); sign(got) != sign(i-j) {
				t.Errorf("%v.Compare(%v) = %d", a, b, got)
			}
		}
	}
}

func TestSameDevice(t *testing.T) {
	a := address(t, "0000:21:00.0")
	for text, want := range map[string]bool{
		"0000:21:00.0": true, "0000:21:00.3": true,
		"0000:21:01.0": false, "0000:22:00.0": false, "0001:21:00.0": false,
	} {
		if got := a.SameDevice(address(t, text)); got != want {
			t.Errorf("%v.SameDevice(%s) = %v", a, text, got)
		}
	}
}

func FuzzParseAddress(f *testing.F) {
	for _, seed := range []string{
		"0000:17:00.0", "10000:01:00.0", "05EA:Fc:1d.6", "", "0000:00:1d:6", "::..", "0000:17:00.8",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := topology.ParseAddress(text)
		if err != nil {
			return
		}

		if a.Device > 0x1f || a.Function > 7 {
			t.Errorf("ParseAddress(%q) = %+v, out of range", text, a)
		}

		// Only case and leading zeros of the domain may be lost.
		if !strings.HasSuffix(strings.Repeat("0", 8)+a.String(), strings.ToLower(text)) &&
			!strings.HasSuffix(strings.ToLower(text), a.String()) {
			t.Errorf("ParseAddress(%q) = %v", text, a)
		}

		if again, err := topology.ParseAddress(a.String()); err != nil || again != a {
			t.Errorf("ParseAddress(%q) = %v, %v", a, again, err)
		}
	})
}

func address(t *testing.T, text string) topology.Address {
	t.Helper()
	a, err := topology.ParseAddress(text)
	expect.NoError(t, err)
	return a
}

func sign(n int) int {
	switch {
	case n < 0:
		return -1
	case n > 0:
		return 1
	}

	return 0
}
