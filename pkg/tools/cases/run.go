package cases

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"hook-sidecar/pkg/keys"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/report"
	"hook-sidecar/pkg/words"
)

// Difference is a section whose text is not what results.
type Difference struct {
	Section   string
	IsMissing bool // the case has no such section
	Want, Got string
	// Diff is the unified diff from what is wanted to what results: of want.diff it is that of the
	// domain, where its hunks fit the case's domain.
	Diff string
}

// Run plans the case. It returns what differs from the expected part, and the promises of the hook
// that do not hold. A new case on a host that has none of its devices is an error: what it would
// expect says nothing.
func (c *Case) Run() (differences []Difference, broken []string, _ error) {
	result := c.Planner.Read(c.Request).Plan()
	isNew := c.index(wantText) < 0 && c.index(wantDiff) < 0 && c.index(wantXML) < 0
	if r := report.New(result.Plan, false, nil); isNew && r.IsElsewhere() {
		return nil, nil, reasons.WithHint("name a snapshot of the VM's node: kubectl hostdev "+
			"snapshot VM --output-file host"+Ending,
			fmt.Errorf("%sthe host has none of the domain's %s", c.ofSetting("host"),
				words.Counted(len(r.Devices), "device")))
	}

	domain := Difference{Section: wantDiff, Got: changes(c.Request.Domain, result.Domain)}
	if c.index(wantXML) >= 0 {
		domain = Difference{Section: wantXML, Got: string(result.Domain)}
	}

	for _, d := range []Difference{ // the short one first
		{Section: wantText, Got: summary(result)}, domain,
	} {
		if d.IsMissing = c.index(d.Section) < 0; d.IsMissing {
			differences = append(differences, d)
			continue
		}

		if d.Want = string(c.Section(d.Section)); d.Want != d.Got {
			d.Diff = c.compare(d, result.Domain)
			differences = append(differences, d)
		}
	}

	return differences, c.broken(result), nil
}

// changes returns the unified diff of a domain without its first lines, which name files.
func changes(before, after []byte) string {
	_, body, _ := strings.Cut(string(diff.Diff("domain.xml", before, "domain.xml", after)),
		"+++ domain.xml\n")
	return body
}

// compare returns the diff of a difference.
func (c *Case) compare(d Difference, domain []byte) string {
	name, want, got := d.Section, []byte(d.Want), []byte(d.Got)
	if d.Section == wantDiff {
		if patched, fits := patch(string(c.Request.Domain), d.Want); fits {
			name, want, got = domainSection, []byte(patched), domain
		}
	}
	_, named, _ := strings.Cut(string(diff.Diff(name+" (wanted)", want, name+" (now)", got)), "\n")
	return named // without the line "diff …", which repeats them
}

// broken returns what the hook promises of each domain and does not keep in this case.
func (c *Case) broken(result plan.Result) []string {
	var broken []string
	again := c.planned(c.Planner, result.Domain)
	if !bytes.Equal(again.Domain, result.Domain) {
		broken = append(broken, "a second call changes the domain again:\n"+
			changes(result.Domain, again.Domain))
	}

	if c.NoOff == "" {
		if left := c.leftByKeys(result); left != "" {
			broken = append(broken, "what keys write stays when they are off again:\n"+left)
		}
	}

	return broken
}

func (c *Case) planned(planner plan.Planner, domain []byte) plan.Result {
	return planner.Read(plan.Request{Domain: domain, VMI: c.Request.VMI}).Plan()
}

// leftByKeys returns how a domain that the keys of the guest were written to, and removed from,
// differs from one that never had them. A key may change what layout auto chooses, so all plans
// have the layout that is chosen without keys.
func (c *Case) leftByKeys(result plan.Result) string {
	if result.Plan == nil || !writesKeys(result.Policy) {
		return ""
	}

	off := c.Planner
	off.Locked = append(keys.Keys(), policy.KeyStrict, policy.KeyLayout) // of annotations, too
	off.Flags = maps.Clone(off.Flags)
	off.Flags[policy.KeyStrict] = "false" // a refused domain stays as it is
	off.Flags[policy.KeyLayout] = string(result.Policy.Layout)
	for _, s := range policy.Settings() {
		if slices.Contains(keys.Keys(), s.Key) {
			off.Flags[s.Key] = s.Default
		}
	}

	without := c.planned(off, c.Request.Domain)
	if without.Plan == nil {
		return ""
	}

	// Every run from here on gets the layout that was built without the keys. So only what the keys
	// left behind can make the results differ.
	off.Flags[policy.KeyLayout] = string(without.Plan.Layout)
	on := off
	on.Flags = maps.Clone(off.Flags)
	for _, key := range keys.Keys() {
		on.Flags[key] = result.Policy.Value(key)
	}

	with := c.planned(on, c.Request.Domain)
	return changes(without.Domain, c.planned(off, with.Domain).Domain)
}

// writesKeys reports whether a key of the guest is on.
func writesKeys(p policy.Policy) bool {
	return slices.ContainsFunc(keys.Keys(), func(key policy.Key) bool { return !p.IsDefault(key) })
}

// patch applies a unified diff without the lines that name files. It does not fit if a line that it
// removes or keeps is not there.
func patch(before, body string) (after string, fits bool) {
	lines := strings.SplitAfter(before, "\n")
	var b strings.Builder
	next := 0 // line of before
	hunks := slices.Collect(strings.Lines(body))
	for i, line := range hunks {
		text := line[1:]
		if i+1 < len(hunks) && hunks[i+1][0] == '\\' { // "\ No newline at end of file"
			text = strings.TrimSuffix(text, "\n")
		}

		switch line[0] {
		case '\\':
			continue
		case '@':
			var start int
			if _, err := fmt.Sscanf(line, "@@ -%d,", &start); err != nil || start <= next ||
				start > len(lines) {
				return "", false
			}

			b.WriteString(strings.Join(lines[next:start-1], ""))
			next = start - 1

		case '+':
			b.WriteString(text)
		case ' ', '-':
			if next == len(lines) || lines[next] != text {
				return "", false
			}

			next++
			if line[0] == ' ' {
				b.WriteString(text)
			}

		default: // a last line without an end
			return "", false
		}
	}

	return b.String() + strings.Join(lines[next:], ""), true
}
