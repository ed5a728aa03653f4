package abuse

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/test/expect"
)

// TestSysfsVanishes: a device comes and goes while its host is read, as in a
// hotplug or an unbind. Each call either places it or leaves it, and returns a
// domain with every device in it.
func TestSysfsVanishes(t *testing.T) {
	dir := expect.HostDir(t, hostOfOne(t))
	sysfs, err := host.OpenSysfs(dir)
	expect.NoError(t, err)
	stop := make(chan struct{})
	var churning sync.WaitGroup
	churning.Go(func() { churn(t, dir, stop) })

	input := domainWith("x", goodAddress, goodUUID)
	placed, left := 0, 0
	for range expect.Count(500, 2000) {
		result := plan.Planner{Sysfs: sysfs}.Read(plan.Request{Domain: input}).Plan()
		if result.Err != nil {
			t.Errorf("%v", result.Err)
			break
		}

		d, err := domain.Parse(result.Domain)
		if err != nil {
			t.Fatalf("%v in %s", err, result.Domain)
		}

		if got := bytes.Count(result.Domain, []byte("<hostdev ")); got != 2 || d == nil {
			t.Fatalf("%d devices, want 2, in %s", got, result.Domain)
		}

		if bytes.Contains(result.Domain, []byte("pcie-expander-bus")) {
			placed++
		} else {
			left++
		}
	}

	close(stop)
	churning.Wait()
	if placed == 0 || left == 0 {
		t.Errorf("placed %d times and left %d times, want both", placed, left)
	}
}

// churn removes the device and its link and puts them back, until stop is closed.
func churn(t *testing.T, dir string, stop <-chan struct{}) {
	device := filepath.Join(dir, "devices/pci0000:00/0000:00:01.0/0000:02:00.0")
	link := filepath.Join(dir, "bus/pci/devices/0000:02:00.0")
	target, err := os.Readlink(link)
	if err != nil {
		t.Error(err)
		return
	}

	for {
		for _, step := range []func() error{
			func() error { return os.Rename(device, device+".gone") },
			func() error { return os.Remove(link) },
			func() error { return os.Rename(device+".gone", device) },
			func() error { return os.Symlink(target, link) },
		} {
			if err := step(); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
				return
			}
		}

		select {
		case <-stop:
			return
		default:
		}
	}
}
