package domain_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hook-sidecar/pkg/domain"
)

// TestAddressing: what libvirt would refuse counts as absent and is not an error,
// since placement does not need it.
func TestAddressing(t *testing.T) {
	const arg = "<q:arg value='-fw_cfg'/><q:arg value='%s'/>"
	tests := map[string]struct {
		body string
		want domain.Addressing
	}{
		"nothing":          {"", domain.Addressing{}},
		"mode":             {"<cpu mode='host-passthrough'/>", domain.Addressing{CPUMode: "host-passthrough"}},
		"bits":             {"<cpu><maxphysaddr mode='emulate' bits='42'/></cpu>", domain.Addressing{PhysBits: 42}},
		"the host's":       {"<cpu><maxphysaddr mode='passthrough'/></cpu>", domain.Addressing{HostBits: true}},
		"the host's up to": {"<cpu><maxphysaddr mode='passthrough' limit='40'/></cpu>", domain.Addressing{HostBits: true, LimitBits: 40}},
		"not a number":     {"<cpu><maxphysaddr mode='emulate' bits='many'/></cpu>", domain.Addressing{}},
		"too many":         {"<cpu><maxphysaddr mode='emulate' bits='65'/></cpu>", domain.Addressing{}},
		// 65536 MiB are 64 GiB.
		"window":          {commandline(fmt.Sprintf(arg, "name=opt/ovmf/X-PciMmio64Mb,string=65536")), domain.Addressing{WindowBytes: 64 << 30}},
		"another entry":   {commandline(fmt.Sprintf(arg, "name=opt/ovmf/X-Other,string=65536")), domain.Addressing{}},
		"invalid window":  {commandline(fmt.Sprintf(arg, "name=opt/ovmf/X-PciMmio64Mb,string=large")), domain.Addressing{}},
		"in no namespace": {"<commandline><arg value='name=opt/ovmf/X-PciMmio64Mb,string=65536'/></commandline>", domain.Addressing{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := domain.Parse([]byte("<domain xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0'>" + test.body + "</domain>"))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(test.want, got.Addressing); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func commandline(args string) string { return "<q:commandline>" + args + "</q:commandline>" }
