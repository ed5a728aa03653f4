package kubevirt_test

import (
	"testing"

	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/test/expect"
)

// TestCloudInit: the volume is the one that virt-launcher takes, and the user data what
// it writes.
func TestCloudInit(t *testing.T) {
	for name, tc := range map[string]struct {
		volumes string
		want    *kubevirt.CloudInit
	}{
		"none":         {`[{"name": "root", "persistentVolumeClaim": {"claimName": "a"}}]`, nil},
		"no volumes":   {`null`, nil},
		"another form": {`{"a": 1}`, nil},
		"sysprep":      {`[{"name": "s", "sysprep": {"secret": {"name": "a"}}}]`, nil},
		"text": {`[{"name": "i", "cloudInitNoCloud": {"userData": "#!", "userDataBase64": "YQ=="}}]`, &kubevirt.CloudInit{
			UserData: []byte("#!"),
		}},
		"base64": {`[{"name": "i", "cloudInitConfigDrive": {"userDataBase64": "H4s="}}]`,
			&kubevirt.CloudInit{
				UserData: []byte("\x1f\x8b"),
			}},
		"the first": {`[{"name": "r"}, {"cloudInitConfigDrive": {"userData": "a"}}, ` +
			`{"cloudInitNoCloud": {"userData": "b"}}]`, &kubevirt.CloudInit{
			UserData: []byte("a"),
		}},
		"secret": {`[{"name": "i", "cloudInitNoCloud": {"secretRef": {"name": "a"}}}]`,
			&kubevirt.CloudInit{
				Unknown: true,
			}},
		"secret, read": {`[{"name": "i", "cloudInitNoCloud": {"secretRef": {"name": "a"}, ` +
			`"userData": "a"}}]`, &kubevirt.CloudInit{
			UserData: []byte("a"),
		}},
		"network only": {`[{"name": "i", "cloudInitNoCloud": {"networkData": "a"}}]`,
			&kubevirt.CloudInit{}},
		"network secret": {
			`[{"name": "i", "cloudInitNoCloud": {"networkDataSecretRef": {"name": "a"}}}]`,
			&kubevirt.CloudInit{},
		},
	} {
		vmi, err := kubevirt.ParseVMI(
			[]byte(`{"kind": "VirtualMachineInstance", "spec": {"volumes": ` +
				tc.volumes + `}}`))
		expect.NoError(t, err)
		got := vmi.CloudInit()
		if got != nil && len(got.UserData) == 0 {
			got.UserData = nil
		}

		expect.Same(t, tc.want, got, "%s (-want +got)", name)
	}
}
