package xmledit_test

import (
	"strings"
	"testing"

	"hook-sidecar/pkg/domain/xmledit"
)

// The digits are those of the ten bytes' offsets.
func TestApply(t *testing.T) {
	const src = "<a>345</a>"
	digits := strings.NewReplacer("0", "<", "1", "a", "2", ">", "6", "<", "7", "/", "8", "a", "9",
		">")
	for _, test := range []struct {
		name  string
		edits []xmledit.Edit
		want  string // "" for an error
	}{
		{"none", nil, "0123456789"},
		{"any order", []xmledit.Edit{{8, 9, "x"}, {1, 3, ""}, {5, 5, "--"}}, "034--567x9"},
		{"insertions at one place", []xmledit.Edit{{2, 2, "a"}, {2, 2, "b"}}, "01ab23456789"},
		{"insertion before a replacement", []xmledit.Edit{{2, 4, "r"}, {2, 2, "i"}}, "01ir456789"},
		{"insertion after a replacement", []xmledit.Edit{{4, 4, "i"}, {2, 4, "r"}}, "01ri456789"},
		{"neighbours", []xmledit.Edit{{2, 4, "a"}, {4, 6, "b"}}, "01ab6789"},
		{"ends", []xmledit.Edit{{0, 0, "<"}, {10, 10, ">"}}, "<0123456789>"},
		{"all", []xmledit.Edit{{0, 10, "x"}}, "x"},
		{"overlap", []xmledit.Edit{{2, 5, ""}, {4, 6, ""}}, ""},
		{"same range", []xmledit.Edit{{2, 5, ""}, {2, 5, ""}}, ""},
		{"insertion inside a replacement", []xmledit.Edit{{2, 5, ""}, {3, 3, "x"}}, ""},
		{"before the start", []xmledit.Edit{{-1, 2, ""}}, ""},
		{"after the end", []xmledit.Edit{{9, 11, ""}}, ""},
		{"backwards", []xmledit.Edit{{5, 4, ""}}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := mustParse(t, src).Apply(test.edits)
			if want := digits.Replace(test.want); (err != nil) != (want == "") ||
				string(got) != want {
				t.Errorf("Apply: %q, error %v; want %q", got, err, want)
			}
		})
	}
}

// editCase edits the first element named e; the result is what a person would
// have typed.
type editCase struct {
	name, src string
	edit      func(*xmledit.Document, *xmledit.Element) xmledit.Edit
	want      string
}

func (c editCase) run(t *testing.T) {
	d := mustParse(t, c.src)
	got := string(mustApply(t, d, c.edit(d, find(d.Root(), "e"))))
	if got != c.want {
		t.Errorf("%q becomes\n%q, want\n%q", c.src, got, c.want)
	}

	mustParse(t, got)
}

// element is written as InsertAfter wants it.
const element = "<n x=\"1\">\n\t<m></m>\n</n>"

func TestEditAttributes(t *testing.T) {
	set := func(name, value string) func(*xmledit.Document, *xmledit.Element) xmledit.Edit {
		return func(d *xmledit.Document, e *xmledit.Element) xmledit.Edit {
			return d.SetAttr(e, name, value)
		}
	}

	remove := func(d *xmledit.Document, e *xmledit.Element) xmledit.Edit {
		return d.RemoveAttr(e.Attr("x"))
	}

	for _, test := range []editCase{
		{"set keeps single quotes", `<e  x = 'a' y="b"/>`, set("x", "c"), `<e  x = 'c' y="b"/>`},
		{"set keeps double quotes", `<e x = 'a' y="b"/>`, set("y", "c"), `<e x = 'a' y="c"/>`},
		{"set adds with the neighbour's quote", `<e x='a' />`, set("z", "c"), `<e x='a' z='c' />`},
		{"set adds with the parent's quote", `<a x='a'><e/></a>`, set("z", "c"),
			`<a x='a'><e z='c'/></a>`},
		{"set adds the first of all", `<a><e></e></a>`, set("z", "c"), `<a><e z="c"></e></a>`},
		{"set escapes", `<e x='a'/>`, set("x", `<&>"'`+"\n"),
			`<e x='&lt;&amp;&gt;&#34;&#39;&#xA;'/>`},
		{"set after a value with a greater than", `<e y="a>b"/>`, set("x", ""),
			`<e y="a>b" x=""/>`},
		{"remove the first", `<e x="1" y="2"/>`, remove, `<e y="2"/>`},
		{"remove the last", "<e y='2'\n\tx='1' ></e>", remove, "<e y='2' ></e>"},
		{"remove the only one", "<e x='1'/>", remove, "<e/>"},
	} {
		t.Run(test.name, test.run)
	}
}

