package cases_test

import (
	"bytes"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/tools/cases"
	"hook-sidecar/pkg/tools/cluster/archive"
	"hook-sidecar/test/expect"
)

const (
	vmXML = `<domain type="kvm">
	<name>ns_vm</name>
	<title>of the user</title>
	<os>
		<type arch="x86_64" machine="q35">hvm</type>
	</os>
	<devices>
		<hostdev type="pci" managed="no">
			<source>
				<address type="pci" domain="0x0000" bus="0x3b" slot="0x00" function="0x0"></address>
			</source>
			<alias name="ua-gpu-gpu1"></alias>
		</hostdev>
	</devices>
</domain>
`
	nodeLines = "cpus 0 0-3\npci0000:3a/0000:3a:00.0/0000:3b:00.0 node=0 driver=vfio-pci\n"
	vmiYAML   = "kind: VirtualMachineInstance\nmetadata: {name: vm, namespace: ns}\n" +
		"spec: {domain: {devices: {}}}\n"
)

// sections returns a case of pairs of a section's name and its text.
func sections(pairs ...string) string {
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		b.WriteString("-- " + pairs[i] + " --\n" + pairs[i+1])
	}
	return b.String()
}

// written returns a directory with files, by name.
func written(t *testing.T, pairs ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(pairs); i += 2 {
		file := filepath.Join(dir, pairs[i])
		expect.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		expect.NoError(t, os.WriteFile(file, []byte(pairs[i+1]), 0o644))
	}
	return dir
}

// TestForms: a case as a file and as a directory, with its inputs inside and beside it, gives the
// same result. Without its expected part it fails, and once that is written it passes.
func TestForms(t *testing.T) {
	flags := "flags: layout=root\n"
	dir := written(t,
		"inside.txtar", sections("case", flags, "host", nodeLines, "domain.xml", vmXML,
			"vmi.yaml", vmiYAML),
		"beside.txtar", sections("case", flags+"host: in/host\ndomain: in/vm.xml\nvmi: in/vmi.yaml\n"),
		"in/host", nodeLines, "in/vm.xml", vmXML, "in/vmi.yaml", vmiYAML,
		"directory/case", flags, "directory/host", nodeLines, "directory/domain.xml", vmXML,
		"directory/vmi.yaml", vmiYAML, "directory/notes", "of the user",
		"snapshot.txtar", "-- devices/system/node/online --\n0\n",
	)

	found, err := cases.Find(dir)
	expect.NoError(t, err)
	expect.Same(t, []string{"beside.txtar", "directory", "inside.txtar"}, bases(found),
		"cases (-want +got)")
	var texts []string
	for _, path := range found {
		c, outcome := cases.Run(path)
		expect.NoError(t, outcome.Err)
		expect.Same(t, "no want.txt and no want.diff", outcome.Reason(), "%s (-want +got)", path)
		expect.NoError(t, c.Update(outcome.Differences))

		c, outcome = cases.Run(path)
		expect.NoError(t, outcome.Err)
		if outcome.IsFailed() {
			t.Errorf("%s: %s\n%s", path, outcome.Reason(), outcome.Details())
		}
		texts = append(texts, string(c.Section("want.txt"))+string(c.Section("want.diff")))
	}

	expect.Same(t, texts[0], texts[1], "directory (-beside +directory)")
	expect.Same(t, texts[0], texts[2], "inside (-beside +inside)")
	if !strings.HasPrefix(texts[0], "layout root: 1 placed,") {
		t.Errorf("nothing was placed:\n%s", texts[0])
	}
}

func bases(paths []string) []string {
	var names []string
	for _, path := range paths {
		names = append(names, filepath.Base(path))
	}
	return names
}

