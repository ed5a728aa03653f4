package fit

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"hook-sidecar/test/expect"
	"hook-sidecar/test/fleet"
)

// TestPage runs the claims of docs/devices.md on the hosts that they are for.
func TestPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "devices.md"))
	if err != nil {
		t.Fatal(err)
	}

	hosts := map[string]struct {
		host string
		gpu  fleet.Driver
	}{
		"two-pairs":  {"x86-2n8g-hgx-h100", fleet.NVIDIA()},
		"one-socket": {"x86-2n4g-three-roots", fleet.NVIDIA()},
	}

	got := map[string]int{}
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1) {
		o, err := parse(string(block[1]))
		if err != nil {
			t.Fatal(err)
		}

		name := o.Templates[0].Name
		vm := fmt.Sprintf("kind: VirtualMachine\nspec: {template: {spec: {resourceClaims: "+
			"[{name: devices, resourceClaimTemplateName: %s}]}}}", name)
		if o, err = parse(string(block[1]), vm); err != nil {
			t.Fatal(err)
		}

		shape := shapeOf(t, o)
		on := objects(t, hosts[name].host, hosts[name].gpu, fleet.SRIOV())
		answer := answerFor(t, on, shape)
		got[name] = answer.Now
	}

	expect.Same(t, map[string]int{
		"two-pairs": 4, "one-socket": 2,
	}, got, "VMs per node (-want +got)")

	for overAll, row := range map[bool]string{
		true: "one constraint over all", false: "one constraint per pair",
	} {
		row = "| VMs per node, " + row + " |"
		for _, pairs := range []int{1, 2, 4, 8} {
			wish := Wish{
				GPUs:     pairs,
				NICs:     pairs,
				GPUClass: fleet.NVIDIA().Class,
				NICClass: fleet.SRIOV().Class,
				Pair:     true,
			}

			answer, _ := count(t, objects(t, "x86-2n8g-hgx-h100", fleet.NVIDIA(), fleet.SRIOV()),
				wish, overAll)
			row += fmt.Sprintf(" %d |", answer.Now)
		}

		if !strings.Contains(string(page), row) {
			t.Errorf("the page does not have the row %s", row)
		}
	}
}
