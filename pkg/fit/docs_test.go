package fit

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"hook-sidecar/test/expect"
	"hook-sidecar/test/fleet"
)

// TestPage runs the claims of docs/aligned-devices.md on the hosts that they are for.
func TestPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "aligned-devices.md"))
	if err != nil {
		t.Fatal(err)
	}
	hosts := map[string]struct {
		host string
		gpu  fleet.Driver
	}{
		"two-pairs":  {"x86-2n8g-hgx-h100", fleet.NVIDIA()},
		"one-pair":   {"x86-2n8g-hgx-h100", fleet.ROCm()},
		"one-socket": {"x86-2n4g-three-roots", fleet.NVIDIA()},
	}
	got := map[string]int{}
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1) {
		var o Objects
		if err := o.Add(block[1]); err != nil {
			t.Fatal(err)
		}
		name := o.Templates[0].Name
		on := objects(t, hosts[name].host, hosts[name].gpu, fleet.SRIOV())
		answer, err := New(on).Count(t.Context(), Shape{Claims: []*resourceapi.ResourceClaim{completed(o.Templates[0].ObjectMeta, o.Templates[0].Spec.Spec)}})
		if err != nil {
			t.Fatal(err)
		}
		got[name] = answer.Now
	}
	expect.Same(t, map[string]int{"two-pairs": 4, "one-pair": 8, "one-socket": 2}, got, "VMs per node (-want +got)")
	for pairing, row := range map[string]string{PairAll: "one constraint over all", PairRoot: "one constraint per pair"} {
		row = "| VMs per node, " + row + " |"
		for _, pairs := range []int{1, 2, 4, 8} {
			wish := Wish{GPUs: pairs, NICs: pairs, GPUClass: fleet.NVIDIA().Class, NICClass: fleet.SRIOV().Class, Pair: pairing}
			answer, _ := count(t, objects(t, "x86-2n8g-hgx-h100", fleet.NVIDIA(), fleet.SRIOV()), wish)
			row += fmt.Sprintf(" %d |", answer.Now)
		}
		if !strings.Contains(string(page), row) {
			t.Errorf("the page does not have the row %s", row)
		}
	}
	if words := len(strings.Fields(string(page))); words > 700 {
		t.Errorf("the page has %d words, want at most 700", words)
	}
}
