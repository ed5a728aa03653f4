package plan_test

import (
	"bytes"
	"encoding/base64"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/keys"
	"hook-sidecar/pkg/keys/nccl"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/matrix"
	"hook-sidecar/test/oracle"
	"hook-sidecar/test/readback"
	"hook-sidecar/test/tree"
)

// fwcfgPlanner returns a Planner that passes the topology file to the guest.
func fwcfgPlanner(t *testing.T, host string, layout policy.Layout) plan.Planner {
	m := withLayout(hosts(t)[host+".txtar"], layout)
	m.Flags[policy.KeyNCCLTopology] = string(policy.NCCLTopologyFWCfg)
	return m
}

// entriesOf returns the texts of the fw_cfg entries for NCCL.
func entriesOf(t *testing.T, domain []byte) []string {
	t.Helper()
	root, err := tree.Parse(domain)
	expect.NoError(t, err)
	var texts []string
	for _, info := range root.All("sysinfo") {
		for _, e := range info.All("entry") {
			if info.Attr("type") == "fwcfg" &&
				e.Attr("name") == "opt/org.kubevirt.hostdev/nccl-topology" {
				texts = append(texts, e.Text)
			}
		}
	}

	return texts
}

// passedFile returns what the guest decodes from the only entry of a domain.
func passedFile(t *testing.T, domain []byte) string {
	t.Helper()
	texts := entriesOf(t, domain)
	if len(texts) != 1 {
		t.Fatalf("%d entries", len(texts))
	}

	// libvirt 9 writes characters that XML escapes as XML references into QEMU's
	// arguments, and QEMU ends a value at a comma.
	if !regexp.MustCompile(`^[A-Za-z0-9+/]+=*$`).MatchString(texts[0]) {
		t.Errorf("the entry would not reach the guest as it is: %q", texts[0])
	}

	text, err := base64.StdEncoding.DecodeString(texts[0])
	expect.NoError(t, err)
	return string(text)
}

var sysinfoElement = regexp.MustCompile(`(?s)<sysinfo type="smbios">.*?</sysinfo>`)

// TestNCCLEntry plays every call of a boot: each answer has the entry once, with
// the file that explain writes; the domain's own SMBIOS tables keep every byte,
// in what libvirt gets and in what KubeVirt makes of the answer; and one more
// call does not change the last answer.
func TestNCCLEntry(t *testing.T) {
	lib := oracle.New(t).Readback
	for _, version := range []readback.Version{readback.V190, readback.Main} {
		for _, layout := range layouts() {
			m := fwcfgPlanner(t, "x86-2n8g-hgx-h100", layout)
			vmi := sampleFile(t, "02-8gpu-8nic-gate-off.vmi.json")
			hook := func(domain []byte) ([]byte, error) {
				result := m.Read(plan.Request{Domain: domain, VMI: vmi}).Plan()
				if got, want := passedFile(t,
					result.Domain), nccl.New(result.Plan).String(); got != want {
					t.Errorf("the guest gets %q, explain says %q", got, want)
				}

				checkSMBIOS(t, version, domain, result.Domain)
				return result.Domain, result.Err
			}

			calls, answers := version.Sequence(t, sampleFile(t, "02-8gpu-8nic-gate-off.xml"), vmi,
				hook, lib)
			if len(calls) < 2 {
				t.Fatalf("%d calls: the test needs several", len(calls))
			}

			last := answers[len(answers)-1]
			if again := m.Read(plan.Request{Domain: last, VMI: vmi}).Plan(); again.Changed() ||
				!bytes.Equal(again.Domain, last) {
				t.Errorf("one more call changes the last answer:\n%s", changes(last, again.Domain))
			}
		}
	}
}

// checkSMBIOS checks that the SMBIOS tables survive KubeVirt's types, which have
// one sysinfo and fill it from all elements, so that the type of the last counts.
func checkSMBIOS(t *testing.T, version readback.Version, before, after []byte) {
	t.Helper()
	if was := sysinfoElement.Find(before); was == nil || !bytes.Contains(after, was) {
		t.Errorf("the SMBIOS tables have changed, before: %s", was)
	}

	spec, err := version.Remarshal(after)
	expect.NoError(t, err)
	domain, err := tree.Parse(spec)
	expect.NoError(t, err)
	info := domain.Find("sysinfo")
	if info.Attr("type") != "smbios" || len(info.Find("system").All("entry")) == 0 {
		t.Errorf("KubeVirt reads %s", info.Bytes())
	}
}

