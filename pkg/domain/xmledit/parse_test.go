package xmledit_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"hook-sidecar/pkg/domain/xmledit"
	"hook-sidecar/test/expect"
)

// nasty are documents that a rewriting library would change.
var nasty = map[string]string{
	"byte order mark":         "\ufeff<a/>",
	"declaration":             "<?xml version='1.0' encoding=\"UTF-8\" standalone='yes'?>\n<a/>",
	"carriage returns":        "<a>\r\n\t<b x='1'/>\r\n</a>\r\n",
	"mixed quotes":            `<a x='1' y="2" z='"' w="'"/>`,
	"empty forms":             `<a><b/><c></c><d /><e ></e ></a>`,
	"CDATA":                   `<a><![CDATA[<b> & ]] > ]]>&amp;</a>`,
	"comments":                `<!-- <x> --><a><!-- - <b y="1"> --></a><!----> `,
	"processing instructions": `<?xml-stylesheet href="x"?><a><?php echo "<b>"; ?></a><?z?>`,
	"greater than in values":  `<a x=">" y='/>'><b z="a>b/"/></a>`,
	"entities":                `<a x="&lt;&gt;&amp;&quot;&apos;&#10;&#x1F600;">&#x41;</a>`,
	"whitespace in tags":      "<a\n\tx\t=\r\n'1'   y = \"2\"\n></a\t>",
	"prefixes": `<a xmlns:q="urn:q" q:x="1" x="2"><q:b/><b xmlns="urn:d"><c/>` +
		`</b></a>`,
	"undeclared prefix": `<a><p:b p:c="1"/></a>`,
	"not ASCII":         `<ä ö="ü">€😀</ä>`,
	"unusual names":     `<a.b-c_d:e f.g-h="1"><:x/><y:/></a.b-c_d:e>`,
	"depth 256":         strings.Repeat("<a>", 256) + strings.Repeat("</a>", 256),
}

func TestParseLosesNothing(t *testing.T) {
	for name, src := range nasty {
		t.Run(name, func(t *testing.T) {
			d := mustParse(t, src)
			checkSpans(t, src, d.Root(), nil)
			if got := string(mustApply(t, d)); got != src {
				t.Errorf("without edits:\n%q, want\n%q", got, src)
			}
		})
	}
}

// checkSpans compares every recorded span with what is there.
func checkSpans(t *testing.T, src string, e, parent *xmledit.Element) {
	t.Helper()
	if e.Parent != parent {
		t.Errorf("<%s> has the wrong parent", e.Name)
	}

	whole, open, end := cut(src, e.Whole()), cut(src, e.Open()), cut(src, e.Close())
	if !strings.HasPrefix(open, "<"+e.Name) || !strings.HasSuffix(open, ">") ||
		!strings.HasPrefix(whole, open) {
		t.Errorf("<%s>: open tag %q of %q", e.Name, open, whole)
	}

	if e.ClosesItself() != strings.HasSuffix(open, "/>") || e.ClosesItself() != (end == "") {
		t.Errorf("<%s>: closes itself: %v, open tag %q, close tag %q", e.Name, e.ClosesItself(),
			open, end)
	}

	if !e.ClosesItself() &&
		(!strings.HasPrefix(end, "</"+e.Name) || !strings.HasSuffix(whole, end)) {
		t.Errorf("<%s>: close tag %q of %q", e.Name, end, whole)
	}

	for _, a := range e.Attrs {
		all, quote := cut(src, a.Whole()), cut(src, xmledit.Span{
			Start: a.Text().End, End: a.Whole().End,
		})
		if !strings.HasPrefix(all, a.Name) ||
			!strings.HasSuffix(all, quote+cut(src, a.Text())+quote) {
			t.Errorf("<%s>: attribute %s is %q, its value %q", e.Name, a.Name, all,
				cut(src, a.Text()))
		}
	}

	for _, child := range e.Children {
		checkSpans(t, src, child, e)
	}
}

func cut(src string, s xmledit.Span) string { return src[s.Start:s.End] }

// refusal is a document with the place and a part of the reason of its error.
type refusal struct {
	name, src    string
	line, column int
	reason       string
}

func (r refusal) run(t *testing.T) {
	d, err := xmledit.Parse([]byte(r.src))
	var at *xmledit.Error
	if !errors.As(err, &at) {
		t.Fatalf("Parse: document %v, error %v; want an *Error", d, err)
	}

	if at.Line != r.line || at.Column != r.column || !strings.Contains(at.Reason, r.reason) {
		t.Errorf("Parse: %v; want line %d, column %d: …%s…", err, r.line, r.column, r.reason)
	}

	if len(at.Reason) > 200 {
		t.Errorf("Parse: a reason of %d bytes", len(at.Reason))
	}
}

