package policy_test

import (
	"strings"
	"testing"

	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/test/expect"
)

// flags and annotations take "key=value".
func flags(pairs ...string) map[policy.Key]string {
	m := map[policy.Key]string{}
	for _, pair := range pairs {
		key, value, _ := strings.Cut(pair, "=")
		m[policy.Key(key)] = value
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

// On the command line the flag takes precedence, in a server the annotation, except
// for locked keys.
func TestPolicyPrecedence(t *testing.T) {
	locked := []policy.Key{policy.KeyLayout}
	cases := []struct {
		name     string
		source   policy.Source
		want     string // value and origin of the layout
		warnings []reasons.Code
	}{
		{name: "nothing given", want: "auto default"},
		{name: "flag", source: policy.Source{Flags: flags("layout=root")}, want: "root flag"},
		{name: "annotation", source: policy.Source{
			Annotations: annotations("layout=mirror"),
		}, want: "mirror annotation"},
		{name: "command line, both", source: policy.Source{
			Flags: flags("layout=root"), Annotations: annotations("layout=mirror"),
		}, want: "root flag"},
		{name: "server, both", source: policy.Source{
			Flags:            flags("layout=root"),
			Annotations:      annotations("layout=mirror"),
			AnnotationsFirst: true,
		}, want: "mirror annotation"},
		{name: "flag of the default's value", source: policy.Source{
			Flags: flags("layout=numa"), Annotations: annotations("layout=mirror"),
		}, want: "numa flag"},
		{
			name: "server, locked",
			source: policy.Source{
				Flags:            flags("layout=root"),
				Annotations:      annotations("layout=mirror"),
				AnnotationsFirst: true,
				Locked:           locked,
			},
			want: "root flag", warnings: []reasons.Code{reasons.CodePolicyLocked},
		},
		{
			name: "server, locked without a flag",
			source: policy.Source{
				Annotations: annotations("layout=mirror"), AnnotationsFirst: true, Locked: locked,
			},
			want: "auto default", warnings: []reasons.Code{reasons.CodePolicyLocked},
		},
		{
			name: "server, another key locked",
			source: policy.Source{
				Annotations:      annotations("layout=mirror"),
				AnnotationsFirst: true,
				Locked:           []policy.Key{policy.KeyStrict},
			},
			want: "mirror annotation",
		},
		{
			name: "server, bad annotation leaves the flag",
			source: policy.Source{
				Flags:            flags("layout=root"),
				Annotations:      annotations("layout=Mirror"),
				AnnotationsFirst: true,
			},
			want: "root flag", warnings: []reasons.Code{reasons.CodeBadPolicyValue},
		},
		{
			name:   "unknown key",
			source: policy.Source{Annotations: annotations("layouts=root")},
			want:   "auto default", warnings: []reasons.Code{reasons.CodeUnknownPolicyKey},
		},
		{name: "annotations of others", source: policy.Source{
			Annotations: map[string]string{"layout": "root", "kubevirt.io/layout": "x"},
		}, want: "auto default"},
	}

	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, warnings, err := policy.Resolve(c.source)
			if err != nil {
				t.Fatalf("resolve: %v", err)
			}

			if layout := string(got.Layout) + " " +
				string(got.Origins[policy.KeyLayout]); layout != c.want {
				t.Errorf("layout %s, want %s", layout, c.want)
			}

			var codes []reasons.Code
			for _, w := range warnings {
				codes = append(codes, w.Code)
			}

			expect.Same(t, c.warnings, codes, "warnings (-want +got)")
		})
	}
}

// The default of add depends on whether there is a VMI; flags and annotations apply
// either way.
func TestPolicyAdd(t *testing.T) {
	for _, c := range []struct {
		source policy.Source
		want   string
	}{
		{policy.Source{}, policy.AddAll},
		{policy.Source{HasVMI: true}, policy.AddRequested},
		{policy.Source{HasVMI: true, Annotations: annotations("add=all")}, policy.AddAll},
		{policy.Source{Flags: flags("add=none")}, policy.AddNone},
	} {
		got, _, err := policy.Resolve(c.source)
		if err != nil || got.Add != c.want {
			t.Errorf("%+v: add %s, error %v, want %s", c.source, got.Add, err, c.want)
		}
	}
}

