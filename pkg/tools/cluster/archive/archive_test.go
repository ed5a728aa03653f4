package archive_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"hook-sidecar/pkg/tools/cluster/archive"
	"hook-sidecar/test/expect"
)

// packed returns a tar archive of files, by name.
func packed(t *testing.T, files ...archive.File) []byte {
	t.Helper()
	return packedAs(t, tar.FormatUnknown, files...)
}

// packedAs returns a tar archive in a format, which may be any.
func packedAs(t *testing.T, format tar.Format, files ...archive.File) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		expect.NoError(t, w.WriteHeader(&tar.Header{
			Name: f.Name, Mode: 0o644, Size: int64(len(f.Data)), Format: format,
		}))
		_, err := w.Write(f.Data)
		expect.NoError(t, err)
	}

	expect.NoError(t, w.Close())
	return b.Bytes()
}

func file(name, text string) archive.File { return archive.File{Name: name, Data: []byte(text)} }

// TestPackAndParse: what is packed is read again, without the archive's directory. The Index comes
// first, the files by name, each with the time of the collection.
func TestPackAndParse(t *testing.T) {
	at := time.Date(2026, 11, 24, 19, 0, 0, 0, time.UTC)
	log := file(archive.OfPod("ns", "virt-launcher-vm", archive.LogOf("compute", false)), "a line\n")
	pods := file(archive.ObjectsOf("pods"), "{}\n")
	a := archive.Archive{
		Index: archive.Index{
			SchemaVersion: 1, Time: at, Tool: "test", VMs: []string{"ns/vm"},
			Versions: map[string]string{"KubeVirt": "v1.9.0"},
			Removed:  []archive.Removal{{File: pods.Name, What: "env", Count: 2}},
			Unread:   []archive.Gap{{What: archive.Objects("ns", "events"), Why: "refused"}},
		},
		Files: []archive.File{log, pods},
	}

	var compressed bytes.Buffer
	expect.NoError(t, a.Pack(&compressed, "hostdev-vm"))
	plain, err := gzip.NewReader(&compressed)
	expect.NoError(t, err)
	data, err := io.ReadAll(plain)
	expect.NoError(t, err)

	var names []string
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		header, err := r.Next()
		if err == io.EOF {
			break
		}

		expect.NoError(t, err)
		names = append(names, header.Name)
		if !header.ModTime.Equal(at) {
			t.Errorf("%s is of %s, want %s", header.Name, header.ModTime, at)
		}
	}

	expect.Same(t, []string{
		"hostdev-vm/collected.yaml", "hostdev-vm/objects/pods.json",
		"hostdev-vm/pods/ns/virt-launcher-vm/compute.log",
	}, names, "names (-want +got)")

	in, err := archive.Parse("vm.tar", data)
	expect.NoError(t, err)
	if in.Collected == nil || !in.IsPacked {
		t.Fatalf("%+v is not what collect wrote", in)
	}

	expect.Same(t, a.Index, *in.Collected, "index (-want +got)")
	expect.Same(t, []archive.File{pods, log}, in.Files, "files (-want +got)")
}

