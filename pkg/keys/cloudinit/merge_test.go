package cloudinit_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hook-sidecar/pkg/keys/cloudinit"
	"hook-sidecar/test/expect"
)

// part is a part of a MIME message as a mail reader sees it.
type part struct {
	kind, name string
	content    []byte
}

// partsOf reads a message with Go's own readers.
func partsOf(t *testing.T, data []byte) []part {
	t.Helper()
	message, err := mail.ReadMessage(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("%v in %s", err, data)
	}

	kind, parameters, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/mixed" || message.Header.Get("MIME-Version") != "1.0" {
		t.Fatalf("%s, %v: %v", kind, parameters, err)
	}

	var parts []part
	for reader := multipart.NewReader(message.Body, parameters["boundary"]); ; {
		p, err := reader.NextRawPart()
		if errors.Is(err, io.EOF) {
			return parts
		}

		expect.NoError(t, err)
		var body io.Reader = p
		if p.Header.Get("Content-Transfer-Encoding") == "base64" {
			body = base64.NewDecoder(base64.StdEncoding, p)
		}

		content, err := io.ReadAll(body)
		expect.NoError(t, err)
		parts = append(parts, part{p.Header.Get("Content-Type"), p.FileName(), content})
	}
}

const boothook = "#cloud-boothook\n" + cloudinit.Script

// samples returns the user data of testdata, by the name of the file.
func samples(tb testing.TB) map[string][]byte {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "testdata", "userdata", "*"))
	if err != nil || len(files) < 10 {
		tb.Fatalf("%d samples: %v", len(files), err)
	}

	all := map[string][]byte{}
	for _, file := range files {
		if all[filepath.Base(file)], err = os.ReadFile(file); err != nil {
			tb.Fatal(err)
		}
	}

	return all
}

func isMessage(data []byte) bool { return bytes.Contains(data, []byte("MIME-Version:")) }

// TestMerge: the user's data is one part, byte for byte, the boothook the other one, and
// a second Merge changes nothing. The lane cloudinit asks cloud-init what it makes of it.
func TestMerge(t *testing.T) {
	for name, data := range samples(t) {
		t.Run(name, func(t *testing.T) {
			merged, err := cloudinit.Merge(data)
			expect.NoError(t, err)
			if again, err := cloudinit.Merge(merged); err != nil || !bytes.Equal(again, merged) {
				t.Errorf("merged again: %v\n%s", err, again)
			}

			if isMessage(data) {
				if !bytes.Contains(merged, data) {
					t.Errorf("the message is not in the result as it was:\n%s", merged)
				}
			}

			parts := partsOf(t, merged)
			if len(parts) != 2 {
				t.Fatalf("%d parts:\n%s", len(parts), merged)
			}

			if p := parts[0]; !isMessage(data) &&
				(p.kind != "text/plain" || p.name != "" || !bytes.Equal(p.content, data)) {
				t.Errorf("the user's part is %q %q:\n%q\nwant\n%q", p.kind, p.name, p.content, data)
			}

			if p := parts[1]; p.kind != "text/cloud-boothook" || p.name != "nccl-topology" ||
				string(p.content) != boothook {
				t.Errorf("the hook's part is %q %q:\n%s", p.kind, p.name, p.content)
			}
		})
	}
}

func compressed(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}

	expect.NoError(t, w.Close())
	return b.Bytes()
}

// TestMergeCompressed: compressed data gives what the plain data gives.
func TestMergeCompressed(t *testing.T) {
	for name, data := range samples(t) {
		want, err := cloudinit.Merge(data)
		expect.NoError(t, err)
		if got, err := cloudinit.Merge(compressed(t, data)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
}

func TestMergeNothing(t *testing.T) {
	for _, data := range []string{"", "\n", " \r\n"} {
		got, err := cloudinit.Merge([]byte(data))
		if err != nil || string(got) != boothook {
			t.Errorf("%q: %v\n%s", data, err, got)
		}
	}
}

// TestMergeRefuses: what is not cloud-init's stays, and the error shows none of it.
func TestMergeRefuses(t *testing.T) {
	const secret = "hunter2"
	for name, tc := range map[string]struct {
		data []byte
		want string
	}{
		"Ignition": {[]byte(`{"ignition": "` + secret + `"}`),
			"nothing that cloud-init knows"},
		"cloudbase-init": {[]byte("#ps1_sysnative\n" + secret),
			"nothing that cloud-init knows"},
		"without a beginning": {[]byte("password: " + secret), "nothing that cloud-init knows"},
		"MIME in Latin-1":     {[]byte("MIME-Version: 1.0\n\n\xe9" + secret), "not UTF-8"},
		"compressed, mangled": {[]byte("\x1f\ufffd\b" + secret), "of a Secret is lost"},
		"compressed, cut off": {compressed(t, []byte("#cloud-config\n"+secret))[:20],
			"decompress"},
		"compressed, too large": {compressed(t, make([]byte, 3<<20)), "more than 2097152 bytes"},
	} {
		got, err := cloudinit.Merge(tc.data)
		if err == nil || !strings.Contains(err.Error(), tc.want) ||
			strings.Contains(err.Error(), secret) || got != nil {
			t.Errorf("%s: %q, %v, want %q", name, got, err, tc.want)
		}
	}
}

// FuzzMerge: whatever the data, it is kept byte for byte or refused, and a second Merge
// changes nothing.
func FuzzMerge(f *testing.F) {
	for _, data := range samples(f) {
		f.Add(data)
	}

	f.Add([]byte(boothook))
	f.Fuzz(func(t *testing.T, data []byte) {
		merged, err := cloudinit.Merge(data)
		if err != nil {
			return
		}

		if again, err := cloudinit.Merge(merged); err != nil || !bytes.Equal(again, merged) {
			t.Errorf("merged again: %v\n%s", err, again)
		}

		kept := base64.StdEncoding.EncodeToString(data)
		isKept := bytes.Contains(merged, data) ||
			strings.Contains(strings.ReplaceAll(string(merged), "\n", ""), kept)
		isCompressed := bytes.HasPrefix(data, []byte{0x1f, 0x8b})
		if !cloudinit.HasReader(merged) || !isKept && !isCompressed &&
			len(bytes.TrimSpace(data)) > 0 {
			t.Errorf("%q is not kept in\n%s", data, merged)
		}
	})
}