// Every key accepts its values from a flag and from an annotation, and Value returns
// each as it was written.
func TestPolicyValues(t *testing.T) {
	good := map[policy.Key][]string{
		policy.KeyLayout:       {"keep", "numa", "root", "switch", "mirror"},
		policy.KeyStrict:       {"true", "false"},
		policy.KeyAdd:          {"requested", "all", "none"},
		policy.KeyCompanions:   {"keep", "add"},
		policy.KeyHotplugPorts: {"auto", "0", "255"},
		policy.KeyDryRun:       {"true", "false"},
		policy.KeyNCCLTopology: {"none", "fwcfg", "cloudinit"},
		policy.KeyPortSpeed:    {"default", "host"},
		policy.KeyMMIOWindow:   {"default", "auto"},
		policy.KeyVIOMMU:       {"none", "intel", "smmuv3"},
		policy.KeyClique:       {"none", "host"},
	}

	bad := map[policy.Key][]string{
		policy.KeyLayout:       {"", "NUMA", "root "},
		policy.KeyStrict:       {"", "yes", "on"},
		policy.KeyAdd:          {"some"},
		policy.KeyCompanions:   {"true"},
		policy.KeyHotplugPorts: {"", "-1", "256", "0x4", "many"},
		policy.KeyDryRun:       {"2"},
		policy.KeyNCCLTopology: {"file"},
		policy.KeyPortSpeed:    {"", "32"},
		policy.KeyMMIOWindow:   {"64G"},
		policy.KeyVIOMMU:       {"true", "Intel"},
		policy.KeyClique:       {"0"},
	}

	for _, key := range policy.Keys() {
		if len(good[key]) == 0 || len(bad[key]) == 0 {
			t.Errorf("key %s has no values here", key)
		}

		for _, value := range good[key] {
			pair := string(key) + "=" + value
			for name, source := range map[string]policy.Source{
				"flag": {Flags: flags(pair)}, "annotation": {Annotations: annotations(pair)},
			} {
				got, warnings, err := policy.Resolve(source)
				if err != nil || len(warnings) > 0 || got.Value(key) != value ||
					string(got.Origins[key]) != name {
					t.Errorf("%s %s: %q from %s, warnings %v, error %v", name, pair, got.Value(key),
						got.Origins[key], warnings, err)
				}
			}
		}

		for _, value := range bad[key] {
			checkBadValue(t, key, value)
		}
	}
}

// checkBadValue checks that an invalid flag is an error, and that an invalid
// annotation is a warning that names it, and the default applies.
func checkBadValue(t *testing.T, key policy.Key, value string) {
	t.Helper()
	pair := string(key) + "=" + value
	if _, _, err := policy.Resolve(policy.Source{Flags: flags(pair)}); err == nil ||
		!strings.Contains(err.Error(), string(key)) {
		t.Errorf("flag %s: error %v, want one that names the flag", pair, err)
	}

	defaults, _, _ := policy.Resolve(policy.Source{})
	got, warnings, err := policy.Resolve(policy.Source{Annotations: annotations(pair)})
	if err != nil || got.Value(key) != defaults.Value(key) ||
		got.Origins[key] != policy.OriginDefault {
		t.Errorf("annotation %s: %q, error %v, want the default", pair, got.Value(key), err)
	}

	if len(warnings) != 1 || warnings[0].Code != reasons.CodeBadPolicyValue ||
		!strings.Contains(warnings[0].Text, "hostdev.vm.kubevirt.io/"+string(key)) {
		t.Errorf("annotation %s: warnings %v, want one that names it", pair, warnings)
	}
}

// Whether an invalid annotation is an error depends on the resolved value of strict.
// An invalid value of strict itself is never an error.
func TestPolicyStrictFirst(t *testing.T) {
	cases := []struct {
		name       string
		source     policy.Source
		wantStrict bool
		wantError  string
	}{
		{"strict flag, bad layout", policy.Source{
			Flags: flags("strict=true"), Annotations: annotations("layout=x"),
		}, true, "layout"},
		{"strict annotation, bad layout", policy.Source{
			Annotations: annotations("layout=x", "strict=true"),
		}, true, "layout"},
		{"strict annotation, unknown key", policy.Source{
			Annotations: annotations("a-key=x", "strict=true"),
		}, true, "a-key"},
		{"strict taken back by annotation", policy.Source{
			Flags: flags("strict=true"), Annotations: annotations("layout=x", "strict=false"),
			AnnotationsFirst: true,
		}, false, ""},
		{"strict taken back, but locked", policy.Source{
			Flags: flags("strict=true"), Annotations: annotations("layout=x", "strict=false"),
			AnnotationsFirst: true,
			Locked:           []policy.Key{policy.KeyStrict},
		}, true, "layout"},
		{"bad strict leaves the flag's", policy.Source{
			Flags: flags("strict=true"), Annotations: annotations("strict=yes"),
			AnnotationsFirst: true,
		}, true, ""},
		{"bad strict without a flag", policy.Source{
			Annotations: annotations("strict=yes"),
		}, false, ""},
		{"bad flag hides no annotation", policy.Source{
			Flags: flags("layout=x"), Annotations: annotations("strict=true"),
			AnnotationsFirst: true,
		}, true, "--layout"},
		{"bad layout that is locked does not count", policy.Source{
			Flags: flags("strict=true"), Annotations: annotations("layout=x"),
			AnnotationsFirst: true,
			Locked:           []policy.Key{policy.KeyLayout},
		}, true, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, _, err := policy.Resolve(c.source)
			if got.Strict != c.wantStrict {
				t.Errorf("strict %v, want %v", got.Strict, c.wantStrict)
			}

			if (err != nil) != (c.wantError != "") || err != nil &&
				!strings.Contains(err.Error(), c.wantError) {
				t.Errorf("error %v, want one with %q", err, c.wantError)
			}
		})
	}
}
