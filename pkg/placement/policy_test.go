package placement_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hook-sidecar/pkg/placement"
)

// flags and annotations are written "key=value".
func flags(pairs ...string) map[placement.Key]string {
	m := map[placement.Key]string{}
	for _, pair := range pairs {
		key, value, _ := strings.Cut(pair, "=")
		m[placement.Key(key)] = value
	}
	return m
}

func annotations(pairs ...string) map[string]string {
	m := map[string]string{}
	for _, pair := range pairs {
		key, value, _ := strings.Cut(pair, "=")
		m["hostdev.vm.kubevirt.io/"+key] = value
	}
	return m
}

// Who wins: on the command line the flag, in a server the annotation, but for
// the keys that are locked.
func TestPolicyPrecedence(t *testing.T) {
	locked := []placement.Key{placement.KeyLayout}
	cases := []struct {
		name     string
		source   placement.PolicySource
		want     string // value and origin of the layout
		warnings []placement.Code
	}{
		{name: "nothing said", want: "numa default"},
		{name: "flag", source: placement.PolicySource{Flags: flags("layout=root")}, want: "root flag"},
		{name: "annotation", source: placement.PolicySource{Annotations: annotations("layout=mirror")}, want: "mirror annotation"},
		{name: "command line, both", source: placement.PolicySource{Flags: flags("layout=root"), Annotations: annotations("layout=mirror")}, want: "root flag"},
		{name: "server, both", source: placement.PolicySource{Flags: flags("layout=root"), Annotations: annotations("layout=mirror"), AnnotationsFirst: true}, want: "mirror annotation"},
		{name: "flag of the default's value", source: placement.PolicySource{Flags: flags("layout=numa"), Annotations: annotations("layout=mirror")}, want: "numa flag"},
		{
			name:   "server, locked",
			source: placement.PolicySource{Flags: flags("layout=root"), Annotations: annotations("layout=mirror"), AnnotationsFirst: true, Locked: locked},
			want:   "root flag", warnings: []placement.Code{placement.CodePolicyLocked},
		},
		{
			name:   "server, locked without a flag",
			source: placement.PolicySource{Annotations: annotations("layout=mirror"), AnnotationsFirst: true, Locked: locked},
			want:   "numa default", warnings: []placement.Code{placement.CodePolicyLocked},
		},
		{
			name:   "server, another key locked",
			source: placement.PolicySource{Annotations: annotations("layout=mirror"), AnnotationsFirst: true, Locked: []placement.Key{placement.KeyStrict}},
			want:   "mirror annotation",
		},
		{
			name:   "server, bad annotation leaves the flag",
			source: placement.PolicySource{Flags: flags("layout=root"), Annotations: annotations("layout=Mirror"), AnnotationsFirst: true},
			want:   "root flag", warnings: []placement.Code{placement.CodeBadPolicyValue},
		},
		{
			name:   "unknown key",
			source: placement.PolicySource{Annotations: annotations("layouts=root")},
			want:   "numa default", warnings: []placement.Code{placement.CodeUnknownPolicyKey},
		},
		{name: "annotations of others", source: placement.PolicySource{Annotations: map[string]string{"layout": "root", "kubevirt.io/layout": "x"}}, want: "numa default"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			policy, warnings, err := placement.ResolvePolicy(c.source)
			if err != nil {
				t.Fatalf("resolve: %v", err)
			}
			if got := string(policy.Layout) + " " + string(policy.Origins[placement.KeyLayout]); got != c.want {
				t.Errorf("layout %s, want %s", got, c.want)
			}
			var codes []placement.Code
			for _, w := range warnings {
				codes = append(codes, w.Code)
			}
			if d := cmp.Diff(c.warnings, codes); d != "" {
				t.Errorf("warnings (-want +got):\n%s", d)
			}
		})
	}
}

// The default of add depends on whether a VMI names devices; what is said
// counts either way.
func TestPolicyAdd(t *testing.T) {
	for _, c := range []struct {
		source placement.PolicySource
		want   placement.Add
	}{
		{placement.PolicySource{}, placement.AddAll},
		{placement.PolicySource{HasVMI: true}, placement.AddRequested},
		{placement.PolicySource{HasVMI: true, Annotations: annotations("add=all")}, placement.AddAll},
		{placement.PolicySource{Flags: flags("add=none")}, placement.AddNone},
	} {
		policy, _, err := placement.ResolvePolicy(c.source)
		if err != nil || policy.Add != c.want {
			t.Errorf("%+v: add %s, error %v, want %s", c.source, policy.Add, err, c.want)
		}
	}
}

