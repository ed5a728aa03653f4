package readback

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"hook-sidecar/test/expect"
	"hook-sidecar/test/oracle"
	"hook-sidecar/test/tree"
)

// launched returns boots that hook-sidecar/test/launcher has recorded: what a real
// virt-launcher 1.9.0 sent in each call, what hook-sidecar answered, and what libvirt
// 11 held in the end.
func launched(t *testing.T, name string) (inputs, answers [][]byte, vmi, defined []byte) {
	t.Helper()
	read := func(file string) []byte {
		return expect.File(t, filepath.Join("..", "..", "testdata", "launcher", name, file))
	}

	files, err := filepath.Glob(filepath.Join("..", "..", "testdata", "launcher", name,
		"input*.xml"))
	expect.NoError(t, err)
	for n := range files {
		inputs, answers = append(inputs, read(fmt.Sprintf("input%d.xml", n+1))), append(answers,
			read(fmt.Sprintf("answer%d.xml", n+1)))
	}

	return inputs, answers, read("input1.vmi.json"), read("defined.xml")
}

// watchdog is q35's, which libvirt knows and adds since version 9.1 (its NEWS). It has
// no PCI address and takes no part in what follows.
const watchdog = `<watchdog model="itco" action="reset"></watchdog>`

// TestRealLauncher: from the first call and the answers of a real boot the model makes
// the other calls as virt-launcher did, byte for byte but for the order of devices, in
// which libvirt 9 and 11 differ, and this machine's libvirt holds in the end what the
// recorded one held.
func TestRealLauncher(t *testing.T) {
	libvirt := oracle.New(t)
	lib := func(domain []byte) ([]byte, error) {
		return libvirt.Readback(bytes.ReplaceAll(domain, []byte(watchdog), nil))
	}

	for name, calls := range map[string]int{"plain": 2, "hgx": 2, "node": 3} {
		t.Run(name, func(t *testing.T) {
			inputs, answers, vmi, defined := launched(t, name)
			if len(inputs) != calls {
				t.Fatalf("%d calls are recorded, want %d", len(inputs), calls)
			}

			n := 0
			recorded := func([]byte) ([]byte, error) {
				n++
				return answers[n-1], nil
			}

			made, _ := V190.Sequence(t, inputs[0], vmi, recorded, lib)
			if len(made) != len(inputs) {
				t.Fatalf("%d calls, want %d", len(made), len(inputs))
			}

			for i := range made {
				compare(t, fmt.Sprint("call ", i+1), sorted(t, inputs[i]), sorted(t, made[i]))
			}

			here, err := lib(answers[len(answers)-1])
			expect.NoError(t, err)
			expect.Same(t, without(watchdog, seen(t, V190, defined)),
				without(watchdog, seen(t, V190, here)), "devices in the end (-recorded +here)")
		})
	}
}

// sorted returns a domain with its devices in the order of their texts.
func sorted(t *testing.T, domain []byte) []byte {
	t.Helper()
	sorted, err := edit(bytes.ReplaceAll(domain, []byte(watchdog), nil), func(devices *tree.Node) {
		slices.SortFunc(devices.Nodes, func(a, b *tree.Node) int {
			return bytes.Compare(a.Bytes(), b.Bytes())
		})
	})

	expect.NoError(t, err)
	return sorted
}

// seen returns the devices of a readback as KubeVirt keeps them, one text each, sorted. The MAC
// that libvirt generates for a placeholder is random.
func seen(t *testing.T, version Version, readback []byte) []string {
	t.Helper()
	spec, err := version.parse(readback)
	expect.NoError(t, err)
	var texts []string
	for _, device := range spec.Find("devices").Nodes {
		if device.Name == "interface" {
			device.Remove(func(n *tree.Node) bool { return n.Name == "mac" || n.Name == "source" })
		}
		texts = append(texts, string(device.Bytes()))
	}

	slices.Sort(texts)
	return texts
}

func without(device string, all []string) []string {
	return slices.DeleteFunc(all, func(d string) bool { return d == device })
}
