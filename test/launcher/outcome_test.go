//go:build linux && lane

package launcher

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/test/boot"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/tree"
)

// outcome is what happened to a pod.
type outcome struct {
	result
	dir     string
	inputs  []string // domains that the launcher sent in each call, before any hook
	defined []string // what it had libvirt define in each call
}

// result is what the pod wrote to result.json.
type result struct {
	Syncs, Running, Left []string
	Shutdown             bool
	Ends                 map[string]int
	Plugged              string
}

// definition is virt-launcher's line on a domain that it defines.
var definition = regexp.MustCompile(`Domain XML generated\. Base64 dump ([A-Za-z0-9+/=]+)`)

func read(t *testing.T, l lab, p pod, dir string) outcome {
	t.Helper()
	o := outcome{dir: dir}
	expect.NoError(t, json.Unmarshal(o.file(t, "result.json"), &o.result))
	for n := 1; o.has(fmt.Sprintf("input%d.xml", n)); n++ {
		o.inputs = append(o.inputs, string(o.file(t, fmt.Sprintf("input%d.xml", n))))
	}

	for _, match := range definition.FindAllSubmatch(o.file(t, "compute.log"), -1) {
		domain, err := base64.StdEncoding.DecodeString(string(match[1]))
		expect.NoError(t, err)
		o.defined = append(o.defined, string(domain))
	}

	return o
}

// last returns the error of the last try, "" for none.
func (o outcome) last() string {
	if len(o.Syncs) == 0 {
		return "no try ended in time"
	}
	return o.Syncs[len(o.Syncs)-1]
}

func (o outcome) path(name string) string { return filepath.Join(o.dir, name) }

func (o outcome) has(name string) bool {
	_, err := os.Stat(o.path(name))
	return err == nil
}

func (o outcome) file(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(o.path(name))
	if err != nil {
		t.Fatalf("%v\n%s", err, tail(o.path("compute.log")))
	}

	return data
}

// ask runs hook-sidecar on the domain of a file, with the VMI of the first call.
func (o outcome) ask(t *testing.T, l lab, domain string, args ...string) []byte {
	t.Helper()
	command := exec.Command(l.program,
		append(args, "--domain", o.path(domain), "--vmi", o.path("input1.vmi.json"))...)
	out, err := command.Output()
	if err != nil {
		t.Fatalf("hook-sidecar %s: %v\n%s", strings.Join(args, " "), err, out)
	}

	return out
}

// planned returns where `explain` predicts, for the domain of the first call, that each device
// will be in the guest.
func (o outcome) planned(t *testing.T, l lab, flags []string) map[string]string {
	t.Helper()
	plan := &boot.Explained{}
	expect.NoError(t,
		json.Unmarshal(o.ask(t, l, "input1.xml",
			append([]string{"explain", "-o", "json"}, flags...)...), plan))

	all := map[string]string{}
	for label, want := range plan.Expectations() {
		all[label] = fmt.Sprintf("%s, node %d", want.Tree, want.Node)
	}

	return all
}

// places returns the places of a domain's hostdevs, by ID, in the words of boot.Expected, and of
// its disks, NICs and controllers that have one.
func places(t *testing.T, domain string) (hostdevs, others map[string]string) {
	t.Helper()
	read, err := tree.Read([]byte(domain))
	expect.NoError(t, err)
	hostdevs, others = map[string]string{}, map[string]string{}
	for _, d := range read.Devices {
		switch {
		case d.At == nil:
		case d.ID != "":
			hostdevs[boot.Label(d.ID)] = place(read, d.At)
		case d.Name == "disk" || d.Name == "interface" || d.Name == "controller" &&
			d.Attr("type") != "pci":
			others[d.Label] = place(read, d.At)
		}
	}

	return hostdevs, others
}

func place(read *tree.Tree, at *tree.Address) string {
	root, cell, parts := 0, tree.Unknown, []string{fmt.Sprintf("%02x.%x", at.Slot, at.Function)}
	for _, c := range read.Above(at) {
		if c.Model == tree.ExpanderBus {
			root, cell = c.BusNr, c.Cell
		} else if c.At != nil {
			parts = append(parts, fmt.Sprintf("%02x.%x", c.At.Slot, c.At.Function))
		}
	}

	slices.Reverse(parts)
	return fmt.Sprintf("pci0000:%02x/%s, node %d", root, strings.Join(parts, "/"), cell)
}

// moved returns the devices that are elsewhere in a later definition, or in the domain that
// libvirt holds, than in an earlier one.
func (o outcome) moved(t *testing.T) (moved []string) {
	t.Helper()
	all := o.defined
	if o.has("defined.xml") {
		all = append(slices.Clone(all), string(o.file(t, "defined.xml")))
	}

	first := map[string]string{}
	for call, domain := range all {
		hostdevs, others := places(t, domain)
		maps.Copy(hostdevs, others)
		for id, at := range hostdevs {
			if was, known := first[id]; known && was != at {
				moved = append(moved,
					fmt.Sprintf("%s in definition %d: %s, was %s", id, call+1, at, was))
			}
			first[id] = at
		}
	}

	slices.Sort(moved)
	return moved
}

// update writes the recordings that test/readback reads.
var update = flag.Bool("update", false, "rewrite testdata/launcher")

// compareRecord compares what virt-launcher sends, and what libvirt holds after the
// last call, with the recording.
func (o outcome) compareRecord(t *testing.T, name string) {
	t.Helper()
	dir := filepath.Join("..", "..", "testdata", "launcher", name)
	files := []string{"input1.vmi.json", "defined.xml"}
	if o.has("cloud-init/user-data") {
		files = append(files, "cloud-init/user-data")
	}

	for n := range o.inputs {
		files = append(files, fmt.Sprintf("input%d.xml", n+1), fmt.Sprintf("answer%d.xml", n+1))
	}

	for _, file := range files {
		got := o.file(t, file)
		if *update {
			expect.NoError(t,
				errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755),
					os.WriteFile(filepath.Join(dir, file), got, 0o644)))
			continue
		}

		want := expect.File(t, filepath.Join(dir, file))
		expect.Same(t, string(want), string(got), "%s (-recorded +now; go test -update writes it)",
			file)
	}
}
