package why

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"

	"hook-sidecar/test/expect"
	"hook-sidecar/test/secrets"
)

// archived returns a tar archive of files.
func archived(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, text := range files {
		expect.NoError(t,
			w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text))}))
		_, err := w.Write([]byte(text))
		expect.NoError(t, err)
	}

	expect.NoError(t, w.Close())
	return b.Bytes()
}

// TestFiles: a file may be an archive, or from PowerShell.
func TestFiles(t *testing.T) {
	text := event(vmi, "SyncFailed", "10:00:00", noMemlock)
	files := map[string]string{
		"bundle/events.yaml": text, "bundle/empty.log": "", "bundle/core": "\x00\x01",
	}

	var wide []byte
	for _, unit := range utf16.Encode([]rune("\ufeff" + text)) {
		wide = binary.LittleEndian.AppendUint16(wide, unit)
	}

	for name, data := range map[string][]byte{
		"as it is": []byte(text), "with a byte order mark": []byte("\ufeff" + text), "UTF-16": wide,
		"tar": archived(t, files),
	} {
		e := &Evidence{Report: Report{Namespace: "ml", Name: "vm"}}
		expect.NoError(t, e.AddFile("f", data))
		expect.NoError(t, e.Missing())
		if got := causes(e.Diagnose().Causes); got != "locked-memory" {
			t.Errorf("%s: causes %q", name, got)
		}
	}
}

// TestBadFiles: what is no text is refused.
func TestBadFiles(t *testing.T) {
	for want, data := range map[string][]byte{
		"read f: it is empty":         []byte(" \n"),
		"read f: it is not text":      []byte("\x7fELF\x00\x00"),
		"read f: it has no text file": archived(t, map[string]string{"core": "\x00"}),
		"read f: its end is missing: copy the whole archive": archived(t, map[string]string{
			"a": strings.Repeat("a", 4096),
		})[:1024],
	} {
		e := &Evidence{}
		if err := e.AddFile("f", data); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// TestMissing: files of other VMs are no evidence, and it is said which VMs they have.
func TestMissing(t *testing.T) {
	handler := `{"component":"virt-handler","kind":"VirtualMachineInstance","level":"error",` +
		`"msg":"Synchronizing the VirtualMachineInstance failed.","name":"dgx","namespace":"ml",` +
		`"reason":"` + noMemlock + `"}`
	launcher := `{"component":"virt-launcher","level":"error","msg":"` + noMemlock + `"}` + "\n" +
		`{"component":"virt-launcher","kind":"","level":"error","msg":"Failed to sync vmi",` +
		`"name":"dgx","namespace":"ml"}`
	for _, tt := range []struct {
		name, namespace, vm, text, want string
	}{
		{"its event", "ml", "vm", event(vmi, "SyncFailed", "10:00:00", noMemlock), ""},
		{"its pod's event", "ml", "vm", event(pod, "Failed", "10:00:00", noMemlock), ""},
		{"a log that names none", "ml", "vm", noMemlock, ""},
		{"no namespace", "", "vm", event(vmi, "SyncFailed", "10:00:00", noMemlock), ""},
		{"another's event", "ml", "vm2", event(vmi, "SyncFailed", "10:00:00", noMemlock),
			"the files have no VM ml/vm2; they have ml/vm"},
		{"another namespace", "dev", "vm", event(vmi, "SyncFailed", "10:00:00", noMemlock),
			"the files have no VM dev/vm; they have ml/vm"},
		{"virt-handler's log", "ml", "vm", handler, "the files have no VM ml/vm; they have ml/dgx"},
		{"another's log", "ml", "vm", launcher, "the files have no VM ml/vm; they have ml/dgx"},
		{"libvirt's name of another", "ml", "vm",
			"error: QEMU unexpectedly closed the monitor (vm='ml_dgx'): " + noMemlock,
			"the files have no VM ml/vm; they have ml/dgx"},
		{"a node", "ml", "vm", "kind: Node\nmetadata: {name: gpu-1}\n",
			"the files have no VM ml/vm, and no line of a log"},
		{"two of the name", "", "dgx", handler + "\n" +
			strings.ReplaceAll(handler, `"ml"`, `"dev"`),
			"the files have several VMs of this name: dev/dgx, ml/dgx"},
	} {
		e := &Evidence{Report: Report{Namespace: tt.namespace, Name: tt.vm}}
		expect.NoError(t, e.AddFile("f", []byte(tt.text)))
		var got string
		if err := e.Missing(); err != nil {
			got = err.Error()
		}

		expect.Same(t, tt.want, got, "%s: error (-want +got)", tt.name)
		if found := causes(e.Diagnose().Causes); tt.want == "" && found != "locked-memory" ||
			strings.Contains(tt.want, "no VM") && found != "" {
			t.Errorf("%s: causes %q", tt.name, found)
		}
	}
}

// longLog returns a log of virt-launcher of so many bytes that names a cause at its end.
func longLog(size int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < size; i++ {
		level := []string{"info", "info", "info", "warning", "error"}[i%5]
		b.WriteString(`{"component":"virt-launcher","level":"` + level +
			`","msg":"About to run command, and what it prints is in a line as long as this ` +
			`one","pos":"virCommandRunAsync:2656","subcomponent":"libvirt","thread":"46",` +
			`"timestamp":"2025-03-12T03:00:04.018000Z"}` + "\n")
	}

	b.WriteString(busy)
	return b.Bytes()
}

// kernelLog returns a log of a node's kernel of about a size, each line of which names a device.
func kernelLog(size int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "[%12.6f] vfio-pci 0000:%02x:00.0: %s\n", 100+float64(i)/8, i%200,
			[]string{"resetting", "reset done", "enabling device (0000 -> 0002)"}[i%3])
	}
	return b.Bytes()
}

// BenchmarkLongLog reads 18 MB of a log, and for comparison only splits it into lines that are
// decoded as JSON.
func BenchmarkLongLog(b *testing.B) {
	data := longLog(18e6)
	text := bytes.ReplaceAll(data, []byte(`{"`), []byte(`<`)) // as QEMU and guests print it
	kernel := kernelLog(18e6)
	for name, data := range map[string][]byte{"json": data, "text": text, "kernel": kernel} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				e := &Evidence{Report: Report{Name: "vm"}}
				expect.NoError(b, e.AddFile("f", data))
				if r := e.Diagnose(); name == "json" && causes(r.Causes) != "device-in-use" {
					b.Fatalf("%+v", r)
				}
			}
		})
	}

	b.Run("reference", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			for line := range strings.SplitSeq(string(data), "\n") {
				decode(line, &entryOfLog{})
			}
		}
	})
}

// FuzzFile: no file ends the program, and what is shown is text of limited length.
func FuzzFile(f *testing.F) {
	for _, spelling := range secrets.Spellings {
		f.Add([]byte("error: " + spelling))
	}

	for _, text := range []string{
		busy + started, event(vmi, "SyncFailed", "10:00:00", noMemlock),
		"5s Warning Failed pod/virt-launcher-vm-x7k2p no",
	} {
		f.Add([]byte(text))
	}

	f.Fuzz(func(t *testing.T, data []byte) {
		e := &Evidence{Report: Report{Name: "vm"}}
		if e.AddFile("f", data) != nil {
			return
		}

		e.Missing()

		for _, line := range e.Diagnose().Errors {
			if len(line.Text) > 400 || strings.Contains(line.Text, "\n") {
				t.Errorf("shown: %q", line.Text)
			}
		}
	})
}
