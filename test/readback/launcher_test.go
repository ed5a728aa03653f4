package readback

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// launched are boots that hook-sidecar/test/launcher has recorded: what a real
// virt-launcher 1.9.0 sent in each call, what hook-sidecar answered, and what libvirt
// 11 held in the end.
func launched(t *testing.T, name string) (inputs, answers [][]byte, vmi, defined []byte) {
	t.Helper()
	read := func(file string) []byte {
		data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "launcher", name, file))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	files, err := filepath.Glob(filepath.Join("..", "..", "testdata", "launcher", name, "input*.xml"))
	if err != nil {
		t.Fatal(err)
	}
	for n := range files {
		inputs, answers = append(inputs, read(fmt.Sprintf("input%d.xml", n+1))), append(answers, read(fmt.Sprintf("answer%d.xml", n+1)))
	}
	return inputs, answers, read("input1.vmi.json"), read("defined.xml")
}

// watchdog is q35's, which libvirt prints since version 9.1 (its NEWS). The model is
// of 9.0. It has no PCI address and takes no part in what follows.
const watchdog = `<watchdog model="itco" action="reset"></watchdog>`

// TestRealLauncher: from the first call and the answers of a real boot the model makes
// the other calls as virt-launcher did, byte for byte, and its libvirt holds in the
// end what the real one held.
func TestRealLauncher(t *testing.T) {
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
			made, _ := V190.Sequence(t, inputs[0], vmi, recorded, Libvirt)
			if len(made) != len(inputs) {
				t.Fatalf("%d calls, want %d", len(made), len(inputs))
			}
			for i := range made {
				line := []byte("\t\t" + watchdog + "\n")
				compare(t, fmt.Sprint("call ", i+1), bytes.ReplaceAll(inputs[i], line, nil), bytes.ReplaceAll(made[i], line, nil))
			}
			model, err := Libvirt(answers[len(answers)-1])
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(without(watchdog, seen(t, V190, defined)), without(watchdog, seen(t, V190, model))); d != "" {
				t.Errorf("devices in the end (-libvirt +model):\n%s", d)
			}
		})
	}
}

func without(device string, all []string) []string {
	return slices.DeleteFunc(all, func(d string) bool { return d == device })
}
