package why

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"hook-sidecar/test/expect"
	"hook-sidecar/test/secrets"
)

// TestSpellings: no spelling of a secret is in a report, alone or before or after what names a
// cause, from an object, from a log or as text, as JSON or as Go prints it.
func TestSpellings(t *testing.T) {
	if len(secrets.Spellings) < 40 {
		t.Fatalf("%d secrets.Spellings", len(secrets.Spellings))
	}

	object := func(text string) string {
		data, err := json.Marshal(map[string]any{
			"kind":     "VirtualMachineInstance",
			"metadata": map[string]any{"name": "vm", "namespace": "ml"},
			"status": map[string]any{
				"phase": "Scheduled",
				"conditions": []any{
					map[string]any{
						"type": "Synchronized", "status": "False", "reason": "No", "message": text,
					},
				},
			},
		})

		expect.NoError(t, err)
		return string(data)
	}

	entry := func(text string) string {
		data, err := json.Marshal(map[string]any{
			"level":     "error",
			"component": "virt-launcher",
			"msg":       "Failed to sync vmi",
			"reason":    text,
		})

		expect.NoError(t, err)
		return string(data)
	}

	carriers := map[string]func(string) string{
		"object": object, "log": entry,
		"event": func(text string) string { return event(vmi, "SyncFailed", "10:00:00", text) },
		"text": func(text string) string {
			return "error: " + strings.ReplaceAll(text, "\n", `\n`)
		},
	}

	for name, spelling := range secrets.Spellings {
		for carrier, carry := range carriers {
			for _, text := range []string{
				spelling,
				noMemlock + ", " + spelling,
				noMemlock + "\n" + spelling,
				spelling + ": " + noMemlock,
				spelling + "\n" + noMemlock,
			} {
				r := evidence(carry(text)).Diagnose()
				data, err := json.Marshal(r)
				expect.NoError(t, err)
				if strings.Contains(fmt.Sprintf("%s %+v", data, r), secrets.Planted) {
					t.Errorf("%s in %s: %s", name, carrier, data)
				}

				if strings.Contains(text, noMemlock) && causes(r.Causes) != "locked-memory" {
					t.Errorf("%s in %s: causes %q", name, carrier, causes(r.Causes))
				}
			}
		}
	}
}
