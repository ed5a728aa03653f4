package boot

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// LargestVariable names the environment variable that, set to 1, adds the largest
// machines of each layout with both firmwares, which takes minutes.
const LargestVariable = "BOOT_LARGEST"

// SizesVariable names the environment variable that, set to 1, boots all of
// TestSizes instead of those that pin the check in a minute.
const SizesVariable = "BOOT_SIZES"

// silence returns how long a guest may print nothing. A firmware prints nothing while it numbers
// the buses and maps BARs: with the most devices and the largest BARs OVMF needs minutes.
func silence() time.Duration {
	if os.Getenv(LargestVariable) == "1" || os.Getenv(SizesVariable) == "1" {
		return 5 * time.Minute
	}
	return 90 * time.Second
}

// ErrLost is the error of a machine that hangs, or ends before its work is done, as emulated ones do
// now and then. It is worth another attempt.
var ErrLost = errors.New("the machine is lost")

// Lab boots guests and counts the retries. It is safe for concurrent use.
type Lab struct {
	system System

	mu             sync.Mutex
	boots, retries int
}

// Boot boots a guest and reads what it prints. About one boot in fifty is lost under TCG, so a
// guest that is lost is started once more.
func (l *Lab) Boot(ctx context.Context, args []string, firmware Firmware) (*Guest, error) {
	guest, err := l.boot(ctx, args, firmware)
	if errors.Is(err, ErrLost) {
		l.mu.Lock()
		l.retries++
		l.mu.Unlock()
		return l.boot(ctx, args, firmware)
	}

	return guest, err
}

// boot boots a guest once.
func (l *Lab) boot(ctx context.Context, args []string, firmware Firmware) (*Guest, error) {
	l.mu.Lock()
	l.boots++
	l.mu.Unlock()

	qemu := l.system.qemu()
	console, err := Run(ctx, silence(), qemu[0],
		slices.Concat(qemu[1:], l.system.arguments(), firmware.arguments(), args)...)
	if err != nil {
		return nil, fmt.Errorf("%w; the end of its console:\n%s", err, end(console))
	}

	return ReadGuest(console)
}

// end returns the end of what a machine printed.
func end(console []byte) []byte { return console[max(0, len(console)-2000):] }

// Counts returns the boots that were started, and how many of them were retries.
func (l *Lab) Counts() (boots, retries int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.boots, l.retries
}

// Run runs a program until it ends and returns what it printed. It is stopped when it prints
// nothing for the time of silence. The error of that, and of a program that a signal ends, as a
// failed assertion does, is ErrLost.
func Run(
	ctx context.Context, silence time.Duration, program string, args ...string,
) (console []byte, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(silence, func() {
		cancel(fmt.Errorf("%w: silent for %v", ErrLost, silence))
	})
	defer watchdog.Stop()
	command := exec.CommandContext(ctx, program, args...)

	// A test that is stopped stops its guests.
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}

	if err := command.Start(); err != nil {
		return nil, err
	}

	console, readErr := readWatched(out, watchdog, silence)
	err = command.Wait()
	switch cause := context.Cause(ctx); {
	case cause != nil:
		return console, cause
	case command.ProcessState.ExitCode() == -1:
		return console, fmt.Errorf("%w: %s: %w: %s", ErrLost, program, err, stderr.String())
	case err != nil:
		return console, fmt.Errorf("%s: %w: %s", program, err, stderr.String())
	}

	return console, readErr
}

// readWatched reads to the end and resets the watchdog with every piece.
func readWatched(r io.Reader, watchdog *time.Timer, silence time.Duration) ([]byte, error) {
	var all bytes.Buffer
	piece := make([]byte, 64<<10)
	for {
		n, err := r.Read(piece)
		all.Write(piece[:n])
		if n > 0 {
			watchdog.Reset(silence)
		}

		if errors.Is(err, io.EOF) {
			return all.Bytes(), nil
		}
		if err != nil {
			return all.Bytes(), err
		}
	}
}

// Guest is what a guest's kernel shows.
type Guest struct {
	Devices []Device
	Kernel  []string          // the kernel's messages about BARs that it had to assign
	Passed  map[string]string // the result of the guest's VFIO for each device, by address
	Nodes   map[string]string // files of /sys/devices/system/node
	// what the guest's VFIO mapped, by what that was, in the order of size
	Mapped map[string][]Mapping
	// whether the guest's kernel lets a device reach another's memory, by the addresses of that one
	// and of the device; nil without the kernel's nvmet
	Peers map[[2]string]bool
	// what `hook-sidecar snapshot` printed in the guest; nil where it did not run
	Snapshot []byte
}

// Mapping is a request to VFIO, and how long it took: instructions, of a guest with -icount.
type Mapping struct{ Bytes, Instructions uint64 }

