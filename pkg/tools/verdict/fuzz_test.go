package verdict_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode"

	"hook-sidecar/pkg/report"
	"hook-sidecar/pkg/tools/paste"
	"hook-sidecar/pkg/tools/verdict"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/pastes"
)

// FuzzVerdict: whatever is pasted, also of guest and host at once, the verdict is one: each pair is
// counted once, GPUDirect RDMA has a NIC, and the text has no control characters.
func FuzzVerdict(f *testing.F) {
	for i, th := range threads {
		f.Add([]byte(th.text(f)), []byte(threads[len(threads)-1-i].text(f)))
	}

	small := many(f, 4, "")
	for _, format := range formatsOfBoth() {
		f.Add([]byte(format.Print(small)), []byte(pastes.TopoM.Print(small)))
	}

	f.Fuzz(func(t *testing.T, guest, host []byte) {
		m, _, err := paste.Read(guest)
		if err != nil {
			return
		}

		v := verdict.New(m, nil)
		checkVerdict(t, v)
		if h, _, err := paste.Read(host); err == nil {
			v = verdict.New(m, &h)
			checkVerdict(t, v)
			_, _ = v.TopologyFile() // an error says what is missing
		}

		var text bytes.Buffer
		expect.NoError(t, v.WriteText(&text, report.Style{}))
		if i := strings.IndexFunc(text.String(), func(r rune) bool {
			return unicode.IsControl(r) && r != '\n'
		}); i >= 0 {
			t.Errorf("a control character at %d in %q", i, text.String())
		}
	})
}

// checkVerdict checks what each verdict keeps to.
func checkVerdict(t *testing.T, v verdict.Verdict) {
	t.Helper()
	gpus, nics := len(v.GPUs), len(v.NICs)
	for i, want := range []int{gpus * (gpus - 1) / 2, gpus * nics} {
		r := v.Relations[i]
		if got := r.PIX + r.PXB + r.PHB + r.NODE + r.SYS + r.Linked + r.Unknown; got != want {
			t.Errorf("%d pairs of %s, of %d GPUs and %d NICs", got, r.Kind, gpus, nics)
		}
	}

	for _, gpu := range v.GPUs {
		if gpu.Direct != nil && (gpu.NIC == nil || gpu.Path == nil) {
			t.Errorf("%s: GPUDirect RDMA without a NIC", gpu.Name)
		}
	}
}
