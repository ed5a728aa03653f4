package boot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/test/expect"
)

// CPUs of both vendors: firmware trusts a different number of address bits of each. OVMF uses more
// than 40 only with pages of 1 GiB.
const (
	intel = "Nehalem"
	amd   = "EPYC,+pdpe1gb"
)

// fromKey is the window of the policy key.
const fromKey = -1

// size is a guest whose devices have large BARs.
type size struct {
	layout        string
	devices, bits int // each with a BAR of 2^bits bytes
	firmware      Firmware
	cpu           string
	physBits      int
	cellMemory    int // MiB
	window        int // X-PciMmio64Mb, 0 without; fromKey: that of mmio-window=auto

	assigned int // BARs that the firmware gives an address
}

func (s size) name() string {
	vendor, _, _ := strings.Cut(s.cpu, ",")
	text := fmt.Sprintf("%s/%d-of-%dGiB/%s/%s/%d-bits/%d-MiB", s.layout, s.devices, 1<<(s.bits-30),
		s.firmware, vendor, s.physBits, 2*s.cellMemory)
	switch {
	case s.window == fromKey:
		text += "/with-the-key"
	case s.window > 0:
		text += fmt.Sprintf("/window-%d", s.window)
	}

	return text
}

// pinned returns the boots that tell a wrong check from a right one: one device less or more than
// fits.
func pinned() []size {
	return []size{
		{"root", 7, 36, SeaBIOS, intel, 39, 4096, 0, 7},
		{"root", 8, 36, SeaBIOS, intel, 39, 256, 0, 7},
		{"root", 7, 36, OVMF, amd, 42, 256, 0, 7},
		{"mirror", 8, 36, OVMF, amd, 42, 256, 0, 7},
		{"mirror", 8, 36, OVMF, amd, 42, 256, fromKey, 8},
	}
}

// further returns the other sizes, versions, vendors and windows.
func further() []size {
	return []size{
		{"numa", 4, 38, SeaBIOS, amd, 40, 256, 0, 3},
		{"root", 16, 36, SeaBIOS, amd, 46, 4096, 0, 16},
		// SeaBIOS begins above the memory, here at 42 GiB.
		{"root", 15, 35, SeaBIOS, intel, 39, 256, 0, 15},
		{"root", 15, 35, SeaBIOS, intel, 39, 20 << 10, 0, 14},
		{"mirror", 16, 38, SeaBIOSNewest, amd, 52, 4096, 0, 16},
		{"numa", 1, 36, OVMF, amd, 40, 256, 0, 1},
		// A device that fills the window alone takes all others down with it.
		{"numa", 1, 37, OVMF, amd, 40, 256, 0, 0},
		{"numa", 1, 37, OVMF2025, amd, 40, 256, 0, 0},
		{"numa", 1, 37, OVMFNewest, amd, 40, 256, 0, 0},
		// OVMF does not trust 40 bits of Intel, and has 32 GiB.
		{"numa", 1, 36, OVMF, intel, 40, 256, 0, 0},
		{"numa", 1, 36, OVMFNewest, intel, 40, 256, 0, 0},
		{"root", 4, 36, OVMF, intel, 39, 256, 0, 0},
		{"mirror", 8, 36, OVMFNewest, amd, 42, 256, 0, 7},
		{"mirror", 8, 37, OVMF, amd, 43, 4096, 0, 7},
		{"root", 16, 38, OVMF2025, amd, 46, 256, 0, 16},
		{"mirror", 16, 38, OVMFNewest, amd, 52, 4096, 0, 16},
		{"numa", 3, 36, OVMF, amd, 40, 256, 262144, 3},
		// 1 TiB is an eighth of 43 bits, and nothing is left for hotplug ports.
		{"root", 8, 37, OVMF, amd, 43, 256, 0, 0},
		{"auto", 8, 37, OVMF, amd, 43, 256, fromKey, 8},
		{"numa", 8, 37, OVMF, amd, 43, 256, fromKey, 8},
		{"root", 8, 37, OVMF2025, amd, 43, 256, fromKey, 8},
		{"mirror", 8, 37, OVMFNewest, amd, 43, 4096, fromKey, 8},
		{"numa", 1, 36, OVMF, intel, 40, 256, fromKey, 1},
		{"keep", 8, 37, OVMF, amd, 43, 256, fromKey, 8},
	}
}