// Every key takes its values from a flag and from an annotation, and gives each
// back as it is written.
func TestPolicyValues(t *testing.T) {
	good := map[placement.Key][]string{
		placement.KeyLayout:       {"keep", "numa", "root", "mirror"},
		placement.KeyStrict:       {"true", "false"},
		placement.KeyAdd:          {"requested", "all", "none"},
		placement.KeyCompanions:   {"keep", "add"},
		placement.KeyHotplugPorts: {"auto", "0", "255"},
		placement.KeyDryRun:       {"true", "false"},
		placement.KeyNCCLTopology: {"none", "fwcfg"},
	}
	bad := map[placement.Key][]string{
		placement.KeyLayout:       {"", "NUMA", "root "},
		placement.KeyStrict:       {"", "yes", "on"},
		placement.KeyAdd:          {"some"},
		placement.KeyCompanions:   {"true"},
		placement.KeyHotplugPorts: {"", "-1", "256", "0x4", "many"},
		placement.KeyDryRun:       {"2"},
		placement.KeyNCCLTopology: {"file"},
	}
	for _, key := range placement.Keys() {
		if len(good[key]) == 0 || len(bad[key]) == 0 {
			t.Errorf("key %s has no values here", key)
		}
		for _, value := range good[key] {
			pair := string(key) + "=" + value
			for name, source := range map[string]placement.PolicySource{
				"flag": {Flags: flags(pair)}, "annotation": {Annotations: annotations(pair)},
			} {
				policy, warnings, err := placement.ResolvePolicy(source)
				if err != nil || len(warnings) > 0 || policy.Value(key) != value || string(policy.Origins[key]) != name {
					t.Errorf("%s %s: %q from %s, warnings %v, error %v", name, pair, policy.Value(key), policy.Origins[key], warnings, err)
				}
			}
		}
		for _, value := range bad[key] {
			checkBadValue(t, key, value)
		}
	}
}

// checkBadValue: a bad flag is an error; a bad annotation a warning that names
// it, and the default holds.
func checkBadValue(t *testing.T, key placement.Key, value string) {
	t.Helper()
	pair := string(key) + "=" + value
	var policyError *placement.PolicyError
	if _, _, err := placement.ResolvePolicy(placement.PolicySource{Flags: flags(pair)}); !errors.As(err, &policyError) || !strings.Contains(err.Error(), string(key)) {
		t.Errorf("flag %s: error %v, want one that names the flag", pair, err)
	}
	defaults, _, _ := placement.ResolvePolicy(placement.PolicySource{})
	policy, warnings, err := placement.ResolvePolicy(placement.PolicySource{Annotations: annotations(pair)})
	if err != nil || policy.Value(key) != defaults.Value(key) || policy.Origins[key] != placement.OriginDefault {
		t.Errorf("annotation %s: %q, error %v, want the default", pair, policy.Value(key), err)
	}
	if len(warnings) != 1 || warnings[0].Code != placement.CodeBadPolicyValue || !strings.Contains(warnings[0].Text, "hostdev.vm.kubevirt.io/"+string(key)) {
		t.Errorf("annotation %s: warnings %v, want one that names it", pair, warnings)
	}
}

// Strict is resolved first: whether a bad annotation is an error depends on
// what strict is in the end, and a bad strict is never an error itself.
func TestPolicyStrictFirst(t *testing.T) {
	cases := []struct {
		name       string
		source     placement.PolicySource
		wantStrict bool
		wantError  string
	}{
		{"strict flag, bad layout", placement.PolicySource{Flags: flags("strict=true"), Annotations: annotations("layout=x")}, true, "layout"},
		{"strict annotation, bad layout", placement.PolicySource{Annotations: annotations("layout=x", "strict=true")}, true, "layout"},
		{"strict annotation, unknown key", placement.PolicySource{Annotations: annotations("a-key=x", "strict=true")}, true, "a-key"},
		{"strict taken back by annotation", placement.PolicySource{
			Flags: flags("strict=true"), Annotations: annotations("layout=x", "strict=false"), AnnotationsFirst: true,
		}, false, ""},
		{"strict taken back, but locked", placement.PolicySource{
			Flags: flags("strict=true"), Annotations: annotations("layout=x", "strict=false"), AnnotationsFirst: true,
			Locked: []placement.Key{placement.KeyStrict},
		}, true, "layout"},
		{"bad strict leaves the flag's", placement.PolicySource{
			Flags: flags("strict=true"), Annotations: annotations("strict=yes"), AnnotationsFirst: true,
		}, true, ""},
		{"bad strict without a flag", placement.PolicySource{Annotations: annotations("strict=yes")}, false, ""},
		{"bad layout that is locked does not count", placement.PolicySource{
			Flags: flags("strict=true"), Annotations: annotations("layout=x"), AnnotationsFirst: true,
			Locked: []placement.Key{placement.KeyLayout},
		}, true, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			policy, _, err := placement.ResolvePolicy(c.source)
			if policy.Strict != c.wantStrict {
				t.Errorf("strict %v, want %v", policy.Strict, c.wantStrict)
			}
			if (err != nil) != (c.wantError != "") || err != nil && !strings.Contains(err.Error(), c.wantError) {
				t.Errorf("error %v, want one with %q", err, c.wantError)
			}
		})
	}
}
