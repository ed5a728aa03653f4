package picture_test

import (
	"encoding/xml"
	"errors"
	"flag"
	"html"
	"image"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/report"
	"hook-sidecar/pkg/tools/picture"
	"hook-sidecar/test/cases"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/machines"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// One picture with every kind of change in it, one with mediated devices. What
// a picture holds is proved by TestPictures; this shows that it does not
// change unseen.
func TestGolden(t *testing.T) {
	for host, layout := range map[string]string{machines.HGX: "numa", machines.VGPU: "mirror"} {
		got, file := draw(t, machines.Whole(t, host, layout)), filepath.Join("testdata", host+"-"+
			layout+".svg")
		expect.Golden(t, *update, file, []byte(got))
	}
}

// TestPictures draws every machine in every layout and holds the pictures to
// what each must be: XML that a parser takes, with every alias and address of
// both sides, with unique ids, nothing outside of the canvas, nothing from
// elsewhere, and the same bytes each time.
func TestPictures(t *testing.T) {
	for _, host := range machines.Names(t) {
		for _, layout := range machines.Layouts() {
			t.Run(host+"-"+layout, func(t *testing.T) {
				r := machines.Whole(t, host, layout)
				svg := draw(t, r)
				if svg != draw(t, machines.Whole(t, host, layout)) {
					t.Error("two pictures of one plan differ")
				}

				texts := wellFormed(t, svg)
				for _, d := range r.Devices {
					for _, want := range []string{*d.Alias, d.ID.String()} {
						if !strings.Contains(texts, want) {
							t.Errorf("no %s", want)
						}
					}
					if d.Predicted != nil && !strings.Contains(texts, d.Predicted.String()) {
						t.Errorf("no %s", *d.Predicted)
					}
				}
			})
		}
	}
}

// TestGrace: the cells that are a GPU's memory are a box in that of the GPU, in the guest only.
func TestGrace(t *testing.T) {
	c := cases.Named(t, "../../..", "grace-gb200")
	svg := draw(t, report.New(c.Planner.Read(c.Request).Plan().Plan, true, nil))
	wellFormed(t, svg)
	box := regexp.MustCompile(
		`<g class="(?:device gpu|area)"(?: id="([a-z]+)-\d")?>(?:<title>[^<]*</title>)?<rect ` +
			`x="(\d+)" y="(\d+)" width="(\d+)" height="(\d+)"[^>]*/>(?:<text[^>]*>(cells [^<]*))?`)
	var gpu image.Rectangle
	var found []string
	for _, match := range box.FindAllStringSubmatch(svg, -1) {
		x, y := integer(t, match[2]), integer(t, match[3])
		at := image.Rect(x, y, x+integer(t, match[4]), y+integer(t, match[5]))
		switch {
		case match[1] == "guest":
			gpu = at
		case match[6] != "" && at.In(gpu):
			found = append(found, match[6])
		}
	}

	expect.Same(t, []string{
		"cells 2-9", "cells 10-17",
	}, found, "cells in the box of a GPU (-want +got)")
}

func draw(t *testing.T, r report.Report) string {
	t.Helper()
	var b strings.Builder
	expect.NoError(t, picture.Write(&b, r))
	return b.String()
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

		expect.NoError(t, err)

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
				if x < 0 || y < 0 || x+integer(t, a["width"]) > width ||
					y+integer(t, a["height"]) > height {
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
	expect.NoError(t, err)
	return n
}

// No text of the input ends the element, string or line that it is in, or is obeyed by
// a terminal that shows the picture.
func TestHostileText(t *testing.T) {
	alias := "ua-\"'><script>alert(1)</script>&amp;]]>\\\"\n\t]; evil [\x1b[31m\u202e"
	r := machines.Report(t, machines.Sysfs(t, machines.HGX), machines.OneGPU(t, alias), "numa")
	if got := *r.Devices[0].Alias; !strings.Contains(got, "<script>") {
		t.Fatalf("the alias did not arrive: %q", got)
	}

	svg := draw(t, r)
	if !strings.Contains(wellFormed(t, svg), "<script>alert(1)</script>&amp;") {
		t.Error("the alias is not in it as text")
	}

	if strings.ContainsAny(svg, "\x1b\t\u202e") {
		t.Error("a control character came through")
	}
}

// The title says which programs decide as on the host, or how much of the host the guest sees, each device how many
// of its pairs are as on the host, and the legend explains what occurs and nothing else.
func TestShares(t *testing.T) {
	hgx, vgpu := machines.HGX, machines.VGPU
	for _, test := range []struct {
		host, layout string
		texts        []string // each with how often it is there: "20 x 19 of 19"
		looks        string   // of the colours in the legend
	}{
		// 20 devices have 190 pairs. Without a layout all are on the root bus; with root
		// eight pairs of a GPU and a NIC and the six of four NVSwitches lose their switch.
		{hgx, "keep", []string{
			"1 x 0 of 8 GPUs: NCCL, UCX, DRA, P2PDMA, hwloc as on the host", "20 x 0 of 19",
			"1 x 0 of 190 pairs of devices as on the host · layout keep · 20 kept · 8 GPUs, 8 " +
				"NICs, 4 PCI devices",
		}, "farther nearer nearer"},
		{hgx, "root", []string{
			"1 x 0 of 8 GPUs: NCCL, UCX, P2PDMA as on the host", "16 x 18 of 19",
			"4 x 16 of 19", "1 x 14 PIX on the host, PHB in the guest (further apart than on the host)",
		}, "same farther"},
		{hgx, "mirror", []string{
			"1 x 8 of 8 GPUs: NCCL, UCX, DRA, P2PDMA, hwloc as on the host", "20 x 19 of 19",
			"1 x GPU", "1 x NIC", "1 x PCI device", "1 x port",
		}, "same"},
		// Two of the three mediated devices are parts of one card.
		{"x86-1n2g-rtx-audio", "mirror", []string{
			"1 x 4 of 4 GPUs: NCCL, DRA, hwloc as on the host",
			"1 x layout mirror · 9 placed · 4 GPUs, 1 PCI device, 1 USB controller, 3 audio " +
				"functions",
			"1 x audio function, USB controller, PCI device", "9 x 8 of 8",
		}, "same"},
		{vgpu, "numa", []string{
			"1 x 3 of 3 GPUs: NCCL, DRA, hwloc as on the host", "2 x 1 of 2", "1 x 2 of 2",
			"1 x 1 PIX on the host, PHB in the guest (further apart than on the host)", "0 x NIC",
			"1 x mediated device",
		}, "same farther"},
	} {
		svg := draw(t, machines.Whole(t, test.host, test.layout))
		shown := textsOf(t, svg)
		for _, text := range test.texts {
			count, text, _ := strings.Cut(text, " x ")
			if n := len(slices.DeleteFunc(slices.Clone(shown), func(s string) bool {
				return s != text
			})); strconv.Itoa(n) != count {
				t.Errorf("%s, %s: %q is there %d times, want %s", test.host, test.layout, text, n,
					count)
			}
		}

		var looks []string
		for _, m := range regexp.MustCompile(`class="swatch (\w+)"`).FindAllStringSubmatch(svg,
			-1) {
			looks = append(looks, m[1])
		}

		if got := strings.Join(looks, " "); got != test.looks {
			t.Errorf("%s, %s: the legend has %q, want %q", test.host, test.layout, got, test.looks)
		}
	}
}

// textsOf returns the texts that are drawn, without titles and tooltips.
func textsOf(t *testing.T, svg string) []string {
	t.Helper()
	var texts []string
	for _, m := range regexp.MustCompile(`<text [^>]*>([^<]*)</text>`).FindAllStringSubmatch(svg,
		-1) {
		texts = append(texts, html.UnescapeString(m[1]))
	}

	return texts
}

// TestLongHead: names in the head are whole, over lines that are apart from what is below.
func TestLongHead(t *testing.T) {
	r := machines.Whole(t, machines.HGX, "numa")
	short := draw(t, r)
	r.Subject.VM = "team-of-many/" + strings.Repeat("training-", 8) + "0"
	r.Subject.Host = strings.Repeat("gpu-node-", 8) + "1.txtar"
	long := draw(t, r)
	text := strings.Join(textsOf(t, long), " ")
	for _, name := range []string{r.Subject.VM, r.Subject.Host} {
		if !strings.Contains(text, name) {
			t.Errorf("the picture lacks %q:\n%s", name, text)
		}
	}

	at := regexp.MustCompile(`class="side" x="\d+" y="(\d+)">Host`)
	before, now := at.FindStringSubmatch(short), at.FindStringSubmatch(long)
	if integer(t, now[1]) <= integer(t, before[1]) {
		t.Errorf("the sides are at %s, as without the long names", now[1])
	}
}

// A long alias is cut where it is drawn, and whole in the tooltip.
func TestLongAliasInPicture(t *testing.T) {
	long := "ua-gpu-" + strings.Repeat("Wide-Name-", 12)
	svg := draw(t,
		machines.Report(t, machines.Sysfs(t, machines.HGX), machines.OneGPU(t, long), "numa"))
	for _, text := range textsOf(t, svg) {
		if strings.HasPrefix(text, "ua-") && (len(text) > 24 || !strings.Contains(text, "..")) {
			t.Errorf("%q is drawn", text)
		}
	}

	if strings.Count(wellFormed(t, svg), long) != 3 {
		t.Error("the whole alias is not in the tooltips")
	}
}

// On request the picture and the text have the speeds of links. The GPUs of the machine have 32
// GT/s x16, and a switch downstream port of QEMU says nothing.
func TestDetails(t *testing.T) {
	sysfs := machines.Sysfs(t, machines.HGX)
	for _, tt := range []struct{ layout, speed, port string }{
		{"numa", "default", "16 GT/s x32"}, {"numa", "host", "32 GT/s x16"},
		{"mirror", "default", "unknown"}, {"mirror", "host", "32 GT/s x16"},
		{"keep", "default", "-"},
	} {
		layout, port := tt.layout, tt.port
		m := plan.Planner{
			Sysfs:   sysfs,
			Details: true,
			Source: policy.Source{
				Flags: map[policy.Key]string{
					policy.KeyLayout: layout, policy.KeyPortSpeed: tt.speed,
				},
			},
		}

		result := m.Read(plan.Request{Domain: machines.Domain(t, sysfs)}).Plan()
		r := report.New(result.Plan, result.Changed(), result.Err)
		if strings.Contains(draw(t, r), "GT/s") {
			t.Errorf("%s: speeds are drawn without being asked for", layout)
		}

		r.Details = []report.Section{report.SectionLinks}
		svg := draw(t, r)
		shown := strings.Join(textsOf(t, svg), "\n")
		wants := []string{"GPU 1b:00.0 32 GT/s x16"}
		if port != "-" {
			wants = append(wants, " "+port)
		}

		for _, want := range wants {
			if !strings.Contains(shown, want) {
				t.Errorf("%s: svg: no %q", layout, want)
			}
		}

		wellFormed(t, svg)
		line := regexp.MustCompile(`(?m)^#1 +ua-gpu-gpu1 +32 GT/s x16 +` + regexp.QuoteMeta(port) +
			`$`)
		var text strings.Builder
		if err := r.WriteText(&text, report.Style{}); err != nil ||
			!line.MatchString(text.String()) {
			t.Errorf("%s: no line like %s in\n%s, %v", layout, line, text.String(), err)
		}
	}
}