// TestParse: a user's file is one text, or an archive of texts. What is empty or not text is left
// out of an archive, and refused alone.
func TestParse(t *testing.T) {
	units := utf16.Encode([]rune("a lög"))
	little, big := "\xff\xfe", "\xfe\xff"
	for _, u := range units {
		little += string([]byte{byte(u), byte(u >> 8)})
		big += string([]byte{byte(u >> 8), byte(u)})
	}

	for name, test := range map[string]struct {
		data string
		want string // the texts, or the end of the error
	}{
		"text":            {"a lög", "a lög"},
		"with a mark":     {"\ufeffa lög", "a lög"},
		"PowerShell's":    {little, "a lög"},
		"big-endian":      {big, "a lög"},
		"empty":           {" \n\t", "it is empty"},
		"not text":        {"\x7fELF\x00", "it is not text"},
		"an archive":      {string(packed(t, file("./a", "one"), file("b/c", "two"))), "one two"},
		"with a program":  {string(packed(t, file("a", "\x7fELF\x00"), file("b", "two"))), "two"},
		"only empty":      {string(packed(t, file("a", " "))), "it has no text file"},
		"cut in a file":   {string(packed(t, file("a", "one"))[:514]), "its end is missing: copy the whole archive"},
		"an index of two": {string(packed(t, file(archive.IndexName, "schemaVersion: 2"))), "knows 1"},
	} {
		in, err := archive.Parse("name", []byte(test.data))
		var texts []string
		for _, f := range in.Files {
			texts = append(texts, string(f.Data))
		}

		got := strings.Join(texts, " ")
		if err != nil {
			got = err.Error()
			if !strings.HasPrefix(got, "read name: ") {
				t.Errorf("%s: error %q names no file", name, got)
			}
		}

		if !strings.HasSuffix(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// TestParseCut: an archive whose end is missing is refused wherever it was cut, also between two
// files. One of the two blocks of zeros is an end, too (GNU tar src/list.c, read_and).
func TestParseCut(t *testing.T) {
	const block = 512
	// A long name has a header of its own, and a file may end in a block of zeros.
	long, zeros := strings.Repeat("b", 151), strings.Repeat("a", block)+strings.Repeat("\x00", block)
	for _, format := range []tar.Format{tar.FormatGNU, tar.FormatPAX} {
		whole := packedAs(t, format, file("a", zeros), file(long, "two"))
		for size := block; size <= len(whole); size++ {
			in, err := archive.Parse("cut", whole[:size])
			if isWhole := size == len(whole)-block || size == len(whole); isWhole != (err == nil) {
				t.Fatalf("%s, %d of %d bytes: %d files, error %v", format, size, len(whole),
					len(in.Files), err)
			}
		}
	}
}

// TestParseHuge: the size that a header claims takes no memory before the data is there.
func TestParseHuge(t *testing.T) {
	var b bytes.Buffer
	expect.NoError(t, tar.NewWriter(&b).WriteHeader(&tar.Header{Name: "a", Size: 1 << 40}))
	if in, err := archive.Parse("name", b.Bytes()); err == nil {
		t.Errorf("%+v, want an error", in)
	}
}

// TestParseCompressed: what gzip has compressed counts against one limit for all files, while it is
// read. The others of the archive are read.
func TestParseCompressed(t *testing.T) {
	const half = 33 << 20
	var big bytes.Buffer
	w := gzip.NewWriter(&big)
	_, err := w.Write(bytes.Repeat([]byte("a line\n"), half/7))
	expect.NoError(t, err)
	expect.NoError(t, w.Close())

	in, err := archive.Parse("vm.tar", packed(t,
		archive.File{Name: "a.log.gz", Data: big.Bytes()},
		archive.File{Name: "b.log.gz", Data: big.Bytes()},
		archive.File{Name: "c.log.gz", Data: big.Bytes()},
		archive.File{Name: "d.log", Data: []byte("a line\n")},
	))
	expect.NoError(t, err)
	if len(in.Files) != 2 || len(in.Skipped) != 2 ||
		!strings.Contains(in.Skipped[0].Why, "b.log.gz: more than") {
		t.Errorf("%d files, skipped %v", len(in.Files), in.Skipped)
	}
}

// TestNames: the names of a pod's files are read as they are written.
func TestNames(t *testing.T) {
	for _, isBefore := range []bool{false, true} {
		f := archive.File{Name: archive.OfPod("ns", "pod", archive.LogOf("compute", isBefore))}
		namespace, pod, container, isLog := f.Log()
		if namespace != "ns" || pod != "pod" || container != "compute" || !isLog {
			t.Errorf("%s: %q %q %q %v", f.Name, namespace, pod, container, isLog)
		}
	}

	f := archive.File{Name: archive.OfPod("ns", "pod", archive.SnapshotIn("compute"))}
	if namespace, pod, isSnapshot := f.Snapshot(); namespace != "ns" || pod != "pod" || !isSnapshot {
		t.Errorf("%s: %q %q %v", f.Name, namespace, pod, isSnapshot)
	}

	for _, name := range []string{
		"compute.log", "pods/pod/compute.log", "pods/ns/pod/domain.xml", "objects/a/b/c.log",
		archive.ObjectsOf("pods"),
	} {
		f := archive.File{Name: name}
		if _, _, _, isLog := f.Log(); isLog {
			t.Errorf("%s counts as a log", name)
		}
		if f.IsObjects() != strings.HasPrefix(name, "objects/") {
			t.Errorf("%s: objects %v", name, f.IsObjects())
		}
	}
}