// TestDifference: what differs is shown as a diff of the domains, also if the case has a diff. A
// case may have the whole domain instead.
func TestDifference(t *testing.T) {
	inputs := []string{"case", "flags: layout=root\n", "host", nodeLines, "domain.xml", vmXML}
	file := filepath.Join(written(t, "a.txtar", sections(inputs...)), "a.txtar")
	c, outcome := cases.Run(file)
	expect.NoError(t, c.Update(outcome.Differences))
	wanted := string(c.Section("want.diff"))
	result := string(c.Planner.Read(c.Request).Plan().Domain)

	for name, section := range map[string][2]string{
		"diff":   {"want.diff", strings.Replace(wanted, `bus="0x01"`, `bus="0x07"`, 1)},
		"domain": {"want.xml", strings.Replace(result, `bus="0x01"`, `bus="0x07"`, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			text := sections(append(inputs, "want.txt", string(c.Section("want.txt")),
				section[0], section[1])...)
			expect.NoError(t, os.WriteFile(file, []byte(text), 0o644))
			_, outcome := cases.Run(file)
			expect.NoError(t, outcome.Err)
			expect.Same(t, "other than "+section[0], outcome.Reason(), "reason (-want +got)")
			for _, want := range []string{"\n-\t", `bus="0x07"`, "\n+\t", `bus="0x01"`} {
				if !strings.Contains(outcome.Details(), want) {
					t.Errorf("the diff has no %q:\n%s", want, outcome.Details())
				}
			}

			changed := 0
			for line := range strings.Lines(outcome.Details()) {
				if strings.HasPrefix(line, "+\t") || strings.HasPrefix(line, "-\t") {
					changed++
				}
			}
			expect.Same(t, 2, changed, "changed lines (-want +got)")
		})
	}

	// A wanted diff that does not fit the domain is compared as a text.
	text := sections(append(inputs, "want.txt", string(c.Section("want.txt")), "want.diff",
		"@@ -1,1 +1,1 @@\n-<other>\n+<one>\n")...)
	expect.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	_, outcome = cases.Run(file)
	if !strings.HasPrefix(outcome.Details(), "--- want.diff (wanted)\n") {
		t.Errorf("details: %s", outcome.Details())
	}
}

// TestRefused: what cannot be read is refused with its file and line.
func TestRefused(t *testing.T) {
	host := "cpus 0 0-3\npci0000:3a/0000:3a:00.0/0000:3b:00.0 nodes\n"
	dir := written(t,
		"settings.txtar", "why\n\n"+sections("case", "flags: layout=root\nhosts: x\n"),
		"value.txtar", sections("case", "flags:\n"),
		"twice.txtar", sections("case", "flags: layout=root\nflags: layout=numa\n"),
		"flag.txtar", sections("case", "# why\nflags: layot=root\n"),
		"flagvalue.txtar", sections("case", "flags: layout=tree\n"),
		"lock.txtar", sections("case", "lock: strictly\n"),
		"section.txtar", sections("case", "", "domains.xml", vmXML),
		"again.txtar", sections("host", "", "host", ""),
		"nodomain.txtar", sections("host", nodeLines),
		"nohost.txtar", sections("domain.xml", vmXML),
		"missing.txtar", sections("case", "host: nowhere\n", "domain.xml", vmXML),
		"xml.txtar", sections("host", nodeLines, "domain.xml", "<domain>\n<devices>\n</domain>\n"),
		"text.txtar", sections("host", nodeLines, "domain.xml", "hello\n"),
		"vmi.txtar", sections("host", nodeLines, "domain.xml", vmXML, "vmi.json", "{\n"),
		"host.txtar", sections("domain.xml", vmXML, "host", host),
		"env.txtar", sections("domain.xml", vmXML, "host", nodeLines, "env", "PCI_RESOURCE_A\n"),
		"dir/case", "", "dir/host", host, "dir/domain.xml", vmXML,
	)

	for name, want := range map[string]string{
		"settings":  `5: unknown key "hosts": must be one of `,
		"value":     `2: no value after "flags:"`,
		"twice":     `3: key "flags" appears twice`,
		"flag":      `3: flags: invalid policy key "layot"`,
		"flagvalue": `2: flags: `,
		"lock":      `2: lock: invalid policy key "strictly"`,
		"section":   `2: unknown section "domains.xml": must be one of `,
		"again":     `2: section host appears twice`,
		"nodomain":  `1: the case has no domain`,
		"nohost":    `1: the case has no host`,
		"missing":   `2: host: open `,
		"xml":       `7: parse domain: column 1: `,
		"text":      `5: read domain: neither XML nor `,
		"vmi":       `21: parse VMI: `,
		"host":      `19: read host: invalid attribute "nodes"`,
		"env":       `21: read environment: line 1: want NAME=VALUE`,
	} {
		file := filepath.Join(dir, name+".txtar")
		_, err := cases.Read(file)
		if err == nil || !strings.HasPrefix(err.Error(), file+":"+want) {
			t.Errorf("error %v, want %s:%s", err, file, want)
		}
	}

	_, err := cases.Read(filepath.Join(dir, "dir"))
	if want := filepath.Join(dir, "dir", "host") + ":2: read host: "; err == nil ||
		!strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}

	if found, err := cases.Find(t.TempDir()); err == nil {
		t.Errorf("cases of an empty directory: %v", found)
	}
}