// TestSizes boots devices with BARs of 64 to 256 GiB at the edge of the
// firmware's 64-bit window: as many have an address as in the table, and
// doctor's check bar-window fails where one has none.
func TestSizes(t *testing.T) {
	t.Parallel()
	b := newPC(t)
	sizes := pinned()
	if os.Getenv(SizesVariable) == "1" {
		sizes = slices.Concat(sizes, further())
	}

	for _, s := range sizes {
		t.Run(s.name(), func(t *testing.T) {
			t.Parallel()
			s.firmware.require(t)
			m := s.machine()
			flags := m.flags(t, s.layout)
			placed, plan := b.place(t, m, flags)
			args, err := arguments(b.libvirt, placed, m.instead, s.cellMemory)
			expect.NoError(t, err)
			args = append(args, "-cpu", fmt.Sprintf("%s,phys-bits=%d", s.cpu, s.physBits))
			domain := s.inDomain(placed)
			if s.window == fromKey {
				flags = append(flags, "--mmio-window", "auto")
				if domain, err = mutate(b.binary, domain, flags...); err != nil {
					t.Fatal(err)
				}
			}

			options, err := fwcfg(domain)
			expect.NoError(t, err)
			args = append(args, options...)
			guest, err := b.lab.Boot(t.Context(), args, s.firmware)
			expect.NoError(t, err)
			if n := assigned(guest, plan, m.instead.ids); n != s.assigned {
				t.Errorf("the firmware gives %d of %d BARs an address, want %d; the kernel's "+
					"messages:\n%s", n, s.devices, s.assigned, strings.Join(guest.Kernel, "\n"))
			}

			want := "PASS"
			if s.assigned < s.devices {
				want = "FAIL"
			}

			if status, found := b.check(t, "bar-window", domain, flags); status != want {
				t.Errorf("doctor reports %s %s, want %s", status, found, want)
			} else {
				t.Logf("%d of %d; %s %s", s.assigned, s.devices, status, found)
			}
		})
	}
}

// TestPCIHole boots devices on the root bus whose 64-bit window is off: what the firmware
// has given to the bus, the guest may use nevertheless. So mmio-window leaves pcihole64
// alone.
func TestPCIHole(t *testing.T) {
	t.Parallel()
	if os.Getenv(SizesVariable) != "1" {
		t.Skipf("%s is not 1", SizesVariable)
	}

	b := newPC(t)
	for _, firmware := range []Firmware{SeaBIOS, SeaBIOSNewest, OVMF, OVMFNewest} {
		t.Run(string(firmware), func(t *testing.T) {
			t.Parallel()
			firmware.require(t)
			s := size{"keep", 4, 36, firmware, amd, 43, 256, 0, 4}
			m := s.machine()
			domain, plan := b.place(t, m, m.flags(t, s.layout))
			const rootBus = "<controller type='pci' index='0' model='pcie-root'"
			args, err := arguments(b.libvirt,
				bytes.Replace(domain, []byte(rootBus+"/>"),
					[]byte(rootBus+"><pcihole64 unit='KiB'>0</pcihole64></controller>"), 1),
				m.instead, s.cellMemory)

			expect.NoError(t, err)

			if !slices.ContainsFunc(args, func(arg string) bool {
				return strings.Contains(arg, "pci-hole64-size=0")
			}) {
				t.Fatalf("pcihole64 is not off: %q", args)
			}

			guest, err := b.lab.Boot(t.Context(),
				append(args, "-cpu", fmt.Sprintf("%s,phys-bits=%d", s.cpu, s.physBits)), firmware)
			expect.NoError(t, err)
			if n := assigned(guest, plan, m.instead.ids); n != s.assigned {
				t.Errorf("the firmware gives %d of %d BARs an address; the kernel's messages:\n%s",
					n, s.devices, strings.Join(guest.Kernel, "\n"))
			}
		})
	}
}

