package redact

import (
	"encoding/base64"
	"maps"
	"strings"
	"testing"

	"hook-sidecar/test/secrets"
)

// TestText: no spelling of a secret stays, alone or among other text, and lines keep their numbers.
func TestText(t *testing.T) {
	for name, spelling := range allSpellings() {
		for _, text := range []string{spelling, "failed: " + spelling, "failed:\n" + spelling} {
			got := Text(text)
			if strings.Contains(got, secrets.Planted) {
				t.Errorf("%s: %s", name, got)
			}

			if again := Text(got); again != got {
				t.Errorf("%s: the second time\n%s\nbecomes\n%s", name, got, again)
			}
		}
	}
}

// allSpellings returns all spellings of secrets.
func allSpellings() map[string]string {
	all := maps.Clone(secrets.Spellings)
	for _, line := range secrets.Lines {
		all[line] = line
	}
	return all
}

// TestTextKeeps: what messages of the table's fixtures say stays readable: what names the cause,
// devices and resources.
func TestTextKeeps(t *testing.T) {
	for _, text := range []string{
		`-device {"driver":"vfio-pci","host":"0000:01:00.0","id":"ua-gpu1","bus":"pci.10",` +
			`"addr":"0x0"}: vfio 0000:01:00.0: group 1 is not viable`,
		`qemu-kvm: -device vfio-pci,host=0000:01:00.0,id=ua-gpu1,bus=pci.6,addr=0x0: vfio ` +
			`0000:01:00.0: failed to open /dev/vfio/1`,
		`server error. command SyncVMI failed: "LibvirtError(Code=1, Domain=10, ` +
			`Message='internal error: QEMU unexpectedly closed the monitor (vm='ml_vm')`,
		`exceeded quota: gpus, requested: requests.nvidia.com/GH100=8, used: ` +
			`requests.nvidia.com/GH100=4, limited: requests.nvidia.com/GH100=8`,
		`0/3 nodes are available: 1 Insufficient nvidia.com/GH100, 3 node(s) didn't match Pod's ` +
			`node affinity/selector. preemption: no`,
		`Region pc.ram: vfio_dma_map(0x55c894f82af0, 0x100000000, 0x79c00000, 0x7fe01e200000) = ` +
			`-12 (Cannot allocate memory)`,
		`Failed to pull image "registry.example.com/hook-sidecar:v1": rpc error: code = ` +
			`NotFound desc = failed to pull and unpack image`,
		`MountVolume.SetUp failed for volume "x": secret "gpu-licence" not found`,
		`cannot pin vCPUs: cpus per core = 3, threads = 2`,
		`avc:  denied  { read } for  pid=84 comm="rpc-libvirtd" path="/dev/vfio/12" dev="devtmpfs" ` +
			`ino=1043 scontext=system_u:system_r:svirt_t:s0:c3,c77 ` +
			`tcontext=system_u:object_r:vfio_device_t:s0 tclass=chr_file permissive=0`,
		`apparmor="DENIED" operation="open" profile="kubevirt" name="/dev/vfio/12" pid=84 ` +
			`comm="qemu-kvm" requested_mask="wr" denied_mask="wr"`,
		`cannot attach devices=0000:1b:00.0,0000:43:00.0 group=77 isolated=false`,
		`open /var/run/secrets/kubernetes.io/serviceaccount/token: no such file or directory`,
		`the token has expired; password authentication failed; secret key is missing`,
		`reconcile key=default/dgx failed`, `Invalid value: "": must have a name`,
		`Get "https://10.0.0.1/api/v1/namespaces/ml/secrets/gpu-licence": not found`,
		`GPU_WAIT: (progress 0x3)`, `fabric-manager.service: code=exited, status=1/FAILURE`,
		`==============NVSMI LOG==============`,
	} {
		if got := Text(text); got != text {
			t.Errorf("got  %s\nwant %s", got, text)
		}
	}
}

// TestRandom: what looks as a program makes secrets stays in no line that is about one.
func TestRandom(t *testing.T) {
	const made = "Zx9quokka7T"
	for _, text := range []string{
		`AuthenticationFailed: the key '%' was rejected`, `cannot log in as a using % as password`,
		`password for root set to %`, `secret value %`, `unseal key 1: %`, `licence (%) has expired`,
		`pat_na1.% token`, `s.%12 is a vault token`, `AQVN% api key`, `1//0% refresh token`,
		`exec: "%-password": executable file not found in $PATH`, `login of % failed`,
	} {
		text = strings.ReplaceAll(text, "%", made)
		if got := Text(text); strings.Contains(got, made) {
			t.Errorf("%s: %s", text, got)
		}
	}

	for _, name := range []string{
		"virt-launcher-dgx-x7k2p", "VirtualMachineInstance", "NVIDIA_H100_80GB_HBM3", "2026-11-22T10",
		"sha256", "ConnectX-7", "3b1c7f2a9e01", "FailedCreatePodSandBox", "0000:1b:00.0",
	} {
		if text := "secret " + name + "; key not found: " + name; isRandom(name) {
			t.Errorf("%s is taken", text)
		}
	}
}

// TestEncoded: a name with a value in base64 is removed, whatever its length; another word stays.
func TestEncoded(t *testing.T) {
	for _, pair := range []string{
		"admin:" + secrets.Planted, "password=" + secrets.Planted, "a:" + secrets.Planted + "~~??\nb",
	} {
		for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawURLEncoding} {
			word := encoding.EncodeToString([]byte(pair))
			if got := Text("got " + word + " back"); got != "got … back" {
				t.Errorf("%s: %s", pair, got)
			}
		}
	}

	for _, text := range []string{
		"opened /usr/lib/virtualization/SeaBIOS", "MDEV_PCI_RESOURCE_NVIDIA_COM", "YWRtaW46",
		"YWRtaW4gcGFzc3dvcmQ=",
	} {
		if got := Text("got " + text); got != "got "+text {
			t.Errorf("%s is taken: %s", text, got)
		}
	}
}

// TestSetting: the value of a setting in a file may have blanks, that of a variable has none.
func TestSetting(t *testing.T) {
	const in = "password = a b hunter2xyz\nPASSWORD=hunter2xyz kept\n"
	const want = "password = …\nPASSWORD=… kept\n"
	if got := Text(in); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestColumns: of a table only the cells of a password go.
func TestColumns(t *testing.T) {
	for in, want := range map[string]string{
		"NAME   SECRETS   AGE\ngpu    12        5d\n":     "NAME   SECRETS   AGE\ngpu    12        5d\n",
		"id,token,node\na,hunter2xyz,n1\nb,,n2\nend\n":    "id,token,node\na,…,n1\nb,,n2\nend\n",
		"name | PASSWORD\n-----+-----\n vm1 | hunter2xyz": "name | PASSWORD\n-----+-----\n vm1 | …",
		"KEY   VALUE\na     b":                            "KEY   VALUE\na     b",
	} {
		if got := removeColumns(in); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
}

// FuzzIsPlain: a text that is taken for plain has nothing that a rule matches.
func FuzzIsPlain(f *testing.F) {
	for _, spelling := range allSpellings() {
		f.Add(spelling)
	}

	f.Add("a: b, MY_NAME: c; gh p_abcdefghi, x:y")
	f.Add("a &gt; b")
	f.Fuzz(func(t *testing.T, text string) {
		if isPlain(text) && removeAll(text) != text {
			t.Errorf("%q is not plain: %q", text, removeAll(text))
		}
	})
}
