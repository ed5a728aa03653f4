package redact

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"hook-sidecar/test/expect"
	"hook-sidecar/test/secrets"
)

// TestObjects: a secret in each place of each object is removed, and the objects still have what
// commands read.
func TestObjects(t *testing.T) {
	removed := Removed{}
	for name, text := range secrets.Objects {
		var object map[string]any
		expect.NoError(t, yaml.Unmarshal([]byte(text), &object))
		removed.Add(Object(object))
		data, err := json.Marshal(object)
		expect.NoError(t, err)
		if strings.Contains(string(data), secrets.Planted) {
			t.Errorf("%s: %s", name, data)
		}

		for _, kept := range secrets.Kept(text) {
			if !strings.Contains(string(data), kept) {
				t.Errorf("%s: no %q in %s", name, kept, data)
			}
		}
	}

	for _, rule := range []Rule{
		Values, Arguments, Annotations, CloudInit, Headers, Data, Opaque, Named, Messages,
	} {
		if removed[rule] == 0 {
			t.Errorf("no object has %s", rule)
		}
	}
}

// TestDomain: a secret in each place of a domain is removed; its devices and the firmware's entries
// stay, byte for byte.
func TestDomain(t *testing.T) {
	safe, removed := Domain(secrets.Domain)
	if strings.Contains(safe, secrets.Planted) ||
		removed[Domains] != strings.Count(secrets.Domain, secrets.Planted) {
		t.Errorf("%v: %s", removed, safe)
	}

	for line := range strings.Lines(secrets.Domain) {
		if !strings.Contains(line, secrets.Planted) && !strings.Contains(safe, line) {
			t.Errorf("removed: %s", line)
		}
	}

	for _, file := range []string{
		"02-8gpu-8nic-gate-off.libvirt9-inactive.xml", "01-single-gpu.libvirt9-inactive.xml",
	} {
		domain := string(expect.File(t, "../../../../testdata/samples/"+file))
		safe, _ := Domain(domain)
		for line := range strings.Lines(domain) {
			if !strings.Contains(line, "<entry ") && !strings.Contains(safe, line) {
				t.Errorf("%s: removed %s", file, line)
			}
		}
	}
}

// TestLog: no spelling of a secret stays in a log: as text, on several lines, as JSON, or in a
// domain that virt-launcher dumps. What follows an entry with a secret stays.
func TestLog(t *testing.T) {
	const after = `{"level":"error","msg":"cannot limit locked memory of process 84",` +
		`"timestamp":"2026-11-22T10:00:00Z"}` + "\n"
	for name, spelling := range allSpellings() {
		entry, err := json.Marshal(map[string]string{
			"level": "info", "msg": spelling, "reason": "a: " + spelling,
		})

		expect.NoError(t, err)
		for _, text := range []string{
			spelling, "2026-11-22T10:00:00Z " + spelling, string(entry), "compute " + string(entry),
		} {
			safe, _ := Log(text + "\n" + after)
			if strings.Contains(safe, secrets.Planted) || !strings.HasSuffix(safe, after) {
				t.Errorf("%s: %s", name, safe)
			}
		}
	}

	dump := `{"level":"info","msg":"Domain XML generated. Base64 dump ` +
		base64.StdEncoding.EncodeToString([]byte(secrets.Domain)) + `"}` + "\n"
	safe, removed := Log(dump + after)
	_, encoded, _ := strings.Cut(safe, "dump ")
	encoded, _, _ = strings.Cut(encoded, `"`)
	xml, err := base64.StdEncoding.DecodeString(encoded)
	expect.NoError(t, err)
	want, _ := Domain(secrets.Domain)
	expect.Same(t, want, string(xml), "the domain of a log (-want +got)")
	if removed[Domains] == 0 || !strings.HasSuffix(safe, after) {
		t.Errorf("%v: %s", removed, safe)
	}
}

// TestLogSplits: a key of which each line has a time, as a container's log prints it, and a number
// are removed; what comes after them stays.
func TestLogSplits(t *testing.T) {
	const at, after = "2026-11-22T10:00:00Z ", "2026-11-22T10:00:01Z cannot attach 0000:1b:00.0\n"
	key := at + "-----BEGIN PRIVATE KEY-----\n" + at + secrets.Planted + "\n" + at +
		"-----END PRIVATE KEY-----\n"
	const number = `{"level":"info","msg":"unlock","pin":482913,"pins":[482913],` +
		`"vm":{"password":482913},"attempt":3}` + "\n"
	safe, removed := Log(key + number + after)
	if strings.Contains(safe, secrets.Planted) || strings.Contains(safe, "482913") ||
		!strings.Contains(safe, `"attempt":3`) || !strings.HasSuffix(safe, after) {
		t.Errorf("%v: %s", removed, safe)
	}
}

// TestLogBlocks: a block of YAML of which each line has a time is removed; the entry after it stays.
func TestLogBlocks(t *testing.T) {
	const at, after = "2026-11-22T10:00:00Z ", "2026-11-22T10:00:01Z cannot attach 0000:1b:00.0\n"
	for _, block := range []string{
		"NAME   PASSWORD\nvm1    %\nvm2    %\n", "chpasswd:\n  list: |\n    root:%\n",
		"late-commands:\n- activate %\n",
		"I1122 10:00:00.1 1 a.go:1] chpasswd:\n  list: |\n    root:%\n",
	} {
		block = strings.ReplaceAll(strings.TrimSuffix(block, "\n"), "\n", "\n"+at) + "\n"
		safe, _ := Log(at + strings.ReplaceAll(block, "%", secrets.Planted) + after)
		if strings.Contains(safe, secrets.Planted) || !strings.HasSuffix(safe, after) {
			t.Errorf("%s", safe)
		}
	}
}

// TestVariables: device plugins' variables stay, and of others the names.
func TestVariables(t *testing.T) {
	kept, removed := Variables([]string{
		"PCI_RESOURCE_NVIDIA_COM_GH100=0000:1b:00.0,0000:43:00.0", "TOKEN=" + secrets.Planted,
		"MDEV_PCI_RESOURCE_A=9a3d4e5f-0000-4000-8000-000000000001",
		"PCI_RESOURCE_B=" + secrets.Planted,
	})

	want := []string{
		"PCI_RESOURCE_NVIDIA_COM_GH100=0000:1b:00.0,0000:43:00.0", "TOKEN=…",
		"MDEV_PCI_RESOURCE_A=9a3d4e5f-0000-4000-8000-000000000001", "PCI_RESOURCE_B=…",
	}

	if !slices.Equal(kept, want) || removed[Values] != 2 {
		t.Errorf("%q, %v", kept, removed)
	}
}

// BenchmarkLog takes a line of virt-launcher.
func BenchmarkLog(b *testing.B) {
	line := `{"component":"virt-launcher","kind":"","level":"info",` +
		`"msg":"Domain name event: RESUMED (UNPAUSED) after 3 of 12 tries","name":"dgx",` +
		`"namespace":"default","pos":"manager.go:1250",` +
		`"timestamp":"2026-11-22T10:00:00.123456Z",` +
		`"uid":"2d5a0c3e-1f0b-4b6a-9a50-2f9b3ec4f1aa"}` + "\n"
	text := strings.Repeat(line, 1000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		Log(text)
	}
}
