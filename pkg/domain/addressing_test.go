package domain_test

import (
	"fmt"
	"testing"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/test/expect"
)

// TestAddressing: what libvirt would refuse counts as absent and is not an error,
// since placement does not need it.
func TestAddressing(t *testing.T) {
	tests := map[string]struct {
		body string
		want domain.Addressing
	}{
		"nothing": {"", domain.Addressing{}},
		"mode": {"<cpu mode='host-passthrough'/>", domain.Addressing{
			CPUMode: "host-passthrough",
		}},
		"bits": {"<cpu><maxphysaddr mode='emulate' bits='42'/></cpu>", domain.Addressing{
			PhysBits: 42,
		}},
		"the host's": {"<cpu><maxphysaddr mode='passthrough'/></cpu>", domain.Addressing{
			HostBits: true,
		}},
		"the host's up to": {"<cpu><maxphysaddr mode='passthrough' limit='40'/></cpu>",
			domain.Addressing{
				HostBits: true, LimitBits: 40,
			}},
		"not a number": {"<cpu><maxphysaddr mode='emulate' bits='many'/></cpu>",
			domain.Addressing{}},
		"too many": {"<cpu><maxphysaddr mode='emulate' bits='65'/></cpu>",
			domain.Addressing{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := parseQEMU(t, test.body)
			expect.Same(t, test.want, got.Addressing, "(-want +got)")
		})
	}
}

// TestWindow: the fw_cfg entry that sets OVMF's window may be written as QEMU takes it.
func TestWindow(t *testing.T) {
	const arg = "<q:arg value='-fw_cfg'/><q:arg value='%s'/>"
	for name, test := range map[string]struct {
		body string
		want uint64
	}{
		// 65536 MiB are 64 GiB.
		"window": {commandline(fmt.Sprintf(arg,
			"name=opt/ovmf/X-PciMmio64Mb,string=65536")), 64 << 30},
		"with an id": {commandline(fmt.Sprintf(arg,
			"name=opt/ovmf/X-PciMmio64Mb,string=65536,id=a")), 64 << 30},
		"string first": {commandline(fmt.Sprintf(arg,
			"string=65536,name=opt/ovmf/X-PciMmio64Mb")), 64 << 30},
		"without name=": {commandline(fmt.Sprintf(arg, "opt/ovmf/X-PciMmio64Mb,string=65536")),
			64 << 30},
		"two dashes": {
			commandline("<q:arg value='-S'/><q:arg value='--fw_cfg'/>" +
				"<q:arg value='name=opt/ovmf/X-PciMmio64Mb,string=65536'/>"), 64 << 30,
		},
		"another entry": {commandline(fmt.Sprintf(arg, "name=opt/ovmf/X-Other,string=65536")), 0},
		"of a file": {commandline(fmt.Sprintf(arg, "name=opt/ovmf/X-PciMmio64Mb,file=/f")),
			0},
		"invalid window": {commandline(fmt.Sprintf(arg,
			"name=opt/ovmf/X-PciMmio64Mb,string=large")), 0},
		"of no option": {
			commandline("<q:arg value='name=opt/ovmf/X-PciMmio64Mb,string=65536'/>"), 0,
		},
		"in no namespace": {
			"<commandline><arg value='-fw_cfg'/>" +
				"<arg value='name=opt/ovmf/X-PciMmio64Mb,string=65536'/></commandline>", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := parseQEMU(t, test.body).WindowBytes(); got != test.want {
				t.Errorf("the window has %d bytes, want %d", got, test.want)
			}
		})
	}
}

// parseQEMU parses a domain that has this, and the prefix q for QEMU's namespace.
func parseQEMU(t *testing.T, body string) *domain.Domain {
	t.Helper()
	d, err := domain.Parse([]byte("<domain xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0'>" +
		body + "</domain>"))
	expect.NoError(t, err)
	return d
}

func commandline(args string) string { return "<q:commandline>" + args + "</q:commandline>" }