func TestParseRefusesStructure(t *testing.T) {
	for _, test := range []refusal{
		{"empty", "", 1, 1, "no element"},
		{"whitespace", " \n\n ", 3, 2, "no element"},
		{"only a comment", "<!-- x -->", 1, 11, "no element"},
		{"text before the root", "\n  x<a/>", 2, 3, "outside the root"},
		{"text after the root", "<a/>\n x", 2, 2, "outside the root"},
		{"reference after the root", "<a/>&#32;", 1, 5, "outside the root"},
		{"CDATA after the root", "<a/>\n<![CDATA[]]>", 2, 1, "outside the root"},
		{"two roots", "<a/>\n<b/>", 2, 1, "second root element <b>"},
		{"never closed", "<a>\n <b>\n", 2, 2, "<b> is never closed"},
		{"in a tag's middle", "<a><b ", 1, 7, "ends inside a tag"},
		{"wrong order", "<a><b>\n</a></b>", 2, 1, "</a> where </b> is expected"},
		{"closed twice", "<a></a></a>", 1, 8, "</a> closes no element"},
		{"prefix differs", "<p:a></a>", 1, 6, "</a> where </p:a> is expected"},
		{"attribute twice", "<a x='1'\n y='2' x='3'/>", 2, 8, "duplicate attribute x in <a>"},
		{"no space between attributes", `<a x="1"y="2"/>`, 1, 9, "whitespace is missing"},
		{"no value", "<a x/>", 1, 4, "an attribute without a value"},
		{"no quotes", "<a x=1/>", 1, 6, "not in quotes"},
		{"never closed value", "<a x='1/>", 1, 6, "x is never closed"},
		{"a value without a name", "<a ='1'/>", 1, 4, "without a name"},
		{"two colons", "<a:b:c/>", 1, 5, "whitespace is missing"},
		{"a tag closed like an instruction", "<a?>", 1, 3, "cannot end with ?>"},
		{"no name", "<a>< b/></a>", 1, 4, "without the name of a tag"},
		{"no name in a close tag", "<a></ a>", 1, 4, "close tag"},
		{"an attribute in a close tag", "<a></a x='1'>", 1, 4, "close tag"},
		{"less than in a value", "<a x='<'/>", 1, 7, "unescaped <"},
	} {
		t.Run(test.name, test.run)
	}
}

// TestParseQuotesNoValue: an error does not quote the rest of a value that is not escaped.
func TestParseQuotesNoValue(t *testing.T) {
	for _, passwd := range []string{
		`a&hunter2;`, `a&#hunter2;`, `a" hunter2`, `a" hunter2=b`, `a"hunter2`, `a<hunter2`,
	} {
		_, err := xmledit.Parse([]byte(`<graphics passwd="` + passwd + `"/>`))
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: error %v, want one without hunter2", passwd, err)
		}
	}
}

