// Package secrets has a secret in every spelling in which a message may have one: no report and no
// archive has it.
package secrets

import "regexp"

// Planted is the secret.
const Planted = "hunter2xyz"

// Spellings are the ways in which messages have it.
var Spellings = map[string]string{
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
	"Go over lines": "Env:[]EnvVar{EnvVar{Name:KEY,Value:aaa\nhunter2xyz\n" +
		"bbb,ValueFrom:nil}}",
	"Go's field alone":     "{Name:KEY Value:aaa\nhunter2xyz ValueFrom:nil}",
	"Go's map":             `map[greeting:hunter2xyz other:a]`,
	"Go's %+v":             `{Name:A Value:x hunter2xyz ValueFrom:nil}`,
	"Go's arguments":       `Args:[--greeting hunter2xyz]`,
	"XML attribute":        `<qemu:env name='TOKEN' value='hunter2xyz'/>`,
	"XML element":          `<password>hunter2xyz</password>`,
	"graphics password":    `<graphics type='vnc' passwd='hunter2xyz'/>`,
	"header":               `Authorization: Bearer hunter2xyz`,
	"header in lower case": `authorization: Basic a:hunter2xyz`,
	"header of any name":   `x-my-greeting: hunter2xyz`,
	"cookie":               `Set-Cookie: a=b; session=hunter2xyz`,
	"headers in Go":        `Headers:map[Greeting:[hunter2xyz]]`,
	"headers in JSON":      `{"headers":{"greeting":"hunter2xyz"}}`,
	"curl":                 `curl -H 'X-Token: hunter2xyz' https://example.com`,
	"bearer alone":         `got bearer hunter2xyz`,
	"address with user":    `https://u:hunter2xyz@registry.example.com`,
	"address with query":   `https://example.com/?a=b&sig=hunter2xyz`,
	"flag with =":          `--password=hunter2xyz`,
	"flag with blank":      `--api-token hunter2xyz`,
	"sentence":             `the password is hunter2xyz`,
	"sentence, turned":     `hunter2xyz is the password`,
	"chpasswd":             `chpasswd root:hunter2xyz`,
	"JSON Web Token":       `eyJhbGciOi.eyJzdWhunter2xyz.sig-hunter2xyz`,
	"private key": "-----BEGIN RSA PRIVATE KEY-----\nhunter2xyz\n" +
		"-----END RSA PRIVATE KEY-----",
	"token by its prefix":  `hf_abcdefghunter2xyz`,
	"SSH key":              `ssh-rsa AAAAhunter2xyz user`,
	"cloud-init":           "#cloud-config\nruncmd: [echo hunter2xyz]",
	"cloud-init's field":   `UserData:hunter2xyz`,
	"cloud-init in base64": `{"userDataBase64":"hunter2xyz"}`,
	"network data":         `networkData: {a: hunter2xyz}`,
	"script":               "#!/bin/sh\necho hunter2xyz",
	"annotation":           `Annotations:map[string]string{"a": "hunter2xyz"}`,
	"admission":            `spec.containers[0].env[0]: Invalid value: "hunter2xyz": must not`,
}

// Kept returns the words of an object that have to stay: those that begin with "kept-".
func Kept(object string) []string {
	return regexp.MustCompile(`kept-[a-z0-9]+`).FindAllString(object, -1)
}

// Domain is a domain with secrets.
const Domain = `<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>default_dgx</name>
  <uuid>9a3d4e5f-0000-4000-8000-000000000001</uuid>
  <description>hunter2xyz</description>
  <!-- hunter2xyz -->
  <sysinfo type='fwcfg'>
    <entry name='opt/ovmf/X-PciMmio64Mb'>65536</entry>
    <entry name='opt/com.coreos/config'>{"ignition": "hunter2xyz"}</entry>
  </sysinfo>
  <sysinfo type='smbios'>
    <oemStrings>
      <entry>io.systemd.credential:passwd.hashed-password.root=hunter2xyz</entry>
    </oemStrings>
  </sysinfo>
  <os>
    <cmdline>console=ttyS0 key=hunter2xyz</cmdline>
  </os>
  <devices>
    <disk type='network' device='disk'>
      <source protocol='https' name='disk.img' query='sig=hunter2xyz'>
        <host name='storage' port='443'/>
        <cookies>
          <cookie name='session'>hunter2xyz</cookie>
        </cookies>
      </source>
    </disk>
    <disk type='file' device='disk'>
      <source file='https://user:hunter2xyz@storage/disk.img'/>
    </disk>
    <hostdev mode='subsystem' type='pci' managed='no'>
      <source>
        <address domain='0x0000' bus='0x1b' slot='0x00' function='0x0'/>
      </source>
      <alias name='ua-gpu-gpu1'/>
    </hostdev>
    <graphics type='vnc' socket='/vnc' passwd='hunter2xyz'>
    </graphics>
  </devices>
  <qemu:commandline>
    <qemu:arg value='-fw_cfg'/>
    <qemu:arg value='name=opt/ovmf/X-PciMmio64Mb,string=65536'/>
    <qemu:arg value='-fw_cfg'/>
    <qemu:arg value='name=opt/com.coreos/config,string=hunter2xyz'/>
    <qemu:arg value='-object'/>
    <qemu:arg value='{"qom-type":"secret","id":"a","data":"hunter2xyz"}'/>
    <qemu:arg value='-device'/>
    <qemu:arg value='pcie-root-port,id=a,bus=pcie.0'/>
    <qemu:arg value='-smbios'/>
    <qemu:arg value='type=11,value=hunter2xyz'/>
    <qemu:arg value='hunter2xyz'/>
    <qemu:env name='GREETING' value='hunter2xyz'/>
  </qemu:commandline>
</domain>
`

