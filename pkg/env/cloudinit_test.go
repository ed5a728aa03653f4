package env_test

import (
	"testing"

	"hook-sidecar/pkg/env"
	"hook-sidecar/test/expect"
)

// TestCloudInit: the volume is the one that virt-launcher takes, and the user data what
// it writes.
func TestCloudInit(t *testing.T) {
	for name, tc := range map[string]struct {
		volumes string
		want    *env.CloudInit
	}{
		"none":         {`[{"name": "root", "persistentVolumeClaim": {"claimName": "a"}}]`, nil},
		"no volumes":   {`null`, nil},
		"another form": {`{"a": 1}`, nil},
		"sysprep":      {`[{"name": "s", "sysprep": {"secret": {"name": "a"}}}]`, nil},
		"text": {`[{"name": "i", "cloudInitNoCloud": {"userData": "#!", "userDataBase64": "YQ=="}}]`, &env.CloudInit{
			UserData: []byte("#!"),
		}},
		"base64": {`[{"name": "i", "cloudInitConfigDrive": {"userDataBase64": "H4s="}}]`,
			&env.CloudInit{
				UserData: []byte("\x1f\x8b"),
			}},
		"the first": {`[{"name": "r"}, {"cloudInitConfigDrive": {"userData": "a"}}, {"cloudInitNoCloud": {"userData": "b"}}]`, &env.CloudInit{
			UserData: []byte("a"),
		}},
		"secret": {`[{"name": "i", "cloudInitNoCloud": {"secretRef": {"name": "a"}}}]`,
			&env.CloudInit{
				Unknown: true,
			}},
		"secret, read": {`[{"name": "i", "cloudInitNoCloud": {"secretRef": {"name": "a"}, "userData": "a"}}]`, &env.CloudInit{
			UserData: []byte("a"),
		}},
		"network only": {`[{"name": "i", "cloudInitNoCloud": {"networkData": "a"}}]`,
			&env.CloudInit{}},
		"network secret": {`[{"name": "i", "cloudInitNoCloud": {"networkDataSecretRef": {"name": "a"}}}]`, &env.CloudInit{}},
	} {
		vmi, err := env.ParseVMI([]byte(`{"kind": "VirtualMachineInstance", "spec": {"volumes": ` +
			tc.volumes + `}}`))
		expect.NoError(t, err)
		got := vmi.CloudInit()
		if got != nil && len(got.UserData) == 0 {
			got.UserData = nil
		}

		expect.Same(t, tc.want, got, "%s (-want +got)", name)
	}
}