func TestParseRefusesContent(t *testing.T) {
	for _, test := range []refusal{
		{"document type", "<?xml version='1.0'?>\n<!DOCTYPE a>\n<a/>", 2, 1, "document type"},
		{"entity declaration", "<!DOCTYPE a [<!ENTITY x 'y'>]><a>&x;</a>", 1, 1, "document type"},
		{"declaration inside", "<a><!ELEMENT b></a>", 1, 4, "declaration"},
		{"unknown entity", "<a>&nbsp;</a>", 1, 4, "unknown entity: must be"},
		{"unknown entity in a value", "<a x='&x;'/>", 1, 7, "unknown entity: must be"},
		{"a bare ampersand", "<a>1 & 2</a>", 1, 6, "unescaped &"},
		{"reference to no character", "<a>&#0;</a>", 1, 4, "no character"},
		{"reference to a surrogate", "<a>&#xD800;</a>", 1, 4, "no character"},
		{"reference without digits", "<a>&#x;</a>", 1, 4, "no character"},
		{"other encoding", "<?xml version='1.0' encoding='latin1'?><a/>", 1, 31,
			`encoding "latin1"`},
		{"other encoding with spaces", "<?xml version='1.0' encoding = \"utf-16\"?><a/>", 1, 33,
			`encoding "utf-16"`},
		{"other version", "<?xml version='1.1'?><a/>", 1, 16, `version "1.1"`},
		{"late declaration", "\n<?xml version='1.0'?><a/>", 2, 1, "very start"},
		{"declaration in capitals", "<?XML version='1.0'?><a/>", 1, 1, "very start"},
		{"declaration without a version", "<?xml?><a/>", 1, 1, "must begin with the version"},
		{"declaration in disorder", "<?xml version='1.0' standalone='no' encoding='utf-8'?><a/>", 1,
			37, "unexpected encoding"},
		{"declaration of something else", "<?xml version='1.0' foo='bar'?><a/>", 1, 21,
			"unexpected foo"},
		{"neither yes nor no", "<?xml version='1.0' standalone='maybe'?><a/>", 1, 33,
			`invalid standalone "maybe"`},
		{"a version by reference", "<?xml version='&#49;.0'?><a/>", 1, 16, "must be 1.0"},
		{"a number with a sign", "<a>&#+65;</a>", 1, 4, "no character"},
		{"a hex number with a sign", "<a>&#x+41;</a>", 1, 4, "no character"},
		{"an ampersand of a name", "<a>AT&T and b; c</a>", 1, 6, "unescaped &"},
		{"an empty prefix", "<a xmlns:='v'/>", 1, 4, "invalid namespace declaration"},
		{"a prefix for nothing", "<a xmlns:p=''/>", 1, 4, "invalid namespace declaration"},
		{"the prefix xml", "<a xmlns:xml='v'/>", 1, 4, "invalid namespace declaration"},
		{"not UTF-8 in text", "<a>\n\xff</a>", 2, 1, "0xff is not UTF-8"},
		{"not UTF-8 in a comment", "<a><!-- \xc3( --></a>", 1, 9, "not UTF-8"},
		{"not UTF-8 in a name", "<a\xe4/>", 1, 3, "not UTF-8"},
		{"not UTF-8 in a value", "<a x='\x80'/>", 1, 7, "not UTF-8"},
		{"surrogate", "<a>\xed\xa0\x80</a>", 1, 4, "not UTF-8"},
		{"control character", "<a>\x01</a>", 1, 4, "U+0001"},
		{"noncharacter", "<a>\ufffe</a>", 1, 4, "U+FFFE"},
		{"dashes in a comment", "<a><!-- -- --></a>", 1, 9, "comment"},
		{"comment never closed", "<a>\n<!-- </a>", 2, 1, "comment is never closed"},
		{"CDATA never closed", "<a><![CDATA[ ]]</a>", 1, 4, "CDATA section is never closed"},
		{"instruction never closed", "<a/><?x >", 1, 5, "instruction is never closed"},
		{"instruction without a target", "<a/><? x?>", 1, 5, "without a target"},
		{"end of CDATA in text", "<a>]]></a>", 1, 4, "CDATA"},
		{"columns count bytes", "<a>€<b></a>", 1, 10, "</a> where </b> is expected"},
		{"depth 257", strings.Repeat("<a>", 257) + strings.Repeat("</a>", 257), 1, 256*3 + 1,
			"nested deeper than 256"},
		{"too large", strings.Repeat("\n", xmledit.MaxBytes) + "<a/>", xmledit.MaxBytes + 1, 1,
			"more than 8388608"},
		{"a long name is cut", "<" + strings.Repeat("n", 90) + ">", 1, 1, "<" +
			strings.Repeat("n", 40) + "…> is never closed"},
	} {
		t.Run(test.name, test.run)
	}
}

func TestParseLargest(t *testing.T) {
	src := "<a>" + strings.Repeat(" ", xmledit.MaxBytes-len("<a></a>")) + "</a>"
	if _, err := xmledit.Parse([]byte(src)); err != nil {
		t.Errorf("Parse of %d bytes: %v", len(src), err)
	}
}

func TestNamespaces(t *testing.T) {
	d := mustParse(t, `<a xmlns:q="urn:q" xmlns:r="urn:q"><q:b/><r:b/>`+
		`<c xmlns="urn:d"><d/><e xmlns=""/><q:f xmlns:q="urn:x"><q:g/></q:f><q:h/></c><i/>`+
		`<xmlns:j/><p:k/></a>`)
	var got []string
	var visit func(e *xmledit.Element)
	visit = func(e *xmledit.Element) {
		got = append(got, fmt.Sprintf("%s=%s+%s", e.Name, e.Space, e.Local))
		for _, child := range e.Children {
			visit(child)
		}
	}

	visit(d.Root())

	// By Namespaces in XML 1.0, sections 5 and 6; an undeclared prefix stands for itself.
	want := []string{
		"a=+a", "q:b=urn:q+b", "r:b=urn:q+b", "c=urn:d+c", "d=urn:d+d", "e=+e",
		"q:f=urn:x+f", "q:g=urn:x+g", "q:h=urn:q+h", "i=+i", "xmlns:j=xmlns+j", "p:k=p+k",
	}

	expect.Same(t, want, got, "namespaces (-want +got)")
}

