//go:build lane

package cloudinit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hook-sidecar/test/expect"
)

// uuid is the machine's, and cloud-init's instance-id as KubeVirt gives it.
const uuid = "5d307ca9-b3ef-428c-8861-06e72d69f223"

// patience is the longest time of a boot under emulation. It takes one to two minutes, and eight
// beside other guests on two slow CPUs.
const patience = 15 * time.Minute

// machine is a guest's disk, which lasts over its boots.
type machine struct {
	image, dir string
	boots      int
}

func newMachine(t *testing.T, image string) *machine {
	t.Helper()
	m := &machine{image: image, dir: t.TempDir()}
	output(t, "cp", "--sparse=always", filepath.Join(image, "disk.raw"), m.disk())
	return m
}

func (m *machine) disk() string { return filepath.Join(m.dir, "disk.raw") }

// boot boots the machine with a seed, a text in the entry of fw_cfg, "" for none, and
// further kernel parameters, and returns what the guest has reported, by name. Under
// emulation a kernel panics now and then: it is booted once more, from the same disk.
func (m *machine) boot(
	t *testing.T, data seed, entry string, parameters ...string,
) map[string]string {
	t.Helper()
	m.boots++

	// Without cx16: QEMU 7.2 emulates cmpxchg16b so that Linux 6.12 oopses in kmalloc.
	args := []string{
		"-machine", "q35,accel=tcg", "-cpu", "max,-cx16", "-m", "1024", "-uuid", uuid, "-display",
		"none", "-no-reboot", "-nic", "none", "-nodefaults",
		"-kernel", filepath.Join(m.image, "vmlinuz"), "-initrd",
		filepath.Join(m.image, "initrd.img"),
		"-append", strings.Join(append(parameters, "root=/dev/vda rw console=ttyS0 panic=-1"), " "),
		"-drive", "if=virtio,format=raw,cache=unsafe,file=" + m.disk(), "-drive",
		"if=virtio,format=raw,readonly=on,file=" + data.iso(t, m.dir),
	}

	if entry != "" {
		args = append(args, "-fw_cfg", "name=opt/org.kubevirt.hostdev/nccl-topology,string="+entry)
	}

	before := filepath.Join(m.dir, "before.raw")
	output(t, "cp", "--sparse=always", m.disk(), before)

	for attempt := 1; ; attempt++ {
		began := time.Now()
		shown, console, err := m.run(t.Context(), args)
		if err == nil {
			t.Logf("boot %d: %.0f s", m.boots, time.Since(began).Seconds())
			return shown
		}

		t.Logf("boot %d: %v, the end of its console:\n%s", m.boots, err,
			console[max(0, len(console)-3000):])
		if attempt == 2 || !strings.Contains(console, "Kernel panic") {
			t.Fatalf("boot %d failed", m.boots)
		}

		output(t, "cp", "--sparse=always", before, m.disk())
	}
}

// run runs QEMU and returns what the guest has reported and its console.
func (m *machine) run(
	ctx context.Context, args []string,
) (shown map[string]string, console string, err error) {
	screen, report := filepath.Join(m.dir, "console"), filepath.Join(m.dir, "report")
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, "qemu-system-x86_64",
		append(args, "-serial", "file:"+screen, "-serial", "file:"+report)...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}

	reported, readErr := os.ReadFile(report)
	shown, reportErr := ReadReport(string(reported))
	text, screenErr := os.ReadFile(screen)
	return shown, string(text), errors.Join(err, readErr, reportErr, screenErr)
}

// seed is KubeVirt's CloudInitData, as far as it reaches the guest.
type seed struct {
	DataSource          string
	NoCloudMetaData     map[string]string
	ConfigDriveMetaData map[string]string
	UserData            string
	NetworkData         string
	VolumeName          string
}

func noCloud(userData string) seed {
	return seed{
		DataSource:      "noCloud",
		NoCloudMetaData: map[string]string{"instance-id": uuid, "local-hostname": "vm"},
		UserData:        userData,
		VolumeName:      "init",
	}
}

func configDrive(userData string) seed {
	return seed{
		DataSource: "configDrive",
		ConfigDriveMetaData: map[string]string{
			"uuid": uuid, "instance_id": "vm.default", "hostname": "vm",
		},
		UserData: userData, VolumeName: "init",
	}
}

// iso writes the data as virt-launcher does (KubeVirt pkg/cloud-init/cloud-init.go,
// GenerateLocalData and defaultIsoFunc).
func (s seed) iso(t *testing.T, dir string) string {
	t.Helper()
	root := t.TempDir()
	dataDir, label, metaFile, userFile, meta := root, "cidata", "meta-data", "user-data", s.NoCloudMetaData
	if s.DataSource == "configDrive" {
		dataDir, label, metaFile, userFile, meta = filepath.Join(root, "openstack",
			"latest"), "config-2", "meta_data.json", "user_data", s.ConfigDriveMetaData
	}

	expect.NoError(t, os.MkdirAll(dataDir, 0o755))
	text, err := json.Marshal(meta)
	expect.NoError(t, err)
	for name, data := range map[string][]byte{metaFile: text, userFile: []byte(s.UserData)} {
		expect.NoError(t, os.WriteFile(filepath.Join(dataDir, name), data, 0o600))
	}

	file := filepath.Join(dir, "seed.iso")
	output(t, "xorrisofs", "-quiet", "-output", file, "-volid", label, "-joliet", "-rock",
		"-partition_cyl_align", "on", root)
	return file
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}

	return string(out)
}
