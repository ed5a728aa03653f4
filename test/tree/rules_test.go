package tree

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const before = `<domain><cpu><numa><cell id="0"/></numa></cpu><devices>
<disk><address type="pci" bus="0" slot="4"/></disk>
<hostdev type="pci"><alias name="ua-a"/></hostdev>
<hostdev type="pci"><alias name="ua-b"/></hostdev>
</devices></domain>`

const after = `<domain><cpu><numa><cell id="0"/></numa></cpu><devices>
<disk><address type="pci" bus="0" slot="4"/></disk>
<controller type="pci" index="1" model="pcie-expander-bus"><target busNr="200"><node>0</node></target><address type="pci" bus="0" slot="0x1c"/></controller>
<controller type="pci" index="2" model="pcie-root-port"><address type="pci" bus="1" slot="0"/></controller>
<controller type="pci" index="3" model="pcie-expander-bus"><target busNr="220"/><address type="pci" bus="0" slot="0x1b"/></controller>
<controller type="pci" index="4" model="pcie-root-port"><address type="pci" bus="3" slot="0"/></controller>
<hostdev type="pci"><alias name="ua-a"/><address type="pci" bus="2" slot="0"/></hostdev>
<hostdev type="pci"><alias name="ua-b"/><address type="pci" bus="4" slot="0"/></hostdev>
</devices></domain>`

// TestViolations: each rule can be violated.
func TestViolations(t *testing.T) {
	if got := Violations([]byte(before), []byte(after)); len(got) > 0 {
		t.Fatalf("a good result: %q", got)
	}

	for _, test := range []struct{ from, to, want string }{
		{`index="4"`, `index="5"`, "no controller has index 4"},
		{`index="4"`, `index="256"`, "index 256 is above 255"},
		{`<node>0`, `<node>1`, "expander bus 1 is on cell 1, which does not exist"},
		{`busNr="220"`, ``, "expander bus 3 has no busNr"},
		{`busNr="220"`, `busNr="200"`, "root bus 1 starts at bus number 200 and needs 2, has 0"},
		{`busNr="220"`, `busNr="201"`, "root bus 1 starts at bus number 200 and needs 2, has 1"},
		{`busNr="220"`, `busNr="255"`, "root bus 3 starts at bus number 255 and needs 2, has 1"},
		{`<address type="pci" bus="3"`, `<address type="pci" bus="9"`,
			"controller 4 is on bus 9, which does not exist"},
		{`<address type="pci" bus="1"`, `<address type="pci" bus="3"`,
			"controller 2 is under controller 3, which QEMU makes later"},
		{`index="4" model="pcie-root-port"`, `index="4" model="pcie-switch-upstream-port"`,
			"pcie-switch-upstream-port 4 is on pcie-expander-bus 3"},
		{`<address type="pci" bus="4"`, `<address type="pci" bus="0" slot="5"`,
			"port 4 under expander bus 3 is free"},
		{`bus="4" slot="0"`, `bus="2" slot="0"`,
			"hostdev 0 and hostdev 1 are both at 0000:02:00.0"},
		{`bus="4" slot="0"`, `bus="4" slot="0" function="1"`,
			"slot 0000:04:00.0 has no function 0"},
		{`slot="0x1b"`, `slot="0x1c" function="1"`,
			"controller 3 is at 0000:00:1c.1, and function 0 has no multifunction"},
		{`slot="4"`, `slot="6"`, "disk 0 has moved from 0000:00:04.0 to 0000:00:06.0"},
		{"<disk>", "<sound>", "disk 0 is missing"},
		{`"ua-b"`, `"ua-c"`, `hostdevs ["ua-a" "ua-b"] have become ["ua-a" "ua-c"]`},
	} {
		changed := strings.Replace(after, test.from, test.to, 1)
		if test.from == "<disk>" {
			changed = strings.Replace(changed, "</disk>", "</sound>", 1)
		}

		if got := Violations([]byte(before), []byte(changed)); !slices.Contains(got, test.want) {
			t.Errorf("%s in place of %s: %q, want %q", test.to, test.from, got, test.want)
		}
	}

	if got := Violations([]byte("<domain/>"),
		[]byte(after)); fmt.Sprint(got) != "[read domain: no <devices>]" {
		t.Errorf("no devices: %q", got)
	}
}