// machine returns a host with the size's devices. Its root ports are the CPU vendor's.
func (s size) machine() *machine {
	m := ports(s.devices)
	if s.layout == "mirror" {
		m = eights(s.devices)
	}

	vendor := "0x1022"
	if s.cpu == intel {
		vendor = "0x8086"
	}

	for i, line := range m.host {
		m.host[i] += fmt.Sprintf(" bar=%d", s.bits)
		path := strings.Split(line, "/")
		m.host = append(m.host, path[0]+"/"+path[1]+" class=0x060400 vendor="+vendor)
	}

	return m.with(largeBAR(s.bits))
}

// inDomain writes into a domain what the guest is booted with beside it.
func (s size) inDomain(domain []byte) []byte {
	pairs := []string{
		"<memory unit='KiB'>524288</memory>",
		fmt.Sprintf("<memory unit='MiB'>%d</memory>", 2*s.cellMemory),
		"<numa>", fmt.Sprintf("<maxphysaddr mode='emulate' bits='%d'/><numa>", s.physBits),
	}

	if s.window > 0 {
		pairs = append(pairs, "<domain ",
			"<domain xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0' ", "</domain>",
			fmt.Sprintf("<qemu:commandline><qemu:arg value='-fw_cfg'/>"+
				"<qemu:arg value='name=opt/ovmf/X-PciMmio64Mb,string=%d'/></qemu:commandline>"+
				"</domain>", s.window))
	}

	return underFirmware([]byte(strings.NewReplacer(pairs...).Replace(string(domain))), s.firmware)
}

// fwcfg returns the -fw_cfg options of a domain.
func fwcfg(text []byte) (args []string, err error) {
	d, err := domain.Parse(text)
	if err != nil {
		return nil, err
	}

	for _, o := range d.Options() {
		if o.Name == domain.OptionFWCfg {
			args = append(args, o.Name, o.Value)
		}
	}

	return args, nil
}

// underFirmware writes into a domain which firmware it is booted with.
func underFirmware(domain []byte, f Firmware) []byte {
	if !strings.HasPrefix(string(f), "ovmf") {
		return domain
	}
	return bytes.Replace(domain, []byte("</os>"),
		[]byte("<loader readonly='yes' type='pflash'>/usr/share/OVMF/OVMF_CODE_4M.fd</loader></os>"), 1)
}

// require skips a test whose firmware is not there.
func (f Firmware) require(t *testing.T) {
	t.Helper()
	for variable, needing := range map[string][]Firmware{
		Debian13Variable: {OVMF2025, AAVMF2025}, NewestVariable: {OVMFNewest, SeaBIOSNewest},
	} {
		if slices.Contains(needing, f) && os.Getenv(variable) == "" {
			t.Skipf("%s is not set, which %s needs", variable, f)
		}
	}
}

// assigned counts the devices at their planned address whose large BAR has an
// address that the firmware gave it: where the kernel had to, its log has it.
func assigned(guest *Guest, plan *Explained, ids string) (n int) {
	for _, want := range plan.Expectations() {
		at := slices.IndexFunc(guest.Devices, func(d Device) bool {
			return d.ID == ids && d.Place() == want
		})
		if at < 0 {
			continue
		}

		large := slices.ContainsFunc(guest.Devices[at].BARs, func(b BAR) bool {
			return b.Start > 0 && b.End-b.Start >= 1<<30
		})

		if large && !slices.ContainsFunc(guest.Kernel, func(line string) bool {
			return strings.Contains(line, want.Address+": BAR 2")
		}) {
			n++
		}
	}

	return n
}

// check returns the result of a check of doctor for a domain.
func (b *bench) check(
	t *testing.T, name string, domain []byte, flags []string,
) (status, found string) {
	t.Helper()
	out, err := ask(b.binary, domain,
		append([]string{"doctor", "-o", "json", "--domain", "-"}, flags...)...)
	if exit := new(exec.ExitError); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		t.Fatal(err)
	}

	var report struct {
		Results []struct{ Name, Status, Found string }
	}

	expect.NoError(t, json.Unmarshal(out, &report))

	for _, r := range report.Results {
		if r.Name == name {
			return r.Status, r.Found
		}
	}

	t.Fatalf("no result of %s in %s", name, out)
	return "", ""
}
