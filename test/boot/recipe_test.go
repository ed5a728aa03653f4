package boot

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"hook-sidecar/test/cloudinit"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/oracle"
	"hook-sidecar/test/tree"
)

// CloudInitVariable names the environment variable with the directory that
// test/cloudinit/get-image fills: Debian 13 with cloud-init.
const CloudInitVariable = "CLOUDINIT_IMAGE"

const (
	recipeGPUs    = 8
	recipeBARBits = 37 // 128 GiB, as an H100's
	// recipeCPU has 43 address bits: an eighth of them holds the BARs, and nothing else.
	recipeCPU = amd + ",phys-bits=43"
)

// TestRecipe boots what the real virt-launcher has made of the HGX recipe of
// docs/install.md, the domain and the cloud-init data (testdata/launcher/recipe, which
// hook-sidecar/test/launcher compares): OVMF gives every BAR an address, all three ports
// above each GPU have the host's link, and cloud-init puts the topology file where NCCL
// looks.
func TestRecipe(t *testing.T) {
	image := os.Getenv(CloudInitVariable)
	if image == "" || os.Getenv(oracle.RootVariable) == "" {
		t.Skipf("%s and %s are not both set; `make recipe` sets them", CloudInitVariable,
			oracle.RootVariable)
	}

	recorded := filepath.Join(root, "testdata", "launcher", "recipe")
	text := expect.File(t, filepath.Join(recorded, "defined.xml"))
	domain, err := tree.Parse(text)
	expect.NoError(t, err)
	file := entryOf(t, domain)

	// the guest's own come instead
	domain.Find("devices").Remove(func(n *tree.Node) bool { return n.Name == "disk" })
	instead := largeBAR(recipeBARBits)
	instead.bytes = func(alias string) uint64 {
		if strings.HasPrefix(alias, "ua-gpu-") {
			return 1 << recipeBARBits
		}
		return 1 << 20
	}

	args, err := arguments(oracle.New(t), domain.Bytes(), instead, 512)
	expect.NoError(t, err)
	options, err := fwcfg(text)
	expect.NoError(t, err)
	shown := bootDebian(t, image, filepath.Join(recorded, "cloud-init", "user-data"),
		slices.Concat(args, options, []string{
			"-fw_cfg", "name=opt/" + topologyEntry + ",string=" + file,
		}))

	want, err := base64.StdEncoding.DecodeString(file)
	expect.NoError(t, err)
	if got := shown["/var/run/nvidia-topologyd/virtualTopology.xml"]; got != string(want) {
		t.Errorf("the guest's topology file has %d bytes, want %d", len(got), len(want))
	}

	checkRecipe(t, shown["/srv/pci"])
}

const topologyEntry = "org.kubevirt.hostdev/nccl-topology"

// entryOf returns the text of the topology file's entry.
func entryOf(t *testing.T, domain *tree.Node) string {
	t.Helper()
	for _, info := range domain.All("sysinfo") {
		for _, entry := range info.All("entry") {
			if entry.Attr("name") == "opt/"+topologyEntry {
				return entry.Text
			}
		}
	}

	t.Fatal("the domain has no topology file")
	return ""
}

// checkRecipe checks the guest's sysfs: per device its directory, class, link speed, which is three
// words where it is known, width, node and resources.
func checkRecipe(t *testing.T, lines string) {
	t.Helper()
	links, gpus := map[string]string{}, []string{}
	for line := range strings.Lines(lines) {
		fields := strings.Fields(line)
		first := slices.IndexFunc(fields, func(f string) bool {
			return len(f) == len("0x0000000000000000")
		})

		const beforeLink, afterLink = 2, 1 // directory and class; node
		links[fields[0]] = strings.Join(fields[beforeLink:first-afterLink], " ")
		const portClass = "0x060400" // include/linux/pci_ids.h, PCI_CLASS_BRIDGE_PCI_NORMAL
		if fields[1] == portClass {
			continue // its windows are no BARs
		}

		for bar := range slices.Chunk(fields[first:], 3) {
			var n [3]uint64
			for i, number := range bar {
				var err error
				if n[i], err = strconv.ParseUint(number, 0, 64); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
			}

			isMemory, size := n[2]&0x200 != 0, n[1]-n[0]+1 // include/linux/ioport.h, IORESOURCE_MEM
			if isMemory && n[0] == 0 {
				t.Errorf("a BAR of %d bytes has no address: %s", size, fields[0])
			}

			if isMemory && n[0] != 0 && size == 1<<recipeBARBits {
				gpus = append(gpus, fields[0])
			}
		}
	}

	if len(gpus) != recipeGPUs {
		t.Errorf("%d BARs of %d GiB have an address, want %d", len(gpus), 1<<(recipeBARBits-30),
			recipeGPUs)
	}

	const host = "32.0 GT/s PCIe 16" // of testdata/hosts/x86-2n8g-hgx-h100.txtar
	for _, gpu := range gpus {
		var above []string
		for dir := path.Dir(gpu); links[dir] != ""; dir = path.Dir(dir) {
			above = append(above, links[dir])
		}

		if !slices.Equal(above, []string{host, host, host}) {
			t.Errorf("the ports above %s have the links %q, want root, upstream and downstream "+
				"port with %s", gpu, above, host)
		}
	}
}

// bootDebian boots the image with user data and returns what it reports, by name
// (test/cloudinit/get-image).
func bootDebian(t *testing.T, image, userData string, args []string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	run := func(name string, args ...string) {
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}

	disk, seed, report := filepath.Join(dir, "disk.raw"), filepath.Join(dir,
		"seed"), filepath.Join(dir, "report")
	run("cp", "--sparse=always", filepath.Join(image, "disk.raw"), disk)
	run("mkdir", seed)
	run("cp", userData, filepath.Join(seed, "user-data"))
	expect.NoError(t,
		os.WriteFile(filepath.Join(seed, "meta-data"), []byte("{\"instance-id\": \"recipe\"}\n"),
			0o644))

	run("xorrisofs", "-quiet", "-output", seed+".iso", "-volid", "cidata", "-joliet", "-rock", seed)

	// Slots of the root bus from 0x10 on have no device of the domain's.
	own := []string{
		"-cpu", recipeCPU, "-kernel", filepath.Join(image, "vmlinuz"), "-initrd",
		filepath.Join(image, "initrd.img"),
		"-append", "root=/dev/vda rw console=ttyS0", "-serial", "stdio", "-serial",
		"file:" + report,
		"-drive", "if=none,id=root,format=raw,cache=unsafe,file=" + disk, "-device",
		"virtio-blk-pci,drive=root,bus=pcie.0,addr=0x10",
		"-drive", "if=none,id=seed,format=raw,readonly=on,file=" + seed + ".iso", "-device",
		"virtio-blk-pci,drive=seed,bus=pcie.0,addr=0x11",
	}

	qemu := amd64().qemu()
	began := time.Now()
	console, err := Run(t.Context(), 3*time.Minute, qemu[0],
		slices.Concat(qemu[1:], own, OVMF.arguments(), args)...)
	if err != nil {
		t.Fatalf("%v; the end of its console:\n%s", err, console[max(0, len(console)-4000):])
	}

	t.Logf("booted in %v", time.Since(began).Round(time.Second))
	data := expect.File(t, report)
	shown, err := cloudinit.ReadReport(string(data))
	expect.NoError(t, err)
	return shown
}
