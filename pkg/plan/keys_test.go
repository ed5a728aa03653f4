package plan_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/test/cases"
	"hook-sidecar/test/expect"
)

// guestKeys returns the keys that write something into the guest, with a value that asks for it.
// By default they write nothing.
func guestKeys() map[policy.Key]string {
	return map[policy.Key]string{
		policy.KeyNCCLTopology: string(policy.NCCLTopologyFWCfg), policy.KeyPortSpeed: "host",
		policy.KeyMMIOWindow: "auto",
		policy.KeyVIOMMU:     "intel", policy.KeyClique: "host",
	}
}

// TestKeys sets each key of the guest alone, and all at once, in every eleventh case, with WHOLE=1
// in every one: a second call changes nothing, Answer returns what Plan returns, and a call without
// the keys gives the bytes that there are without them. nccl-topology writes its entry and nothing
// else. With layout auto a key may change the layout, so both runs have the layout that is chosen
// without them. Keys that write nothing in a case are tried further with WHOLE=1 only.
func TestKeys(t *testing.T) {
	t.Parallel()
	all := guestKeys()
	sets := map[string][]policy.Key{"all": slices.Sorted(maps.Keys(all))}
	for key := range all {
		sets[string(key)] = []policy.Key{key}
	}

	const enough = 5 // cases with something written per set, before cases are left out
	names, written := slices.Sorted(maps.Keys(sets)), map[string]int{}
	for n, c := range cases.Load(t, root) {
		var tried []string
		for i, name := range names {
			if written[name] < enough || expect.IsSampled(n+i, 11) {
				tried = append(tried, name)
			}
		}

		if len(tried) == 0 {
			continue
		}

		off := c.Planner
		off.Flags = maps.Clone(off.Flags)
		off.Flags[policy.KeyStrict] = "false"              // a refused domain stays as it is
		off.Locked = append(sets["all"], policy.KeyStrict) // whatever the VMI's annotations say

		for _, setting := range policy.Settings() {
			if all[setting.Key] != "" {
				off.Flags[setting.Key] = setting.Default
			}
		}

		without := off.Read(c.Request).Plan()
		if p := without.Plan; p != nil && p.Policy.Layout == policy.LayoutAuto {
			off.Flags[policy.KeyLayout] = string(p.Layout)
		}

		for _, name := range tried {
			t.Run(fmt.Sprintf("%s/%s", c.Name, name), func(t *testing.T) {
				on := off
				on.Flags = maps.Clone(off.Flags)
				for _, key := range sets[name] {
					on.Flags[key] = all[key]
				}

				with := on.Read(c.Request).Plan()
				if !bytes.Equal(with.Domain, without.Domain) {
					written[name]++
				} else if !expect.IsWhole() {
					return
				}

				compareAnswer(t, with, on.Diagnose(on.Answer(c.Request)))

				if again := on.Read(plan.Request{
					Domain: with.Domain, VMI: c.Request.VMI,
				}).Plan(); !bytes.Equal(again.Domain, with.Domain) {
					t.Errorf("a second call changes the result:\n%s",
						changes(with.Domain, again.Domain))
				}

				if name == string(policy.KeyNCCLTopology) {
					got := filledElement.ReplaceAll(ncclEntry.ReplaceAll(with.Domain, nil),
						[]byte("$1"))
					if got = emptyElement.ReplaceAll(got, nil); !bytes.Equal(got, without.Domain) {
						t.Errorf("the key changes more than the entry:\n%s",
							changes(without.Domain, got))
					}
				}

				// Its iommu is the trace that KubeVirt leaves of the hook's own, and is replaced.
				if c.Name == "viommu-intel-after-kubevirt" {
					return
				}

				if out := off.Read(plan.Request{
					Domain: with.Domain, VMI: c.Request.VMI,
				}).Plan(); !bytes.Equal(out.Domain, without.Domain) {
					t.Errorf("off again is not the domain without the keys:\n%s",
						changes(without.Domain, out.Domain))
				}
			})
		}
	}

	for name := range sets {
		if written[name] < enough {
			t.Errorf("%s: only %d cases have something written: the test shows little", name,
				written[name])
		}
	}
}

// TestKeysInEmptyElements: a key that is off again leaves an element as it was that the key has filled
// and that was empty, however it was written.
func TestKeysInEmptyElements(t *testing.T) {
	t.Parallel()
	const head = `<domain type="qemu" xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0">
  <name>t</name>
  <memory unit="GiB">64</memory>
  <os>
    <type arch="x86_64" machine="q35">hvm</type>
  </os>
`
	defaults := map[policy.Key]string{}
	for _, setting := range policy.Settings() {
		defaults[setting.Key] = setting.Default
	}

	elements := []string{
		"sysinfo type='fwcfg'", "features", "devices", "qemu:commandline", "qemu:override",
	}

	for _, form := range []string{"<%s/>", "<%s />", "<%[1]s></%[2]s>", "<%[1]s>\n  </%[2]s>"} {
		text := head
		for _, element := range elements {
			name, _, _ := strings.Cut(element, " ")
			if strings.Contains(form, "[2]") {
				text += "  " + fmt.Sprintf(form, element, name) + "\n"
			} else {
				text += "  " + fmt.Sprintf(form, element) + "\n"
			}
		}

		text += "</domain>\n"
		for key, value := range guestKeys() {
			planner := plan.Planner{Sysfs: fstest.MapFS{}}
			planner.Flags = map[policy.Key]string{key: value}
			with := planner.Read(plan.Request{Domain: []byte(text)}).Plan()
			planner.Flags = map[policy.Key]string{key: defaults[key]}
			out := planner.Read(plan.Request{Domain: with.Domain}).Plan()
			if string(out.Domain) != text {
				t.Errorf("%s in %s: %s", key, form, changes([]byte(text), out.Domain))
			}
		}
	}
}