// TestJUnit: the report counts failures and errors, and its text is that of the diffs.
func TestJUnit(t *testing.T) {
	data, err := cases.JUnit([]cases.Outcome{
		{Path: "good"},
		{Path: "bad", Differences: []cases.Difference{
			{Section: "want.txt", Diff: "-a\x1b\n+]]>b\n"},
		}},
		{Path: "broken", Broken: []string{"a second call changes the domain again:\n-a\n"}},
		{Path: "none", Err: os.ErrNotExist},
	})
	expect.NoError(t, err)

	var got struct {
		Suite struct {
			Tests    int `xml:"tests,attr"`
			Failures int `xml:"failures,attr"`
			Errors   int `xml:"errors,attr"`
			Cases    []struct {
				Name    string  `xml:"name,attr"`
				Failure *string `xml:"failure"`
				Error   *string `xml:"error"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	expect.NoError(t, xml.Unmarshal(data, &got))
	expect.Same(t, []int{4, 2, 1}, []int{got.Suite.Tests, got.Suite.Failures, got.Suite.Errors},
		"tests, failures, errors (-want +got)")
	if text := got.Suite.Cases[1].Failure; text == nil || *text != "-a?\n+]]>b\n" {
		t.Errorf("failure %v, want the diff", text)
	}
	if got.Suite.Cases[0].Failure != nil || got.Suite.Cases[3].Error == nil {
		t.Errorf("%s", data)
	}
}

// collectedFiles are those of an archive with one VM, whose domain has this text.
func collectedFiles(domain string) []archive.File {
	file := func(name, text string) archive.File {
		return archive.File{Name: name, Data: []byte(text)}
	}
	return []archive.File{
		file("objects/virtualmachineinstances.json", `{"items": [{"metadata": {"name": "vm",
			"namespace": "ns", "uid": "u", "annotations": {"hostdev.vm.kubevirt.io/layout": "root"},
			"managedFields": [{}]}, "spec": {"domain": {"devices": {}}},
			"status": {"phase": "Running"}}]}`),
		file("objects/pods.json", `{"items": [{"metadata": {"name": "pod", "namespace": "ns"},
			"spec": {"nodeName": "node-1", "containers": [{"name": "compute"},
			{"name": "hook-sidecar-0",
			"args": ["--version", "v1alpha3", "--strict=false", "--lock", "strict"]}]}}]}`),
		file("pods/ns/pod/domain.xml", domain),
		file("pods/ns/pod/hook-sidecar-0.txtar", "-- devices/system/node/online --\n0\n"),
		file("pods/ns/pod/variables.txt", "HOME=/root\nPCI_RESOURCE_A=0000:3b:00.0\n"),
	}
}

func packed(t *testing.T, files []archive.File) []byte {
	t.Helper()
	a := archive.Archive{
		Index: archive.Index{
			SchemaVersion: 1, Time: time.Unix(0, 0), VMs: []string{"ns/vm"},
			Removed: []archive.Removal{
				{File: "pods/ns/pod/domain.xml", What: "in a domain", Count: 1},
			},
		},
		Files: files,
	}
	var b bytes.Buffer
	expect.NoError(t, a.Pack(&b, "hostdev-vm"))
	return b.Bytes()
}

// TestCollected: a case of an archive has the domain, the VMI without what the cluster writes, and
// the variables of device plugins, and says what was removed. An archive is a case's domain, too.
func TestCollected(t *testing.T) {
	data := packed(t, collectedFiles(strings.Replace(vmXML, "of the user", "…", 1)))
	all, err := cases.OfArchive("vm.tar.gz", data)
	expect.NoError(t, err)
	expect.Same(t, 1, len(all), "VMs (-want +got)")
	vm := all[0]
	expect.Same(t, []string{"ns/vm", "node-1", "PCI_RESOURCE_A=0000:3b:00.0\n"},
		[]string{vm.String(), vm.Node, string(vm.Environ)}, "VM (-want +got)")
	expect.Same(t, []string{"--version", "v1alpha3", "--strict=false", "--lock", "strict"},
		vm.HookArgs, "arguments (-want +got)")

	made, err := vm.New(policy.Source{
		Flags:  map[policy.Key]string{policy.KeyLayout: "root", policy.KeyStrict: "true"},
		Locked: []policy.Key{policy.KeyStrict}, Keep: []string{"ua-gpu-gpu2"},
	}, "hosts/node-1.txtar")
	expect.NoError(t, err)
	for _, want := range []string{
		"VM ns/vm on node node-1",
		"removed from the domain, and the hook does not read: 1 in a domain.\n",
		"host: hosts/node-1.txtar\nflags: layout=root strict=true\nlock: strict\nkeep: ua-gpu-gpu2\n",
		"-- vmi.yaml --\napiVersion: kubevirt.io/v1\n", "hostdev.vm.kubevirt.io/layout: root",
		"-- env --\nPCI_RESOURCE_A=0000:3b:00.0\n",
	} {
		if !strings.Contains(string(made), want) {
			t.Errorf("the case has no %q:\n%s", want, made)
		}
	}
	for _, unwanted := range []string{"managedFields", "status", "HOME"} {
		if strings.Contains(string(made), unwanted) {
			t.Errorf("the case has %q:\n%s", unwanted, made)
		}
	}

	if _, err := vm.New(policy.Source{Keep: []string{"…"}}, "host"); err == nil {
		t.Error("a case without the aliases of --keep is made")
	}

	dir := written(t, "a.txtar", sections("case", "domain: vm.tar.gz\n"), "vm.tar.gz", string(data))
	c, err := cases.Read(filepath.Join(dir, "a.txtar"))
	expect.NoError(t, err)
	expect.Same(t, 1, len(c.Planner.Variables), "variables (-want +got)")
	if !bytes.Equal(c.Request.Domain, vm.Domain) || !bytes.Equal(c.Request.VMI, vm.VMI) {
		t.Error("the case is not of the archive")
	}
}

// TestCollectedRefused: an archive of which collect removed what the hook reads, or that lacks it,
// is refused.
func TestCollectedRefused(t *testing.T) {
	entry := `<sysinfo type="fwcfg">` +
		`<entry name="opt/org.kubevirt.hostdev/a">…</entry></sysinfo><os>`
	whole := collectedFiles(vmXML)
	for name, test := range map[string]struct {
		files []archive.File
		want  string
	}{
		"alias": {
			collectedFiles(strings.Replace(vmXML, "gpu1", "…", 1)), "removed a text of <alias>",
		},
		"entry": {
			collectedFiles(strings.Replace(vmXML, "<os>", entry, 1)),
			"removed a text of the hook's entry",
		},
		"vmi":    {whole[1:], "no object ns/vm of virtualmachineinstances"},
		"domain": {append(whole[:2:2], whole[3:]...), "no domain in it"},
		"host":   {append(whole[:3:3], whole[4:]...), "no snapshot of its node"},
		"foreign": {
			collectedFiles(strings.Replace(vmXML, "ns_vm", "vm", 1)), `"vm" is not of KubeVirt`,
		},
	} {
		if _, err := cases.OfArchive("a.tar.gz", packed(t, test.files)); err == nil ||
			!strings.HasPrefix(err.Error(), "read a.tar.gz: ") ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
	}

	if _, err := cases.OfArchive("a", []byte("hello")); err == nil {
		t.Error("a text is taken for an archive")
	}
}

// TestDiffWithoutLastNewline: a domain whose last line has no end differs in its own lines, not in those
// of want.diff.
func TestDiffWithoutLastNewline(t *testing.T) {
	const domain = "<domain><devices>\n<hostdev type='pci' managed='no'><source>" +
		"<address domain='0' bus='1' slot='0' function='0'/></source></hostdev>\n</devices></domain>"
	const wanted = "@@ -1,3 +1,3 @@\n-<domain><devices>\n+<domain  ><devices>\n" +
		" <hostdev type='pci' managed='no'><source>" +
		"<address domain='0' bus='1' slot='0' function='0'/></source></hostdev>\n" +
		" </devices></domain>\n\\ No newline at end of file\n"
	path := filepath.Join(t.TempDir(), "a.txtar")
	expect.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(path), "vm.xml"), []byte(domain), 0o644))
	expect.NoError(t, os.WriteFile(path, []byte("-- case --\ndomain: vm.xml\n-- host --\ncpus 0 0\n"+
		"-- want.diff --\n"+wanted), 0o644))
	_, outcome := cases.Run(path)
	expect.NoError(t, outcome.Err)
	if details := outcome.Details(); !strings.Contains(details, "domain.xml (wanted)") {
		t.Errorf("the diff is\n%s", details)
	}
}