// Device is a PCI device of the guest.
type Device struct {
	Path  string // under /sys/devices: root bus, bridges, device
	ID    string // vendor:device
	Class string
	Node  int
	Label string // serial number or MAC, or ""
	BARs  []BAR  // of memory

	VendorCapability string // in hex, or ""
	IOMMU            string // "." if there is none before the device
}

// Address returns the device's PCI address.
func (d Device) Address() string { return d.Path[strings.LastIndex(d.Path, "/")+1:] }

// BAR is a memory BAR of a device; one without address begins at 0.
type BAR struct{ Number, Start, End uint64 }

// ReadGuest reads what the guest's init has printed. Of a guest that ended before its init did the
// error is ErrLost: with panic=-1 and -no-reboot QEMU ends with status 0 after a panic or a reset.
func ReadGuest(console []byte) (*Guest, error) {
	guest := &Guest{
		Passed: map[string]string{}, Nodes: map[string]string{}, Mapped: map[string][]Mapping{},
	}
	ended := false
	var packed []byte
	for lines := bufio.NewScanner(bytes.NewReader(console)); lines.Scan(); {
		// A line can begin with the firmware's last escape sequences.
		at := strings.Index(lines.Text(), "GUEST-")
		if at < 0 {
			continue
		}

		kind, text, _ := strings.Cut(strings.TrimSpace(lines.Text()[at:]), " ")
		switch kind {
		case "GUEST-ERROR":
			return nil, errors.New("the guest reports: " + text)
		case "GUEST-END":
			ended = true
		case "GUEST-KERNEL":
			guest.Kernel = append(guest.Kernel, text)
		case "GUEST-VFIO":
			address, result, _ := strings.Cut(text, " ")
			guest.Passed[address] = result

		case "GUEST-PEER":
			var owner, device, answer string
			if _, err := fmt.Sscan(text, &owner, &device, &answer); err != nil {
				return nil, fmt.Errorf("read peers %q: %w", text, err)
			}
			if guest.Peers == nil {
				guest.Peers = map[[2]string]bool{}
			}
			guest.Peers[[2]string{owner, device}] = answer == "allowed"

		case "GUEST-NODES":
			file, value, _ := strings.Cut(text, " ")
			guest.Nodes[file] = value

		case "GUEST-MAPPED":
			if err := guest.addMapping(text); err != nil {
				return nil, err
			}

		case "GUEST-SNAPSHOT":
			data, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return nil, fmt.Errorf("decode the guest's snapshot: %w", err)
			}
			packed = append(packed, data...)

		case "GUEST-DEVICE":
			device, err := readDevice(text)
			if err != nil {
				return nil, err
			}
			guest.Devices = append(guest.Devices, device)
		}
	}

	if !ended {
		return nil, fmt.Errorf("%w: it ended before its work:\n%s", ErrLost, end(console))
	}

	var err error
	guest.Snapshot, err = unpack(packed)
	return guest, err
}

// addMapping adds what a line says of a request to VFIO: its kind, bytes, time.
func (g *Guest) addMapping(text string) error {
	var what string
	var m Mapping
	if _, err := fmt.Sscan(text, &what, &m.Bytes, &m.Instructions); err != nil {
		return fmt.Errorf("read mapping %q: %w", text, err)
	}

	g.Mapped[what] = append(g.Mapped[what], m)
	return nil
}

// unpack decompresses the snapshot.
func unpack(packed []byte) ([]byte, error) {
	if packed == nil {
		return nil, nil
	}

	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpack the guest's snapshot: %w", err)
	}

	text, err := io.ReadAll(z)
	if err != nil {
		return nil, fmt.Errorf("unpack the guest's snapshot: %w", err)
	}

	return text, z.Close()
}

func readDevice(text string) (d Device, err error) {
	for _, field := range strings.Fields(text) {
		key, value, _ := strings.Cut(field, "=")
		switch key {
		case "path":
			d.Path = value
		case "id":
			d.ID = value
		case "class":
			d.Class = value
		case "vendor":
			d.VendorCapability = value
		case "label":
			d.Label = value
		case "iommu":
			d.IOMMU = value
		case "memory":
			if d.BARs, err = readBARs(value); err != nil {
				return d, fmt.Errorf("read device %s of the guest: %w", text, err)
			}

		case "node":
			if d.Node, err = strconv.Atoi(value); err != nil {
				return d, fmt.Errorf("read device %s of the guest: %w", text, err)
			}
		}
	}

	return d, nil
}

func readBARs(list string) (bars []BAR, err error) {
	for text := range strings.SplitSeq(list, ",") {
		var b BAR
		if text == "" {
			continue
		}

		if _, err := fmt.Sscanf(text, "%d:%v-%v", &b.Number, &b.Start, &b.End); err != nil {
			return nil, fmt.Errorf("read BAR %q: %w", text, err)
		}

		bars = append(bars, b)
	}

	return bars, nil
}
