package paste_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"hook-sidecar/pkg/tools/paste"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/oracle"
	"hook-sidecar/test/pastes"
)

// needs skips a test where a program is missing, unless it has to be there.
func needs(t *testing.T, program, debian string) {
	t.Helper()
	switch _, err := exec.LookPath(program); {
	case err != nil && os.Getenv(oracle.RequireVariable) == "1":
		t.Fatal(err)
	case err != nil:
		t.Skipf("%v; install %s", err, debian)
	}
}

// output returns what a program prints.
func output(t *testing.T, name string, arguments ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, arguments...)
	var out, stderr bytes.Buffer
	command.Stdout, command.Stderr = &out, &stderr
	if err := command.Run(); err != nil {
		t.Fatalf("%v: %v: %s", command.Args, err, &stderr)
	}

	return out.String()
}

// TestPciutils: the printers of package pastes write what pciutils' lspci writes about the same
// /sys, letter by letter; what it writes with -vv is read as the printer's.
func TestPciutils(t *testing.T) {
	needs(t, "lspci", "pciutils")
	ids := filepath.Join(t.TempDir(), "pci.ids")
	expect.NoError(t, os.WriteFile(ids, []byte(pastes.PCIIDs()), 0o600))
	for i, name := range pastes.Names(t, "") {
		if !expect.IsSampled(i, 16) {
			continue
		}

		m := pastes.Load(t, name)
		sys := m.WriteSysfs(t)
		for flags, print := range map[string]func(*pastes.Machine) string{
			"":        pastes.LspciList(pastes.WithNames),
			"-n":      pastes.LspciList(pastes.WithNumbers),
			"-nn":     pastes.LspciList(pastes.WithBoth),
			"-Dvmm":   pastes.LspciRecords(pastes.WithNames),
			"-Dvmmn":  pastes.LspciRecords(pastes.WithNumbers),
			"-Dvmmnn": pastes.LspciRecords(pastes.WithBoth),
			"-t":      pastes.LspciTree(pastes.WithoutNames),
			"-tv":     pastes.LspciTree(pastes.NamesIn(pastes.WithNames)),
			"-tvnn":   pastes.LspciTree(pastes.NamesIn(pastes.WithBoth)),
			"-vv":     pastes.LspciVerbose,
		} {
			arguments := []string{"-A", "linux-sysfs", "-O", "sysfs.path=" + sys + "/bus/pci", "-i", ids}
			if flags != "" {
				arguments = append(arguments, flags)
			}

			want, got := output(t, "lspci", arguments...), print(m)
			if flags == "-vv" {
				want, got = readText(t, want), readText(t, got)
			}
			expect.Same(t, want, got, "lspci %s of %s (-lspci +printer)", flags, name)
		}
	}
}

// withRegisters is a machine whose registers are described: a GPU and a NIC under one switch.
const withRegisters = `cpus 0 0-3
pci0000:10 node=0
  0000:10:00.0 ids=8086:09a2 class=0x088000 acs=none
  0000:10:01.0 bridge ids=8086:352a acs=default atomics=routing,32,64 group=1
    0000:11:00.0 bridge ids=1000:c030 acs=none atomics=routing group=2
      0000:12:00.0 bridge ids=1000:c030 acs=default,dt atomics=routing group=3
        0000:13:00.0 nic ids=15b3:1021 ats=on group=10
      0000:12:01.0 bridge ids=1000:c030 acs=default,tb,ec group=4
        0000:14:00.0 gpu ids=10de:2330 ats=none atomics=32,128 group=11
`

// TestRegistersOfLspci: lspci -vv prints registers as the printer does.
func TestRegistersOfLspci(t *testing.T) {
	needs(t, "lspci", "pciutils")
	m := pastes.Parse(t, withRegisters)
	sys := m.WriteSysfs(t)
	want := output(t, "lspci", "-A", "linux-sysfs", "-O", "sysfs.path="+sys+"/bus/pci", "-vv")
	expect.Same(t, readText(t, want), readText(t, pastes.LspciVerbose(m)), "(-lspci +printer)")
}

// readText returns what is read of a text, as text.
func readText(t *testing.T, text string) string {
	t.Helper()
	m, _, err := paste.Read([]byte(text))
	expect.NoError(t, err)
	return machineText(m)
}

// TestHwloc: what hwloc's lstopo prints of a machine's /sys is read as what the printers print.
func TestHwloc(t *testing.T) {
	needs(t, "lstopo-no-graphics", "hwloc-nox")
	for i, name := range pastes.Names(t, "") {
		if !expect.IsSampled(i, 16) {
			continue
		}

		m := pastes.Load(t, name)
		sys := m.WriteSysfs(t)
		for flags, print := range map[string]func(*pastes.Machine) string{
			"--of xml": pastes.LstopoXML(2),
			"-v":       pastes.LstopoText(2, true),
		} {
			got := output(t, "unshare", "--map-root-user", "--mount", "sh", "-c", "mount --bind "+sys+
				" /sys && HWLOC_COMPONENTS=-x86 lstopo-no-graphics --disallowed "+flags)
			expect.Same(t, readText(t, got), readText(t, print(m)), "lstopo %s of %s "+
				"(-lstopo +printer)", flags, name)
		}
	}
}