func TestInsertBeside(t *testing.T) {
	after := func(d *xmledit.Document, e *xmledit.Element) xmledit.Edit {
		return d.InsertAfter(e, element)
	}

	before := func(d *xmledit.Document, e *xmledit.Element) xmledit.Edit {
		return d.InsertBefore(e, element)
	}

	for _, test := range []editCase{
		{"after, tabs", "<a>\n\t<e/>\n</a>", after,
			"<a>\n\t<e/>\n\t<n x=\"1\">\n\t\t<m></m>\n\t</n>\n</a>"},
		{"after, spaces", "<a>\n  <b>\n    <e/></b></a>", after,
			"<a>\n  <b>\n    <e/>\n    <n x=\"1\">\n      <m></m>\n    </n></b></a>"},
		{"after, carriage returns", "<a>\r\n <e/>\r\n</a>", after,
			"<a>\r\n <e/>\r\n <n x=\"1\">\r\n  <m></m>\r\n </n>\r\n</a>"},
		{"after, one line", "<a><e/></a>", after, `<a><e/><n x="1"><m></m></n></a>`},
		{"after, one line with spaces", "<a> <e/> </a>", after,
			`<a> <e/><n x="1"><m></m></n> </a>`},
		{"after, an empty line before", "<a>\n\n\t<e/>\n</a>", after,
			"<a>\n\n\t<e/>\n\t<n x=\"1\">\n\t\t<m></m>\n\t</n>\n</a>"},
		{"after, no indentation", "<a>\n<e/>\n</a>", after,
			"<a>\n<e/>\n<n x=\"1\">\n  <m></m>\n</n>\n</a>"},
		{"before", "<a>\n\t<!-- c -->\n\t<e/>\n</a>", before,
			"<a>\n\t<!-- c -->\n\t<n x=\"1\">\n\t\t<m></m>\n\t</n>\n\t<e/>\n</a>"},
		{"before, one line", "<a><b/> <e/></a>", before, `<a><b/><n x="1"><m></m></n> <e/></a>`},
	} {
		t.Run(test.name, test.run)
	}
}

func TestInsertLast(t *testing.T) {
	last := func(d *xmledit.Document, e *xmledit.Element) xmledit.Edit {
		return d.InsertLast(e, element)
	}

	two := func(d *xmledit.Document, e *xmledit.Element) xmledit.Edit {
		return d.InsertLast(e, "<n></n>", "<o></o>")
	}

	for _, test := range []editCase{
		{"last, after a child", "<e>\n\t<b/>\n</e>", two,
			"<e>\n\t<b/>\n\t<n></n>\n\t<o></o>\n</e>"},
		{"last, closes itself", "<a>\n\t<e x='1' />\n</a>", two,
			"<a>\n\t<e x='1'>\n\t\t<n></n>\n\t\t<o></o>\n\t</e>\n</a>"},
		{"last, empty", "<a>\n\t<e></e>\n</a>", last,
			"<a>\n\t<e>\n\t\t<n x=\"1\">\n\t\t\t<m></m>\n\t\t</n>\n\t</e>\n</a>"},
		{"last, whitespace", "<a>\n  <e>\n  </e>\n</a>", two,
			"<a>\n  <e>\n    <n></n>\n    <o></o>\n  </e>\n</a>"},
		{"last, after a comment", "<a>\n  <e>\n    <!-- c -->\n  </e>\n</a>", two,
			"<a>\n  <e>\n    <!-- c -->\n    <n></n>\n    <o></o>\n  </e>\n</a>"},
		{"last, one line", "<a><e/></a>", last, `<a><e><n x="1"><m></m></n></e></a>`},
		{"last, one line, empty", "<a><e></e></a>", two, "<a><e><n></n><o></o></e></a>"},
		{"last, into the root", "<?xml version='1.0'?>\r\n<e/>\r\n", two,
			"<?xml version='1.0'?>\r\n<e>\r\n  <n></n>\r\n  <o></o>\r\n</e>\r\n"},
		{"last, into a root of one line", "<e/>", two, "<e><n></n><o></o></e>"},
	} {
		t.Run(test.name, test.run)
	}
}