// Objects are objects of the API server with a secret in each place, as YAML.
var Objects = map[string]string{
	"VirtualMachineInstance": `
apiVersion: kubevirt.io/v1
kind: VirtualMachineInstance
metadata:
  name: kept-dgx
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: '{"spec": "hunter2xyz"}'
    kubevirt.io/ignitiondata: hunter2xyz
    hostdev.vm.kubevirt.io/layout: kept-layout
    hostdev.vm.kubevirt.io/greeting: hunter2xyz
    hooks.kubevirt.io/hookSidecars: '[{"image": "kept-image", "args": ["--layout", "kept-mirror", "--token=hunter2xyz", "--greeting", "hunter2xyz"]}]'
  managedFields: [{fieldsV1: {"v:hunter2xyz": {}}}]
  labels: {app: kept-label, token: hunter2xyz}
spec:
  accessCredentials: [{sshPublicKey: {source: {secret: {secretName: kept-secret}}}}]
  domain:
    firmware: {kernelBoot: {kernelArgs: key=hunter2xyz}}
    devices: {gpus: [{name: gpu1, deviceName: nvidia.com/kept-gpu}]}
  readinessProbe:
    httpGet: {port: 80, httpHeaders: [{name: X-Greeting, value: hunter2xyz}]}
    exec: {command: [sh, -c, echo hunter2xyz]}
  volumes:
  - name: a
    cloudInitNoCloud: {userData: "#cloud-config\npassword: hunter2xyz", networkData: hunter2xyz}
  - name: b
    cloudInitConfigDrive: {userDataBase64: aHVudGVyMnh5eg==hunter2xyz, networkDataBase64: hunter2xyz, secretRef: {name: kept-ref}}
  - name: c
    containerDisk: {image: "https://user:hunter2xyz@registry/kept-disk"}
status:
  phase: Scheduled
  conditions:
  - {type: Synchronized, status: "False", reason: kept-reason, message: "kept-message: environment variable GREETING=hunter2xyz"}
`,
	"VirtualMachine": `
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: kept-dgx, annotations: {note: hunter2xyz}}
spec:
  dataVolumeTemplates:
  - metadata: {name: kept-root}
    spec: {source: {http: {url: "https://user:hunter2xyz@images/kept-image", extraHeaders: ["Greeting: hunter2xyz"], secretExtraHeaders: [kept-headers]}}}
  template:
    metadata: {annotations: {greeting: hunter2xyz}}
    spec:
      volumes: [{name: c, cloudInitNoCloud: {userData: hunter2xyz}}]
      domain: {devices: {hostDevices: [{name: kept-nic, deviceName: mellanox.com/cx7}]}}
`,
	"PersistentVolumeClaim": `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: kept-root, annotations: {cdi.kubevirt.io/storage.import.endpoint: "https://u:hunter2xyz@images"}}
spec: {storageClassName: kept-class}
status: {phase: Pending, conditions: [{type: Resizing, message: "token=hunter2xyz"}]}
`,
	"DataVolume": `
apiVersion: cdi.kubevirt.io/v1beta1
kind: DataVolume
metadata: {name: kept-root, annotations: {note: hunter2xyz}}
spec:
  source:
    s3: {url: "https://u:hunter2xyz@kept-host/image", secretRef: kept-secret}
    http: {url: "https://images/kept-image?sig=hunter2xyz", extraHeaders: ["A: hunter2xyz"]}
status: {phase: kept-phase, conditions: [{type: Running, message: "401: Authorization: Basic hunter2xyz"}]}
`,
	"VirtualMachineInstanceMigration": `
apiVersion: kubevirt.io/v1
kind: VirtualMachineInstanceMigration
metadata: {name: kept-migration, annotations: {note: hunter2xyz}}
spec: {vmiName: kept-dgx}
status: {phase: Failed, migrationState: {failureReason: "PASSWORD=hunter2xyz kept-reason"}}
`,
	"Pod": `
apiVersion: v1
kind: Pod
metadata: {name: kept-pod, annotations: {vault.hashicorp.com/agent-inject-template: hunter2xyz}}
spec:
  imagePullSecrets: [{name: kept-pull}]
  initContainers:
  - name: kept-init
    command: [/kept-command, hunter2xyz]
    args: ["--kept-flag", hunter2xyz, "-p=hunter2xyz"]
  containers:
  - name: compute
    env:
    - {name: KEPT, value: hunter2xyz}
    - {name: kept-name, value: "a\nhunter2xyz"}
    - {name: A, valueFrom: {secretKeyRef: {name: kept-ref, key: kept-key}}}
    lifecycle: {postStart: {exec: {command: [sh, -c, echo hunter2xyz]}}}
    livenessProbe: {httpGet: {path: "/kept-path?token=hunter2xyz", port: 1, httpHeaders: [{name: Authorization, value: Basic hunter2xyz}]}}
    resources: {requests: {nvidia.com/kept-gpu: "1"}}
  tolerations: [{key: kept-taint, operator: Equal, value: kept-value}]
  volumes:
  - {name: a, csi: {driver: kept-driver, volumeAttributes: {password: hunter2xyz}}}
  - {name: b, projected: {sources: [{serviceAccountToken: {expirationSeconds: 3600, path: kept-token}}]}}
status:
  containerStatuses:
  - {name: compute, state: {waiting: {reason: kept-reason, message: "failed to pull https://user:hunter2xyz@registry/kept-image"}}}
`,
	"Event": `
apiVersion: v1
kind: Event
metadata: {name: a}
reason: kept-reason
message: "Error: kept-message --password hunter2xyz"
`,
	"ConfigMap": `
apiVersion: v1
kind: ConfigMap
metadata: {name: hook-sidecar}
data: {layout: kept-layout, image: kept-image, greeting: hunter2xyz}
binaryData: {a: hunter2xyz}
`,
	"Secret": `
apiVersion: v1
kind: Secret
metadata: {name: kept-secret}
data: {a: hunter2xyz}
stringData: {b: hunter2xyz}
`,
	"Plugin": `
apiVersion: plugin.kubevirt.io/v1alpha1
kind: Plugin
metadata: {name: kept-plugin}
spec:
  domainHooks: [{sidecar: {permittedHooks: [kept-hook], env: [{name: A, value: hunter2xyz}], args: [hunter2xyz, hunter2xyz]}}]
`,
	"KubeVirt": `
apiVersion: kubevirt.io/v1
kind: KubeVirt
metadata: {name: kept-kubevirt}
spec:
  configuration: {developerConfiguration: {featureGates: [kept-gate]}, permittedHostDevices: {pciHostDevices: [{resourceName: nvidia.com/kept-gpu}]}}
  customizeComponents: {patches: [{resourceName: kept-handler, patch: '[{"op": "add", "value": "hunter2xyz"}]'}]}
`,
	"MutatingAdmissionPolicy": `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: kept-policy}
spec: {mutations: [{applyConfiguration: {expression: 'Object{env: "hunter2xyz"}'}}], failurePolicy: Fail}
`,
	"ResourceClaim": `
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: kept-claim}
spec:
  devices:
    requests: [{name: gpus, exactly: {deviceClassName: kept-class, selectors: [{cel: {expression: 'device.driver == "kept-driver"'}}]}}]
    config: [{opaque: {driver: kept-driver, parameters: {greeting: hunter2xyz}}}]
status:
  devices: [{driver: kept-driver, device: kept-device, data: {greeting: hunter2xyz}}]
`,
	"Node": `
apiVersion: v1
kind: Node
metadata: {name: kept-node, annotations: {csi.volume.kubernetes.io/nodeid: '{"a": "hunter2xyz"}'}, labels: {kept-zone: a}}
spec: {taints: [{key: kept-taint, value: kept-value, effect: NoSchedule}]}
status: {allocatable: {nvidia.com/kept-gpu: "8"}}
`,
}
