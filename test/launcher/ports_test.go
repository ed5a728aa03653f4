//go:build linux && lane

package launcher

import (
	"regexp"
	"strings"
	"testing"

	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/pkg/tools/cluster"
	"hook-sidecar/pkg/tools/cluster/why"
	"hook-sidecar/pkg/tools/doctor"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/cases"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/oracle"
)

// testSwitchPorts: the launcher's QEMU, of 10.0, answers the question of kubectl hostdev doctor.
func testSwitchPorts(t *testing.T, l lab) {
	r := row{vm: hgx, set: func(p *pod) { p.Hook, p.Ask = []string{}, cluster.PortQuestion() }}
	answer := string(l.here(t, r.pod(t)).file(t, "answer.txt"))
	in := doctor.Inputs{Host: &topology.Host{}, VMInputs: doctor.VMInputs{PortHelp: answer}}
	for _, result := range doctor.NewReport(in).Results {
		if result.Name == "port-speed" {
			if !strings.Contains(result.Hint, "set --port-speed=host") {
				t.Errorf("%s\nof the answer\n%s", result, answer)
			}
			return
		}
	}

	t.Errorf("doctor says nothing of the answer %q", answer)
}

// testOlderQEMU: this machine's QEMU, which lacks the switch ports' links, does not start a VM that has
// them. why names the fault, and with the annotation of its remedy the hook gives a VM that starts.
func testOlderQEMU(t *testing.T, _ lab) {
	libvirt := oracle.New(t)
	c := cases.Named(t, "../..", "port-speed-mirror")
	c.Planner.AnnotationsFirst = true
	err := libvirt.Start(startable(c.Planner.Read(c.Request).Plan().Domain))
	if err == nil {
		t.Skip("this machine's QEMU has links of switch ports")
	}

	evidence := &why.Evidence{}
	evidence.AddLog("virt-launcher", err.Error())
	causes := evidence.Diagnose().Causes
	if len(causes) != 1 || causes[0].Name != "port-speed-needs-newer-qemu" {
		t.Fatalf("the causes of %v are %v", err, causes)
	}

	key, value, found := strings.Cut(annotation.FindString(causes[0].Remedy), ": ")
	if !found {
		t.Fatalf("no annotation in %q", causes[0].Remedy)
	}

	c.Request.VMI, c.Request.Parsed = nil, &kubevirt.VMI{Annotations: map[string]string{key: value}}
	expect.NoError(t, libvirt.Start(startable(c.Planner.Read(c.Request).Plan().Domain)))
}

var (
	annotation = regexp.MustCompile(`hostdev\.vm\.kubevirt\.io/[a-z-]+: [a-z]+`)
	// what this machine lacks, which starts nothing of the domain's PCI tree
	missing = regexp.MustCompile(`(?s)<hostdev .*?</hostdev>|<numatune>.*?</numatune>`)
)

// startable returns a domain that starts without the devices and the NUMA nodes of its host.
func startable(domain []byte) []byte { return missing.ReplaceAll(domain, nil) }
