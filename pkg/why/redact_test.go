package why

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"hook-sidecar/test/expect"
)

// planted is the secret, and spellings are the ways in which messages have one.
const planted = "hunter2xyz"

var spellings = map[string]string{
	"variable":                     `TOKEN=hunter2xyz`,
	"variable in lower case":       `db_pass=hunter2xyz`,
	"variable that is named aside": `greeting=hunter2xyz`,
	"dotted variable":              `failed to run container with env my.api-key=hunter2xyz`,
	"variable in quotes":           `export Foo="a hunter2xyz"`,
	"variable in single quotes":    `FOO='a hunter2xyz'`,
	"two quotes joined":            `FOO='a'"hunter2xyz"`,
	"escaped blank":                `FOO=a\ hunter2xyz`,
	"escaped quote":                `FOO="a\"hunter2xyz"`,
	"spaces around":                `password = hunter2xyz`,
	"after a flag":                 `docker run -e foo=hunter2xyz image`,
	"PowerShell":                   `$env:Foo = "hunter2xyz"`,
	"list of variables":            `env: [FOO=a hunter2xyz BAR=b]`,
	"bracket":                      `exec: [FOO=a hunter2xyz]`,
	"comma after it":               `FOO=a,hunter2xyz`,
	"JSON":                         `{"name":"KEY","value":"hunter2xyz"}`,
	"JSON with escaped quotes":     `{"name":"KEY","value":"aa\"hunter2xyz"}`,
	"JSON in JSON":                 `{\"name\":\"KEY\",\"value\":\"aa\\\"hunter2xyz\"}`,
	"JSON, pretty":                 `{"name" : "KEY", "value" : "hunter2xyz"}`,
	"JSON of any key":              `{"greeting":"hunter2xyz"}`,
	"JSON list":                    `{"tokens":["a","hunter2xyz"]}`,
	"Secret in JSON":               `{"kind":"Secret","data":{"a":"hunter2xyz"}}`,
	"Secret in YAML":               "kind: Secret\ndata:\n  a: hunter2xyz",
	"stringData in YAML":           "stringData:\n  a: hunter2xyz",
	"YAML":                         "- name: KEY\n  value: hunter2xyz",
	"YAML, literal block":          "- name: KEY\n  value: |\n    hunter2xyz\n    and hunter2xyz",
	"YAML, folded block":           "value: >-\n  a\n\n  hunter2xyz",
	"YAML in quotes":               "value: 'it''s hunter2xyz'",
	"YAML over two lines":          "value: a\n  hunter2xyz",
	"compose":                      `DB_GREETING: hunter2xyz`,
	"kubectl describe":             "    Environment:\n      MY_GREETING:  hunter2xyz",
	"Go":                           `Env:[]EnvVar{EnvVar{Name:KEY,Value:hunter2xyz,ValueFrom:nil}}`,
	"Go over lines":                "Env:[]EnvVar{EnvVar{Name:KEY,Value:aaa\nhunter2xyz\nbbb,ValueFrom:nil}}",
	"Go's field alone":             "{Name:KEY Value:aaa\nhunter2xyz ValueFrom:nil}",
	"Go's map":                     `map[greeting:hunter2xyz other:a]`,
	"Go's %+v":                     `{Name:A Value:x hunter2xyz ValueFrom:nil}`,
	"Go's arguments":               `Args:[--greeting hunter2xyz]`,
	"XML attribute":                `<qemu:env name='TOKEN' value='hunter2xyz'/>`,
	"XML element":                  `<password>hunter2xyz</password>`,
	"graphics password":            `<graphics type='vnc' passwd='hunter2xyz'/>`,
	"header":                       `Authorization: Bearer hunter2xyz`,
	"header in lower case":         `authorization: Basic a:hunter2xyz`,
	"header of any name":           `x-my-greeting: hunter2xyz`,
	"cookie":                       `Set-Cookie: a=b; session=hunter2xyz`,
	"headers in Go":                `Headers:map[Greeting:[hunter2xyz]]`,
	"headers in JSON":              `{"headers":{"greeting":"hunter2xyz"}}`,
	"curl":                         `curl -H 'X-Token: hunter2xyz' https://example.com`,
	"bearer alone":                 `got bearer hunter2xyz`,
	"address with user":            `https://u:hunter2xyz@registry.example.com`,
	"address with query":           `https://example.com/?a=b&sig=hunter2xyz`,
	"flag with =":                  `--password=hunter2xyz`,
	"flag with blank":              `--api-token hunter2xyz`,
	"sentence":                     `the password is hunter2xyz`,
	"sentence, turned":             `hunter2xyz is the password`,
	"chpasswd":                     `chpasswd root:hunter2xyz`,
	"JSON Web Token":               `eyJhbGciOi.eyJzdWhunter2xyz.sig-hunter2xyz`,
	"private key":                  "-----BEGIN RSA PRIVATE KEY-----\nhunter2xyz\n-----END RSA PRIVATE KEY-----",
	"token by its prefix":          `hf_abcdefghunter2xyz`,
	"SSH key":                      `ssh-rsa AAAAhunter2xyz user`,
	"cloud-init":                   "#cloud-config\nruncmd: [echo hunter2xyz]",
	"cloud-init's field":           `UserData:hunter2xyz`,
	"cloud-init in base64":         `{"userDataBase64":"hunter2xyz"}`,
	"network data":                 `networkData: {a: hunter2xyz}`,
	"script":                       "#!/bin/sh\necho hunter2xyz",
	"annotation":                   `Annotations:map[string]string{"a": "hunter2xyz"}`,
	"admission":                    `spec.containers[0].env[0]: Invalid value: "hunter2xyz": must not`,
}

