package plan_test

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
)

// TestRefusal: virt-handler writes the refusal of strict policy into an event, of
// which Kubernetes keeps 1024 bytes (k8s.io/api, Event.Message). It names devices by
// reason and each remedy once, and is one line whatever the names.
func TestRefusal(t *testing.T) {
	const most = 1024
	refusal := func(devices int, change func(domain []byte) []byte) string {
		req, m := crowded(t, devices)
		m.Flags = map[policy.Key]string{policy.KeyStrict: "true", policy.KeyLayout: "numa"}
		result := m.Read(plan.Request{Domain: change(req.Domain)}).Plan()
		if !result.IsRefused() {
			t.Fatalf("%d devices: %v, want a refusal", devices, result.Err)
		}

		text := result.Err.Error()
		if len(text) > most {
			t.Errorf("%d devices: %d bytes, want at most %d: %s", devices, len(text), most, text)
		}

		return text
	}

	cells := regexp.MustCompile(`(?s)<numatune>.*</numatune>|<cpu>.*</cpu>`)
	withoutCells := func(domain []byte) []byte { return cells.ReplaceAll(domain, nil) }

	text := refusal(16, withoutCells)
	if count := strings.Count(text, reasons.NoGuestNUMA.Remedy()); count != 1 {
		t.Errorf("the remedy occurs %d times: %s", count, text)
	}

	for i := range 16 {
		if name := fmt.Sprintf("(ua-hostdevice-%d)", i); !strings.Contains(text, name) {
			t.Errorf("%s is missing: %s", name, text)
		}
	}

	if text := refusal(200, withoutCells); !strings.Contains(text, "more are not placed") {
		t.Errorf("200 devices: %s", text)
	}

	// One cell of two, and a device that the host does not have: two reasons.
	text = refusal(16, func(domain []byte) []byte {
		domain = bytes.ReplaceAll(domain,
			[]byte(`<memnode cellid="1" mode="strict" nodeset="1"></memnode>`), nil)
		return bytes.Replace(domain, []byte(`bus="0x01"`), []byte(`bus="0xfe"`), 1)
	})

	for _, reason := range []reasons.Reason{reasons.NoGuestCell, reasons.NoSysfs} {
		if strings.Count(text, reason.Remedy()) != 1 {
			t.Errorf("not one remedy of %s: %s", reason, text)
		}
	}

	text = refusal(2, func(domain []byte) []byte {
		hostile := "ua-&#x9b;31m&#x0a;" + strings.Repeat("x", 2000) + `"`
		return withoutCells(bytes.ReplaceAll(domain, []byte(`ua-hostdevice-0"`), []byte(hostile)))
	})

	if strings.ContainsAny(text, "\n\u009b") {
		t.Errorf("control characters in %q", text)
	}
}