func TestValuesAndText(t *testing.T) {
	d := mustParse(t,
		"<a x='&lt;&#65;' p:x='2' z='1\t2\r\n3&#10;'>one<b>no</b>&amp;<!-- no -->"+
			"<![CDATA[<two>]]>\r\n<?no?>3</a>")
	a := d.Root()
	if a.Value("x") != "<A" || a.Value("p:x") != "2" || a.Value("y") != "" || a.Attr("y") != nil {
		t.Errorf("attributes %+v", a.Attrs)
	}

	// XML 1.0, 3.3.3: whitespace counts as spaces in a value, unless it is written as references.
	if got, want := a.Value("z"), "1 2 3\n"; got != want {
		t.Errorf("value %q, want %q", got, want)
	}

	// XML 1.0, 2.11: a parser passes on each newline as a line feed.
	if got, want := d.Text(a), "one&<two>\n3"; got != want {
		t.Errorf("text %q, want %q", got, want)
	}

	if a.Child("b") == nil || a.Child("c") != nil || a.Child("c").Child("d") != nil ||
		a.Child("c").Value("x") != "" {
		t.Error("children by name")
	}

	if got := d.Text(nil) + d.Text(mustParse(t, "<e/>").Root()); got != "" {
		t.Errorf("text of nothing is %q", got)
	}
}

// Time must not grow with the square of the number of siblings, attributes or
// namespaces: this test would take minutes.
func TestParseManyOfAKind(t *testing.T) {
	const many = 250_000
	d := mustParse(t, "<a>"+strings.Repeat("<b/>", many)+"</a>")
	if got := len(d.Root().Children); got != many {
		t.Errorf("%d siblings, want %d", got, many)
	}

	// Names of four letters and digits, a000 and up.
	names := func(format string, n int) string {
		var src strings.Builder
		for i := range n {
			fmt.Fprintf(&src, format, strconv.FormatInt(int64(10*36*36*36+i), 36))
		}
		return src.String()
	}

	d = mustParse(t, "<a"+names(" %s=''", many)+"/>")
	if got := len(d.Root().Attrs); got != many {
		t.Errorf("%d attributes, want %d", got, many)
	}

	const namespaces = 100_000
	d = mustParse(t, "<a"+names(" xmlns:%s='u'", namespaces)+">"+names("<%s:b/>", namespaces)+
		"</a>")
	if got := len(d.Root().Children); got != namespaces || !d.Root().Children[got-1].Is("u", "b") {
		t.Errorf("%d elements with a prefix, want %d", got, namespaces)
	}
}

func mustParse(t testing.TB, src string) *xmledit.Document {
	t.Helper()
	d, err := xmledit.Parse([]byte(src))
	if err != nil {
		t.Fatalf("Parse(%.80q): %v", src, err)
	}

	return d
}

func mustApply(t testing.TB, d *xmledit.Document, edits ...xmledit.Edit) []byte {
	t.Helper()
	changed, err := d.Apply(edits)
	if err != nil {
		t.Fatalf("Apply: %v", err)
	}

	return changed
}

// TestNames: characters at the ends of the ranges of XML 1.0's productions 4 and 4a begin a name, go
// on with one, or are none.
func TestNames(t *testing.T) {
	const begins, goesOn, none = "begins", "goes on", "none"
	for r, want := range map[rune]string{
		'A': begins, 'Z': begins, '_': begins, '@': none, '[': none, '-': goesOn, '9': goesOn,
		0xb7: goesOn, 0xb6: none, 0xbf: none, 0xc0: begins, 0xd6: begins, 0xd7: none, 0xd8: begins,
		0xf6: begins, 0xf7: none, 0xf8: begins, 0x2ff: begins, 0x300: goesOn, 0x36f: goesOn,
		0x370: begins, 0x37d: begins, 0x37e: none, 0x37f: begins, 0x1fff: begins, 0x2000: none,
		0x200b: none, 0x200c: begins, 0x200d: begins, 0x200e: none, 0x203e: none, 0x203f: goesOn,
		0x2040: goesOn, 0x2041: none, 0x206f: none, 0x2070: begins, 0x218f: begins, 0x2190: none,
		0x2bff: none, 0x2c00: begins, 0x2fef: begins, 0x2ff0: none, 0x3000: none, 0x3001: begins,
		0xd7ff: begins, 0xe000: none, 0xf8ff: none, 0xf900: begins, 0xfdcf: begins, 0xfdd0: none,
		0xfdef: none, 0xfdf0: begins, 0xfffd: begins, 0x10000: begins, 0xeffff: begins, 0xf0000: none,
	} {
		isParsed := func(name string) bool {
			_, err := xmledit.Parse([]byte("<" + name + "/>"))
			return err == nil
		}

		got := none
		switch {
		case isParsed(string(r)):
			got = begins
		case isParsed("a" + string(r)):
			got = goesOn
		}

		if got != want {
			t.Errorf("%U: %s, want %s", r, got, want)
		}
	}
}