// TestRedact: no spelling of a secret is in a report, alone or before or after what names a cause,
// from an object, from a log or as text, as JSON or as Go prints it.
func TestRedact(t *testing.T) {
	if len(spellings) < 40 {
		t.Fatalf("%d spellings", len(spellings))
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

	for name, spelling := range spellings {
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
				if strings.Contains(fmt.Sprintf("%s %+v", data, r), planted) {
					t.Errorf("%s in %s: %s", name, carrier, data)
				}

				if strings.Contains(text, noMemlock) && causes(r.Causes) != "locked-memory" {
					t.Errorf("%s in %s: causes %q", name, carrier, causes(r.Causes))
				}
			}
		}
	}
}

// TestRedactKeeps: what messages of the table's fixtures say stays readable: what names the cause,
// devices and resources.
func TestRedactKeeps(t *testing.T) {
	for _, text := range []string{
		`-device {"driver":"vfio-pci","host":"0000:01:00.0","id":"ua-gpu1","bus":"pci.10","addr":"0x0"}: vfio 0000:01:00.0: group 1 is not viable`,
		`qemu-kvm: -device vfio-pci,host=0000:01:00.0,id=ua-gpu1,bus=pci.6,addr=0x0: vfio 0000:01:00.0: failed to open /dev/vfio/1`,
		`server error. command SyncVMI failed: "LibvirtError(Code=1, Domain=10, Message='internal error: QEMU unexpectedly closed the monitor (vm='ml_vm')`,
		`exceeded quota: gpus, requested: requests.nvidia.com/GH100=8, used: requests.nvidia.com/GH100=4, limited: requests.nvidia.com/GH100=8`,
		`0/3 nodes are available: 1 Insufficient nvidia.com/GH100, 3 node(s) didn't match Pod's node affinity/selector. preemption: no`,
		`Region pc.ram: vfio_dma_map(0x55c894f82af0, 0x100000000, 0x79c00000, 0x7fe01e200000) = -12 (Cannot allocate memory)`,
		`Failed to pull image "registry.example.com/hook-sidecar:v1": rpc error: code = NotFound desc = failed to pull and unpack image`,
		`MountVolume.SetUp failed for volume "x": secret "gpu-licence" not found`,
	} {
		if got := Redact(text); got != text {
			t.Errorf("got  %s\nwant %s", got, text)
		}
	}
}