// TestNCCLEntryLibvirt checks that a real libvirt accepts the entry with
// --validate and reads it back, beside the SMBIOS tables.
func TestNCCLEntryLibvirt(t *testing.T) {
	lib := oracle.New(t)
	m := fwcfgPlanner(t, "x86-2n8g-hgx-h100", policy.LayoutMirror)
	result := m.Read(plan.Request{
		Domain: sampleFile(t, "02-8gpu-8nic-gate-off.xml"),
		VMI:    sampleFile(t, "02-8gpu-8nic-gate-off.vmi.json"),
	}).Plan()

	back := lib.Check(t, result.Domain)
	if got, want := entriesOf(t, back), entriesOf(t, result.Domain); len(want) != 1 ||
		!slices.Equal(got, want) {
		t.Errorf("libvirt reads back %q, not %q", got, want)
	}

	if !bytes.Contains(back, []byte("<sysinfo type='smbios'>")) {
		t.Error("libvirt lost the SMBIOS tables")
	}

	again := m.Read(plan.Request{
		Domain: back, VMI: sampleFile(t, "02-8gpu-8nic-gate-off.vmi.json"),
	}).Plan()

	if n := strings.Count(string(again.Domain), keys.NCCLEntry); n != 1 || again.Err != nil {
		t.Errorf("after a readback the domain has %d entries, error %v", n, again.Err)
	}
}

// The entry for NCCL, and an element that has no other one.
var (
	ncclEntry = regexp.MustCompile(
		`\s*<entry name="opt/org.kubevirt.hostdev/nccl-topology">[^<]*</entry>`)
	filledElement = regexp.MustCompile(
		`<sysinfo type=["']fwcfg["']>\s*<!-- hook-sidecar: was (.*) -->\s*</sysinfo>`)
	emptyElement = regexp.MustCompile(`\s*<sysinfo type=["']fwcfg["']>\s*</sysinfo>`)
)

// TestNCCLEntryWanted checks that a domain has the entry only where the policy
// asks for it and the file has a device.
func TestNCCLEntryWanted(t *testing.T) {
	hgx, host := sampleFile(t, "02-8gpu-8nic-gate-off.xml"), "x86-2n8g-hgx-h100"
	devices, err := matrix.Sysfs{FS: hosts(t)[host+".txtar"]}.Endpoints()
	expect.NoError(t, err)
	switches := slices.DeleteFunc(devices, func(id string) bool {
		return !strings.HasSuffix(id, ":00.0") || !nvSwitch(t, host, id)
	})

	if len(switches) == 0 {
		t.Fatal("the host has no NVSwitch: the case below shows nothing")
	}

	for name, tc := range map[string]struct {
		domain []byte
		set    map[policy.Key]string
		want   int
	}{
		"asked for":           {hgx, nil, 1},
		"default":             {hgx, map[policy.Key]string{policy.KeyNCCLTopology: "none"}, 0},
		"dry run":             {hgx, map[policy.Key]string{policy.KeyDryRun: "true"}, 0},
		"no address is known": {hgx, map[policy.Key]string{policy.KeyLayout: "keep"}, 0},
		"no GPU and no NIC":   {matrix.Domain(matrix.GuestNUMA{{0}, {1}}, switches), nil, 0},
		"no devices":          {matrix.Domain(matrix.GuestNUMA{{0}}, nil), nil, 0},
	} {
		m := fwcfgPlanner(t, host, policy.LayoutNUMA)
		maps.Copy(m.Flags, tc.set)
		result := m.Read(plan.Request{Domain: tc.domain}).Plan()
		if result.Err != nil {
			t.Fatal(result.Err)
		}

		if got := len(entriesOf(t, result.Domain)); got != tc.want {
			t.Errorf("%s: %d entries, want %d", name, got, tc.want)
		}
	}
}

// nvSwitch reports whether a function has the class of an NVSwitch, which NCCL
// does not look for by its address.
func nvSwitch(t *testing.T, host, id string) bool {
	t.Helper()
	result := withLayout(hosts(t)[host+".txtar"], policy.LayoutNUMA).Read(plan.Request{
		Domain: matrix.Domain(nil, []string{id}),
	}).Plan()
	return result.Plan.Devices[0].Function.Class == 0x068000
}
