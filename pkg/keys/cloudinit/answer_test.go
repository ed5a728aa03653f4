package cloudinit_test

import (
	"encoding/json"
	"strings"
	"testing"

	"hook-sidecar/pkg/keys/cloudinit"
	"hook-sidecar/test/expect"
)

// noCloud is the data of a VM as virt-launcher 1.9.0 writes it, without user data.
const noCloud = `{"DataSource":"noCloud","NoCloudMetaData":{"instance-id":"5d307ca9",` +
	`"local-hostname":"vm"},"ConfigDriveMetaData":null,"UserData":"","NetworkData":"version: ` +
	`2\n","DevicesData":null,"VolumeName":"init"}`

func withUserData(t *testing.T, userData string) []byte {
	t.Helper()
	text, err := json.Marshal(userData)
	expect.NoError(t, err)
	return []byte(strings.Replace(noCloud, `"UserData":""`, `"UserData":`+string(text), 1))
}

func decoded(t *testing.T, data []byte) map[string]any {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatalf("%v in %s", err, data)
	}

	return fields
}

// TestAnswer: only the user data changes, and what has the reader stays, byte for byte.
func TestAnswer(t *testing.T) {
	packed := compressed(t, []byte("#cloud-config\nhostname: é\n"))
	for name, tc := range map[string]struct {
		userData string
		vmi      []byte
		want     string
	}{
		"plain": {"#cloud-config\nhostname: é\n", nil,
			"#cloud-config\nhostname: é\n"},
		"none":                {"", nil, ""},
		"JSON lost its bytes": {string(packed), packed, "#cloud-config\nhostname: é\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := cloudinit.Answer(withUserData(t, tc.userData), tc.vmi)
			expect.NoError(t, err)
			merged, err := cloudinit.Merge([]byte(tc.want))
			expect.NoError(t, err)
			want := decoded(t, []byte(noCloud))
			want["UserData"] = string(merged)
			expect.Same(t, want, decoded(t, got), "(-want +got)")
			if again, err := cloudinit.Answer(got, tc.vmi); err != nil ||
				string(again) != string(got) {
				t.Errorf("answered again: %v\n%s", err, again)
			}
		})
	}
}

func TestAnswerRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ data, want string }{
		"no volume":    {"null", "no cloud-init data"},
		"no object":    {"[1]", "not a JSON object"},
		"nothing":      {"", "not a JSON object"},
		"another type": {`{"UserData": 1}`, "UserData is not a string"},
		"other agent":  {string(withUserData(t, "{}")), "nothing that cloud-init knows"},
		"lost in a JSON": {string(withUserData(t,
			string(compressed(t, []byte("#cloud-config\n"))))), "of a Secret is lost"},
	} {
		if got, err := cloudinit.Answer([]byte(tc.data), nil); err == nil ||
			!strings.Contains(err.Error(), tc.want) || got != nil {
			t.Errorf("%s: %q, %v, want %q", name, got, err, tc.want)
		}
	}
}