// TestFill: what an element was, also where it has an end tag, is beside what fills it, and is again
// once that is gone. It is not where it was not empty.
func TestFill(t *testing.T) {
	fill := func(d *xmledit.Document, e *xmledit.Element) xmledit.Edit { return d.Fill(e, "<n></n>") }
	for _, test := range []editCase{
		{"closes itself", "<a><e x='1'/></a>", fill,
			"<a><e x='1'><!-- hook-sidecar: was <e x='1'/> --><n></n></e></a>"},
		{"has an end tag", "<a><e></e></a>", fill,
			"<a><e><!-- hook-sidecar: was <e></e> --><n></n></e></a>"},
		{"has whitespace", "<a>\n  <e>\n  </e>\n</a>", fill,
			"<a>\n  <e>\n    <!-- hook-sidecar: was <e>&newline;  </e> -->\n    <n></n>\n  </e>\n</a>"},
		{"has a child", "<a><e><b/></e></a>", fill, "<a><e><b/><n></n></e></a>"},
		{"has a text", "<a><e>b</e></a>", fill, "<a><e>b<n></n></e></a>"},
		{"has dashes", "<a><e x='--'/></a>", fill, "<a><e x='--'><n></n></e></a>"},
		{"has CRLF", "<a>\r\n  <e>\r\n  </e></a>", fill, "<a>\r\n  <e>\r\n    <!-- hook-sidecar: was " +
			"<e>\r&newline;  </e> -->\r\n    <n></n>\r\n  </e></a>"},
	} {
		t.Run(test.name, test.run)
		d := mustParse(t, test.want)
		e := find(d.Root(), "e")
		if !d.IsFilled(e) {
			continue
		}

		edits := d.RemoveChildren(e, func(c *xmledit.Element) bool { return c.Name == "n" }, false)
		if got := string(mustApply(t, d, edits...)); got != test.src {
			t.Errorf("%s: %q, want %q", test.name, got, test.src)
		}
	}
}

func TestRemoveAndReplace(t *testing.T) {
	remove := (*xmledit.Document).Remove
	replace := func(d *xmledit.Document, e *xmledit.Element) xmledit.Edit {
		return d.Replace(e, element)
	}

	for _, test := range []editCase{
		{"remove a line", "<a>\n\t<b/>\n\t<e>\n\t</e>\n\t<c/>\n</a>", remove,
			"<a>\n\t<b/>\n\t<c/>\n</a>"},
		{"remove with carriage returns", "<a>\r\n <b/>\r\n <e/>\r\n</a>", remove,
			"<a>\r\n <b/>\r\n</a>"},
		{"remove keeps an empty line", "<a>\n\n\t<e/>\n\t<c/>\n</a>", remove,
			"<a>\n\n\t<c/>\n</a>"},
		{"remove on one line", "<a><b/> <e/> <c/></a>", remove, "<a><b/> <c/></a>"},
		{"remove after text", "<a>text<e/></a>", remove, "<a>text</a>"},
		{"replace", "<a>\n\t<e>old</e>\n</a>", replace,
			"<a>\n\t<n x=\"1\">\n\t\t<m></m>\n\t</n>\n</a>"},
	} {
		t.Run(test.name, test.run)
	}
}

// Elements are inserted in the place of a neighbour that is removed at the same
// time.
func TestEditsBesideARemoval(t *testing.T) {
	d := mustParse(t, "<a>\n\t<b/>\n\t<e/>\n\t<c/>\n</a>")
	e := find(d.Root(), "e")
	got := string(mustApply(t, d,
		d.Remove(e), d.InsertBefore(e, "<before></before>"), d.InsertAfter(e, "<after></after>")))
	want := "<a>\n\t<b/>\n\t<before></before>\n\t<after></after>\n\t<c/>\n</a>"
	if got != want {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
}

func find(e *xmledit.Element, name string) *xmledit.Element {
	if e.Name == name {
		return e
	}

	for _, child := range e.Children {
		if found := find(child, name); found != nil {
			return found
		}
	}

	return nil
}

func BenchmarkParse(b *testing.B) {
	device := "\n    <hostdev mode='subsystem' type='pci'>\n      <source><address bus='0x01'/>" +
		"</source>\n    </hostdev>"
	for _, size := range []struct {
		name  string
		bytes int
	}{{"64KiB", 64 << 10}, {"1MiB", 1 << 20}, {"8MiB", xmledit.MaxBytes}} {
		count := (size.bytes - 100) / len(device)
		src := []byte("<domain>\n  <devices>" + strings.Repeat(device, count) +
			"\n  </devices>\n</domain>")
		b.Run(size.name, func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := xmledit.Parse(src); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
