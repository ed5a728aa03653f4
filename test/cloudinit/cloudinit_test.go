//go:build lane

package cloudinit

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"libvirt.org/go/libvirtxml"

	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/hooks/api/v1alpha3"
	"hook-sidecar/pkg/hooks/hookstest"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/program"
)

const root = "../.."

// file is where NCCL looks.
const file = "/var/run/nvidia-topologyd/virtualTopology.xml"

// image returns the directory with what get-image has built.
func image(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("CLOUDINIT_IMAGE")
	if dir == "" {
		t.Skip("set CLOUDINIT_IMAGE to the directory that test/cloudinit/get-image has filled: " +
			"make cloudinit")
	}

	return dir
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	return expect.File(t, filepath.Join(root, "testdata", name))
}

// hook is the program under test, serving on its socket.
type hook struct{ binary, socket string }

func build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "hook-sidecar")
	expect.NoError(t, program.Build(binary, root))
	return binary
}

const sample, host = "samples/02-8gpu-8nic-gate-off", "hosts/x86-2n8g-hgx-h100.txtar"

func serve(t *testing.T, binary string) hook {
	t.Helper()
	dir := hookstest.Dir(t)
	server := exec.Command(binary, "serve", "--nccl-topology=cloudinit", "--socket-dir", dir,
		"--sysfs", filepath.Join(root, "testdata", host))
	server.Env = []string{"CONTAINER_NAME=hook"}
	var log bytes.Buffer
	server.Stderr = &log
	expect.NoError(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
		if strings.Contains(log.String(), "password") {
			t.Errorf("the log shows user data:\n%s", log.String())
		}
	})

	h := hook{binary, filepath.Join(dir, hooks.SocketName("hook"))}
	for deadline := time.Now().Add(20 * time.Second); ; {
		client, err := hookstest.Connect(t.Context(), h.socket)
		if err == nil {
			if err := client.Close(); err != nil {
				t.Error(err)
			}
			return h
		}

		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// vmi returns the sample's VMI with a layout.
func vmi(t *testing.T, layout string) []byte {
	t.Helper()
	var object map[string]any
	expect.NoError(t, json.Unmarshal(read(t, sample+".vmi.json"), &object))
	object["metadata"].(map[string]any)["annotations"] = map[string]string{
		"hostdev.vm.kubevirt.io/layout": layout,
	}

	data, err := json.Marshal(object)
	expect.NoError(t, err)
	return data
}

// entry returns the text that the hook passes in fw_cfg for a layout, and the file that explain
// writes for it.
func (h hook) entry(t *testing.T, layout string) (text, want string) {
	t.Helper()
	client, err := hookstest.Connect(t.Context(), h.socket)
	expect.NoError(t, err)
	defer client.Close()
	answer, err := client.OnDefineDomain(t.Context(), hooks.V1alpha3, read(t, sample+".xml"),
		vmi(t, layout))
	expect.NoError(t, err)
	var domain libvirtxml.Domain
	expect.NoError(t, domain.Unmarshal(string(answer)))

	for _, info := range domain.SysInfo {
		if info.FWCfg != nil {
			text = info.FWCfg.Entry[0].Value
		}
	}

	explain := exec.Command(h.binary, "explain", "-o=nccl", "--layout="+layout, "--domain="+
		filepath.Join(root, "testdata", sample+".xml"),
		"--vmi="+filepath.Join(root, "testdata", sample+".vmi.json"), "--sysfs="+
			filepath.Join(root, "testdata", host))

	out, err := explain.Output()
	if err != nil || text == "" || len(out) < 1000 {
		t.Fatalf("explain: %v, %d bytes; the entry has %d", err, len(out), len(text))
	}

	return text, string(out)
}

// answer returns the data with which the hook replies.
func (h hook) answer(t *testing.T, data seed) seed {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+h.socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"))
	expect.NoError(t, err)
	defer conn.Close()
	sent, err := json.Marshal(data)
	expect.NoError(t, err)
	result, err := v1alpha3.NewCallbacksClient(conn).PreCloudInitIso(t.Context(),
		&v1alpha3.PreCloudInitIsoParams{
			CloudInitData: sent, Vmi: vmi(t, "auto"),
		})

	expect.NoError(t, err)
	var changed seed
	expect.NoError(t, json.Unmarshal(result.GetCloudInitData(), &changed))
	if changed.UserData == data.UserData {
		t.Fatal("the hook returned the user data unchanged")
	}

	return changed
}

// TestParts: of the merged data cloud-init makes the parts that it makes of the user's,
// and the boothook after them.
func TestParts(t *testing.T) {
	image, binary := image(t), build(t)
	files, err := filepath.Glob(filepath.Join(root, "testdata", "userdata", "*"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files: %v", len(files), err)
	}

	var lines strings.Builder
	for _, name := range files {
		merged := output(t, binary, "cloud-init", "--user-data", name)
		for _, data := range [][]byte{
			read(t, filepath.Join("userdata", filepath.Base(name))), []byte(merged),
		} {
			fmt.Fprintln(&lines, base64.StdEncoding.EncodeToString(data))
		}
	}

	script := expect.File(t, "parts.py")
	python := exec.Command("chroot", filepath.Join(image, "root"), "python3", "-c", string(script))
	python.Stdin = strings.NewReader(lines.String())
	out, err := python.Output()
	expect.NoError(t, err)
	decoder := json.NewDecoder(bytes.NewReader(out))
	for _, name := range files {
		var plain, merged []map[string]string
		expect.NoError(t, decoder.Decode(&plain))
		expect.NoError(t, decoder.Decode(&merged))
		last := merged[len(merged)-1]
		if d := cmp.Diff(plain, merged[:len(merged)-1]); d != "" || len(plain) == 0 ||
			last["type"] != "text/cloud-boothook" {
			t.Errorf("%s: last %s, (-user's +merged):\n%s", filepath.Base(name), last["type"], d)
		}
	}
}

// effects returns what the sample's user data does in the guest, without the password's salt and
// the day of its change, which differ between boots (shadow(5)).
func effects(t *testing.T, image string, shown map[string]string) map[string]string {
	t.Helper()
	did := map[string]string{}
	for name, text := range shown {
		if strings.HasPrefix(name, "/srv/") || strings.HasSuffix(name, "/authorized_keys") {
			did[name] = text
		}
	}

	for line := range strings.Lines(shown["/etc/shadow"]) {
		if fields := strings.Split(line, ":"); fields[0] == "debian" {
			// The user whom cloud-init makes; crypt(3) of his password gives its own hash.
			again := output(t, "chroot", filepath.Join(image, "root"), "perl", "-e",
				`print crypt("pässword", $ARGV[0])`, fields[1])
			did["password"] = fmt.Sprint(again == fields[1], fields[3:])
		}
	}

	return did
}

func checkFile(t *testing.T, what string, shown map[string]string, want string) {
	t.Helper()
	expect.Same(t, want, shown[file], "%s: %s (-want +got)", what, file)
	if shown["complaints"] != "" {
		t.Errorf("%s: cloud-init complains:\n%s%s", what, shown["complaints"], shown["status"])
	}

	readable := fmt.Sprintf("-rw-r--r-- root %s\ndrwxr-xr-x root %s\n", file, filepath.Dir(file))
	if want != "" && shown["files"] != readable {
		t.Errorf("%s: a user cannot read the file:\n%s", what, shown["files"])
	}
}

// TestGuest: the guest has the file of each boot where NCCL looks, after the first boot
// and the second, also where it has booted before without the hook; and the user's data
// did what it does without the hook.
func TestGuest(t *testing.T) {
	image := image(t)
	h := serve(t, build(t))
	one, wantOne := h.entry(t, "mirror")
	two, wantTwo := h.entry(t, "numa")
	if one == two {
		t.Fatal("both layouts have one file: the test shows nothing")
	}

	userData := string(read(t, "userdata/cloud-config"))
	for name, source := range map[string]func(string) seed{
		"noCloud": noCloud, "configDrive": configDrive,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plain := source(userData)
			merged := h.answer(t, plain)

			fresh := newMachine(t, image)
			first := fresh.boot(t, merged, one)
			checkFile(t, "first boot", first, wantOne)
			second := fresh.boot(t, merged, two)
			checkFile(t, "second boot, another file", second, wantTwo)

			old := newMachine(t, image)
			without := old.boot(t, plain, "")
			checkFile(t, "without the hook", without, "")
			want := effects(t, image, without)
			if len(want) < 4 || !strings.HasPrefix(want["password"], "true") ||
				want["/srv/ran"] != "ran\n" {
				t.Fatalf("the user's data did %q", want)
			}

			for what, shown := range map[string]map[string]string{
				"first boot": first, "second boot": second,
			} {
				expect.Same(t, want, effects(t, image, shown),
					"%s: what the user's data did (-without the hook +with it)", what)
			}

			later := old.boot(t, merged, one, "test.forget")
			if name == "configDrive" {
				// cloud-init still has the first boot's data (docs/keys.md).
				checkFile(t, "a boot after one without the hook", later, "")
				later = old.boot(t, merged, one)
			}

			checkFile(t, "after a boot without the hook", later, wantOne)
			expect.Same(t, want, effects(t, image, later),
				"after a boot without the hook, what the user's data did (-without the hook "+
					"+with it)")
		})
	}
}
