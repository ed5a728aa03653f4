package host_test

import (
	"testing"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
)

// A function whose configuration space has 256 bytes is conventional PCI, and a
// snapshot says so without that space. One of another size, or of none as in a
// snapshot of before, is not.
func TestConventional(t *testing.T) {
	const nic = "devices/pci0000:00/0000:00:02.0/0000:01:00.0"
	fsys := described(t,
		"pci0000:00/0000:00:14.0 conventional\npci0000:00/0000:00:02.0/0000:01:00.0 acs=rr")
	if size := len(fsys[nic+"/config"].Data); size != 4096 {
		t.Fatalf("the PCI Express function has %d bytes of configuration space", size)
	}

	snapshot, problems, err := host.TakeSnapshot(fsys)
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}

	text, err := snapshot.Format("")
	expect.NoError(t, err)
	copied, err := host.ParseSnapshot(text)
	expect.NoError(t, err)

	for address, want := range map[topology.Address]bool{
		{Device: 0x14}: true, {Device: 0x02}: false, {Bus: 1}: false,
	} {
		live, _ := host.Read(fsys, nil, host.All)
		if got := live.FunctionAt(address).Conventional; got != want {
			t.Errorf("%s: conventional %v, want %v", address, got, want)
		}

		read, _ := host.Read(copied, nil, host.All)
		if got := read.FunctionAt(address).Conventional; got != want {
			t.Errorf("%s in a snapshot: conventional %v, want %v", address, got, want)
		}
	}
}
