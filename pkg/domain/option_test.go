package domain_test

import (
	"math"
	"testing"

	"libvirt.org/go/libvirtxml"

	"hook-sidecar/pkg/domain"
)

const (
	optionID    = domain.OptionPrefix + "a"
	optionValue = "driver=d,property=p,value=1,id=" + optionID
	namespace   = "http://libvirt.org/schemas/domain/qemu/1.0"
)

// TestGlobalBytes: sizes are read as QEMU does.
func TestGlobalBytes(t *testing.T) {
	for text, want := range map[string]uint64{
		"64G": 64 << 30, "0x40000000": 1 << 30, "1.5m": 3 << 19, "512": 512, "7B": 7, "0": 0,
		"0123": 123, "010M": 10 << 20, // a leading zero is not octal
		"": none, "G": none, "-1": none, "64Q": none, "1e99E": none, "nanG": none,
	} {
		d := parse(t, "<domain xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0'><q:commandline>"+
			"<q:arg value='-global'/><q:arg value='a.b="+text+"'/></q:commandline></domain>")
		if got, isSet := d.GlobalBytes("a", "b"); isSet != (want != none) || isSet && got != want {
			t.Errorf("%q is %d, %v", text, got, isSet)
		}
	}
}

// none is no size.
const none = math.MaxUint64

// TestSetOptions: an option of QEMU is added, replaced by its id, and removed without a
// trace; what the user has in qemu:commandline stays byte for byte.
func TestSetOptions(t *testing.T) {
	const (
		bound = "<domain xmlns:q='" + namespace + "'>"
		ours  = "<q:arg value='-global'/><q:arg value='" + optionValue + "'/>"
		older = "<q:arg value='--global'/><q:arg value='driver=d,property=p,value=0,id=" +
			optionID + "'/>"
		users = "<q:arg value='-global'/><q:arg value='d.p=2'/>"
		added = "<q:arg value=\"-global\"></q:arg><q:arg value=\"" + optionValue + "\"></q:arg>"
	)
	for name, tt := range map[string]struct{ before, with, without string }{
		"none": {"<domain>\n  <devices/>\n</domain>", "<domain>\n  <devices/>\n" +
			"  <qemu:commandline xmlns:qemu=\"" + namespace +
			"\">\n    <qemu:arg value=\"-global\"></qemu:arg>\n    <qemu:arg value=\"" +
			optionValue + "\"></qemu:arg>\n  </qemu:commandline>\n</domain>", ""},
		"the root has a prefix": {bound + "<devices/></domain>", bound +
			"<devices/><q:commandline>" + added + "</q:commandline></domain>", ""},
		"qemu is another prefix": {"<domain xmlns:qemu='urn:x'><devices/></domain>",
			"<domain xmlns:qemu='urn:x'><devices/><qemu:commandline xmlns:qemu=\"" + namespace +
				"\"><qemu:arg value=\"-global\"></qemu:arg><qemu:arg value=\"" + optionValue +
				"\"></qemu:arg></qemu:commandline></domain>", ""},
		"the user's is empty": {"<domain><commandline xmlns='" + namespace +
			"' /></domain>",
			"<domain><commandline xmlns='" + namespace +
				"'><!-- hook-sidecar: was <commandline xmlns='" + namespace +
				"' /> --><arg value=\"-global\"></arg><arg value=\"" + optionValue +
				"\"></arg></commandline></domain>", ""},
		"a default namespace with an argument": {"<domain><commandline xmlns='" + namespace +
			"'><arg value='-S'/></commandline></domain>",
			"<domain><commandline xmlns='" + namespace +
				"'><arg value='-S'/><arg value=\"-global\"></arg><arg value=\"" + optionValue +
				"\"></arg></commandline></domain>", ""},
		"ours": {bound + "<q:commandline>" + ours +
			"</q:commandline><devices/></domain>",
			bound + "<q:commandline>" + ours + "</q:commandline><devices/></domain>",
			bound + "<devices/></domain>"},
		"an older one of ours": {bound + "<q:commandline>" + older +
			"</q:commandline></domain>",
			bound + "<q:commandline>" + ours + "</q:commandline></domain>", bound + "</domain>"},
		"twice": {bound + "<q:commandline>" + older + users +
			"</q:commandline><q:commandline>" + ours + "</q:commandline></domain>",
			bound + "<q:commandline>" + ours + users + "</q:commandline></domain>",
			bound + "<q:commandline>" + users + "</q:commandline></domain>"},
		"beside the user's": {bound + "<q:commandline>" + users +
			"<q:env name='A'/></q:commandline></domain>",
			bound + "<q:commandline>" + users + "<q:env name='A'/>" + added +
				"</q:commandline></domain>", ""},
		"two lists": {bound +
			"<q:commandline><q:arg value='-device'/></q:commandline><q:commandline>" +
			"<q:arg value='d'/></q:commandline></domain>",
			bound +
				"<q:commandline><q:arg value='-device'/></q:commandline><q:commandline>" +
				"<q:arg value='d'/>" + added + "</q:commandline></domain>", ""},
		"beside a comment": {bound + "<q:commandline>" + ours +
			"<!-- mine --></q:commandline></domain>",
			bound + "<q:commandline>" + ours + "<!-- mine --></q:commandline></domain>",
			bound + "<q:commandline><!-- mine --></q:commandline></domain>"},
		"the value of another": {bound +
			"<q:commandline><q:arg value='-global'/><q:arg value='-global'/></q:commandline>" +
			"</domain>",
			bound + "<q:commandline><q:arg value='-global'/><q:arg value='-global'/>" + added +
				"</q:commandline></domain>", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.without == "" {
				tt.without = tt.before
			}

			set := func(to string, options ...domain.Fragment) string {
				d, changes := parse(t, to), with(optionID, options...)
				got := apply(t, d, changes)
				if err := parse(t, got).Verify(d.After(changes)); err != nil {
					t.Errorf("%v: %s", err, got)
				}

				return got
			}

			option := domain.Option{Name: domain.OptionGlobal, Value: optionValue}
			with := set(tt.before, option)
			if with != tt.with {
				t.Errorf("with the option\n%s\nwant\n%s", with, tt.with)
			}

			if again := set(with, option); again != with {
				t.Errorf("set again\n%s\nwant\n%s", again, with)
			}

			if got := set(tt.before); got != tt.without {
				t.Errorf("without the option\n%s\nwant\n%s", got, tt.without)
			}

			if tt.without == tt.before {
				if off := set(with); off != tt.before {
					t.Errorf("with the option and without it again\n%s\nwant\n%s", off, tt.before)
				}
			}

			var seen libvirtxml.Domain
			if err := seen.Unmarshal(with); err != nil || seen.QEMUCommandline == nil {
				t.Errorf("libvirtxml reads %+v: %v", seen.QEMUCommandline, err)
			}
		})
	}
}

