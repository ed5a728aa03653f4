package abuse

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"

	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/test/expect"
)

// evil has values that would lead to other files or end an attribute if they were
// used as they are.
var evil = []string{
	"../../../../etc/passwd", "/etc/passwd", "0000:02:00.0/../../../../../etc/passwd", "..", ".",
	"",
	"%2e%2e%2f", "..\\..", "0000:02:00.0\x00/etc", "0000:02:00.0\n../x", "$(reboot)", "`reboot`",
	`"><evil/>`, `'/><evil x='`, "]]><evil/>", "&evil;", "<!--", strings.Repeat("../", 4096),
}

// domainWith returns a domain that has the text wherever a domain has text, and two devices: one
// with the PCI domain of its address given, one with its UUID.
func domainWith(text, address, uuid string) []byte {
	escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "\x00", "",
		"\n", "&#10;").Replace
	return fmt.Appendf(nil, `<domain type="kvm"><name>%[1]s</name><os><type arch="x86_64" machine="q35">hvm</type></os><devices>
<hostdev type="pci" managed="no"><source><address domain="%[2]s" bus="0x02" slot="0x00" function="0x0"></address></source><alias name="%[1]s"></alias></hostdev>
<hostdev type="mdev" mode="subsystem" model="vfio-pci"><source><address uuid="%[3]s"></address></source><alias name="ua-%[1]s"></alias></hostdev>
</devices><cpu><numa><cell id="0" cpus="0-7" memory="1" unit="GiB"></cell></numa></cpu><numatune><memnode cellid="0" mode="strict" nodeset="0"></memnode></numatune></domain>`,
		escape(text), escape(address), escape(uuid))
}

// A harmless PCI domain and a harmless UUID.
const (
	goodAddress = "0x0000"
	goodUUID    = "4a1f0b5c-6c3e-4f5a-9d0e-3b1c7f2a9e01"
)

// hostOfOne returns a host with the device 0000:02:00.0.
func hostOfOne(t *testing.T) fs.FS {
	t.Helper()
	files := expect.Host(t,
		"cpus 0 0-7\npci0000:00/0000:00:01.0/0000:02:00.0 node=0 group=1 driver=vfio-pci\n")
	return files
}

// recorder is a file system that records which names it is asked for.
type recorder struct {
	fs.FS
	mu    sync.Mutex
	asked []string
}

func (r *recorder) Open(name string) (fs.File, error) {
	r.note(name)
	return r.FS.Open(name)
}

func (r *recorder) ReadDir(name string) ([]fs.DirEntry, error) {
	r.note(name)
	return fs.ReadDir(r.FS, name)
}

func (r *recorder) ReadLink(name string) (string, error) {
	r.note(name)
	return fs.ReadLink(r.FS, name)
}

func (r *recorder) Lstat(name string) (fs.FileInfo, error) {
	r.note(name)
	return fs.Lstat(r.FS, name)
}

func (r *recorder) note(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, name)
}

// TestPathsStayInside: no path leaves the root of sysfs, whatever the domain, the
// VMI and the environment variables say. Every name is valid by the rules of
// io/fs, which allow no "..", no absolute path and no empty part, and is where
// sysfs has devices.
func TestPathsStayInside(t *testing.T) {
	for i, value := range evil {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			sysfs := &recorder{FS: hostOfOne(t)}
			variables, problems := env.ParseVariables([]string{
				"PCI_RESOURCE_EVIL=" + value, "MDEV_PCI_RESOURCE_EVIL=" + value + ",0000:02:00.0",
				"PCI_RESOURCE_" + value + "=0000:02:00.0",
			})

			m := plan.Planner{Sysfs: sysfs, Variables: variables, Problems: problems, Details: true,
				Source: policy.Source{Flags: map[policy.Key]string{
					policy.KeyAdd: "all", policy.KeyCompanions: "add", policy.KeyLayout: "mirror",
				}}}

			for _, domain := range [][]byte{
				domainWith(value, goodAddress, goodUUID), domainWith(value, value, goodUUID),
				domainWith(value, goodAddress, value),
			} {
				m.Read(plan.Request{Domain: domain, VMI: vmiWith(t, value)}).Plan()
			}

			if !slices.Contains(sysfs.asked, "bus/pci/devices/0000:02:00.0") {
				t.Errorf("the device was not read, so nothing was tried: %q", sysfs.asked)
			}

			for _, name := range sysfs.asked {
				top, _, _ := strings.Cut(name, "/")
				if !fs.ValidPath(name) ||
					!slices.Contains([]string{".", "bus", "class", "devices", "kernel"}, top) ||
					strings.Contains(name, "passwd") {
					t.Errorf("asked for %q", name)
				}
			}
		})
	}
}
