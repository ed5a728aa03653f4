package plan_test

import (
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/policy"
	"hook-sidecar/test/cases"
)

// TestSSIDSize: KubeVirt's ssidSize gets the name that libvirt knows in every layout, also in keep, and
// keeps its value; in a dry run the domain is as it came.
func TestSSIDSize(t *testing.T) {
	all := cases.Load(t, "../..")
	grace := all[slices.IndexFunc(all, func(c cases.Case) bool { return c.Name == "grace" })]
	for _, layout := range []policy.Layout{policy.LayoutAuto, policy.LayoutNUMA, policy.LayoutRoot, policy.LayoutMirror, policy.LayoutKeep} {
		grace.Mutator.Flags = map[policy.Key]string{policy.KeyLayout: string(layout)}
		got := string(grace.Mutator.Read(grace.Request).Plan().Domain)
		if !strings.Contains(got, ` ril="off" ssidsize="20" oas="48"`) || strings.Contains(got, "ssidSize") {
			t.Errorf("layout %s: no ssidsize in\n%s", layout, got)
		}
	}
	grace.Mutator.Flags = map[policy.Key]string{policy.KeyDryRun: "true"}
	if got := grace.Mutator.Read(grace.Request).Plan().Domain; string(got) != string(grace.Request.Domain) {
		t.Errorf("a dry run changed the domain:\n%s", got)
	}
	grace.Mutator.Flags = nil
	both := strings.Replace(string(grace.Request.Domain), `ssidSize="20"`, `ssidSize="20" ssidsize="8"`, 1)
	grace.Request.Domain = []byte(both)
	if got := string(grace.Mutator.Read(grace.Request).Plan().Domain); !strings.Contains(got, `ssidSize="20" ssidsize="8"`) {
		t.Errorf("of two sizes the user's changed:\n%s", got)
	}
}
