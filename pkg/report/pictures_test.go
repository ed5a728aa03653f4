package report_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

	"hook-sidecar/pkg/report"
)

// layouts are all layouts, those that move nothing included.
func layouts() []string { return []string{"keep", "numa", "root", "mirror"} }

// TestPictures draws every machine in every layout and holds the pictures to
// what each must be: XML that a parser takes, with every alias and address of
// both sides, with ids that are there once, nothing outside of the canvas,
// nothing from elsewhere, and the same bytes each time.
func TestPictures(t *testing.T) {
	for _, host := range hostNames(t) {
		snapshot := readHost(t, host)
		for _, layout := range layouts() {
			t.Run(host+"-"+layout, func(t *testing.T) {
				r := reportOf(t, snapshot, wholeHost(t, snapshot), layout)
				svg, dot := draw(t, r)
				again, dotAgain := draw(t, reportOf(t, snapshot, wholeHost(t, snapshot), layout))
				if svg != again || dot != dotAgain {
					t.Error("two pictures of one plan differ")
				}
				texts := wellFormed(t, svg)
				for _, d := range r.Devices {
					for _, want := range []string{*d.Alias, d.ID.String()} {
						if !strings.Contains(texts, want) {
							t.Errorf("svg: no %s", want)
						}
					}
					if d.Predicted != nil && !strings.Contains(texts, d.Predicted.String()) {
						t.Errorf("svg: no %s", *d.Predicted)
					}
					if n := strings.Count(dot, *d.Alias+`\n`); n != 2 {
						t.Errorf("dot: %s is there %d times, want host and guest", *d.Alias, n)
					}
				}
			})
		}
	}
}

func draw(t *testing.T, r report.Report) (svg, dot string) {
	t.Helper()
	var s, d bytes.Buffer
	if err := errors.Join(r.WriteSVG(&s), r.WriteDOT(&d)); err != nil {
		t.Fatal(err)
	}
	return s.String(), d.String()
}

// wellFormed parses a picture and returns the texts in it.
func wellFormed(t *testing.T, svg string) string {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(svg))
	ids, texts := map[string]bool{}, ""
	var width, height int
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.CharData:
			texts += string(token) + "\n"
		case xml.StartElement:
			a := attributes(token)
			if token.Name.Local == "svg" {
				width, height = integer(t, a["width"]), integer(t, a["height"])
			}
			if id := a["id"]; id != "" {
				if ids[id] {
					t.Errorf("id %s is there twice", id)
				}
				ids[id] = true
			}
			if token.Name.Local == "path" && a["class"] == "" {
				t.Error("a curve has no class")
			}
			if token.Name.Local == "script" || token.Name.Local == "image" || a["href"] != "" {
				t.Errorf("element %s: a picture needs nothing from elsewhere", token.Name.Local)
			}
			if token.Name.Local == "rect" && a["class"] != "ground" {
				x, y := integer(t, a["x"]), integer(t, a["y"])
				if x < 0 || y < 0 || x+integer(t, a["width"]) > width || y+integer(t, a["height"]) > height {
					t.Errorf("a box at %d, %d is outside of %d x %d", x, y, width, height)
				}
			}
		}
	}
	if strings.Contains(svg, "url(") || strings.Contains(svg, "@import") {
		t.Error("the style sheet takes something from elsewhere")
	}
	return texts
}

func attributes(e xml.StartElement) map[string]string {
	all := map[string]string{}
	for _, a := range e.Attr {
		all[a.Name.Local] = a.Value
	}
	return all
}

func integer(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// hostileDomain has an alias that would end the attribute, the element, the
// string and the line that it is written into.
func hostileDomain(alias string) []byte {
	var escaped strings.Builder
	if err := xml.EscapeText(&escaped, []byte(alias)); err != nil {
		panic(err)
	}
	return []byte(`<domain type='kvm'><name>hostile</name><os><type arch='x86_64' machine='q35'>hvm</type></os>
<cpu><numa><cell id='0' cpus='0' memory='1' unit='GiB'/></numa></cpu><numatune><memnode cellid='0' mode='strict' nodeset='0'/></numatune>
<devices><hostdev mode='subsystem' type='pci'><source><address domain='0' bus='0x1b' slot='0' function='0'/></source><alias name="` + escaped.String() + `"/></hostdev></devices></domain>`)
}

// No text of the input ends the element, string or line that it is in.
func TestHostileText(t *testing.T) {
	alias := "ua-\"'><script>alert(1)</script>&amp;]]>\\\"\n\t]; evil [\x1b[31m\u202e"
	r := reportOf(t, readHost(t, "x86-2n8g-hgx-h100"), hostileDomain(alias), "numa")
	got := strings.ReplaceAll(*r.Devices[0].Alias, "�", "")
	if !strings.Contains(got, "<script>") {
		t.Fatalf("the alias did not arrive: %q", got)
	}
	svg, dot := draw(t, r)
	if texts := wellFormed(t, svg); !strings.Contains(texts, "<script>alert(1)</script>&amp;") {
		t.Errorf("svg: the alias is not in it as text")
	}
	// An alias that ended its string would leave an odd number of quotes.
	for line := range strings.Lines(dot) {
		bare := strings.ReplaceAll(strings.ReplaceAll(line, `\\`, ""), `\"`, "")
		if strings.Count(bare, `"`)%2 != 0 {
			t.Errorf("dot: quotes of %q are not balanced", line)
		}
	}
	var text bytes.Buffer
	if err := r.WriteText(&text, report.Style{}); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(text.String(), "\x1b\t\u202e") {
		t.Errorf("text: a control character came through: %q", text.String())
	}
}