// TestSetOptionsAfterBrokenOne: an option without a value would take an added one for it.
func TestSetOptionsAfterBrokenOne(t *testing.T) {
	d := parseQEMU(t, commandline("<q:arg value='-global'/>"))
	got, err := d.Apply(with(optionID, domain.Option{
		Name: domain.OptionGlobal, Value: optionValue,
	}))

	if err == nil {
		t.Errorf("got %s, want an error", got)
	}
}

// with returns the changes after which these are all fragments with a mark.
func with(mark domain.Mark, fragments ...domain.Fragment) domain.Changes {
	return domain.Changes{Marked: map[domain.Mark]domain.Marked{mark: {Fragments: fragments}}}
}

// TestGlobal: the last -global of a property counts, in either form.
func TestGlobal(t *testing.T) {
	const long = "<q:arg value='-global'/><q:arg value='driver=d,property=p,value=a,,b'/>"
	const short = "<q:arg value='--global'/><q:arg value='d.p=c=d'/>"
	for name, tt := range map[string]struct{ args, want string }{
		"none": {
			"<q:arg value='-global'/><q:arg value='d.q=1'/><q:arg value='-fw_cfg'/>" +
				"<q:arg value='d.p=2'/>", "",
		},
		"long":     {long, "a,b"},
		"short":    {long + short, "c=d"},
		"the last": {short + long, "a,b"},
	} {
		o, got := parseQEMU(t, commandline(tt.args)).Global("d", "p")
		if got != tt.want || (o == nil) != (tt.want == "") {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
