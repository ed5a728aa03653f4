package picture

import (
	"fmt"
	"html"
	"strings"

	"hook-sidecar/pkg/report"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// Sizes in pixels. A row is a device with two lines of text. A picture of a large machine
// has to be legible 720 pixels wide.
const (
	margin      = 14
	rowPitch    = 36
	rowHeight   = 30
	rowGap      = rowPitch - rowHeight
	headHeight  = 76 // title, subtitle, and the names of the two sides
	areaHead    = 24
	areaPadding = 8
	areaGap     = 12
	columnGap   = 8
	portWidth   = 10
	deviceWidth = 162
	textInset   = 12  // where the text of a device begins in its box
	linkWidth   = 70  // of a link's speed, in a device
	middleWidth = 104 // between the devices of host and guest
	chipWidth   = 84
	chipHeight  = 18
	legendPitch = 20
	leastWidth  = 560
	monoTenths  = 67 // tenths of a pixel that a character takes at most
	noteTenths  = 62 // the same, of a note on average
	nameTenths  = 71 // the same, of a name in bold
)

// styleSheet has no variables or nesting: librsvg and others know CSS 2 only, and what they
// ignore has to leave a light picture.
const styleSheet = `
text{font:12px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;fill:#1f2328}
.mono,.more{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:11px}
.heading{font-size:17px;font-weight:600}.side{font-size:13px;font-weight:600}.areaname,.name,.chip text{font-weight:600}
.middle{text-anchor:middle}.note,.more{fill:#59636e}
.ground,.base{fill:#ffffff}
rect{stroke-width:1}path{fill:none}
.area rect{fill:#f6f8fa;stroke:#d1d9e0}
.root rect,.port rect,.bridge rect,.parent rect{fill:#ffffff;stroke:#9aa4af}
.switch rect{fill:#d8dee4;stroke:#59636e}.root rect{fill:#e6eaef;stroke:#818b98}
.wire,.join{stroke:#9aa4af;stroke-width:1.5}
.gpu rect{fill:#eae4fb;stroke:#8566d6}.nic rect{fill:#ffe4f1;stroke:#bf3989}.other rect{fill:#ffffff;stroke:#59636e}
rect.same,.swatch.same rect{fill:#6fd08c;stroke:none}rect.farther,.swatch.farther rect{fill:#ffc999;stroke:none}
rect.nearer,.swatch.nearer rect{fill:#f5e08c;stroke:none}rect.unknown,.swatch.unknown rect{fill:#d1d9e0;stroke:none}
.frame{fill:none;stroke:#59636e}.unplaced .frame,.device.unplaced rect,.swatch.unplaced rect{stroke:#cf222e;stroke-width:1.5;stroke-dasharray:4 3}
.swatch.unplaced rect{fill:none}.join.unplaced{stroke:#cf222e;stroke-dasharray:4 3}.join.unknown{stroke-dasharray:4 3}
@media (prefers-color-scheme:dark){
text{fill:#e6edf3}.note,.more{fill:#a3adb8}
.ground,.base{fill:#0d1117}.area rect{fill:#151b23;stroke:#3d444d}
.root rect,.port rect,.switch rect,.bridge rect,.parent rect{fill:#0d1117;stroke:#7d8590}
.switch rect{fill:#3d444d}.root rect{fill:#262c36}.wire,.join{stroke:#7d8590}
.gpu rect{fill:#2b2150;stroke:#a187f0}.nic rect{fill:#42062a;stroke:#db61a2}.other rect{fill:#0d1117;stroke:#a3adb8}
rect.same,.swatch.same rect{fill:#1a7f37}rect.farther,.swatch.farther rect{fill:#9a4b00}
rect.nearer,.swatch.nearer rect{fill:#6b5900}rect.unknown,.swatch.unknown rect{fill:#3d444d}
.frame{stroke:#a3adb8}.unplaced .frame,.device.unplaced rect,.swatch.unplaced rect,.join.unplaced{stroke:#ff7b72}
}
`

// baseline is how far a text's baseline is under its middle; not every viewer knows the
// property dominant-baseline.
const baseline = 4

// canvas is the content of an SVG file.
type canvas struct{ strings.Builder }

func (c *canvas) element(format string, values ...any) { fmt.Fprintf(c, format+"\n", values...) }

// words writes a text with the middle of its line at (x, y).
func (c *canvas) words(class string, x, y int, text string) {
	c.element(`<text class="%s" x="%d" y="%d">%s</text>`, class, x, y+baseline, escape(text))
}

func (c *canvas) curve(class string, x, y, w, h int) {
	half := x + w/2
	c.element(`<path class="%s" d="M%d %dC%d %d %d %d %d %d"/>`, class, x, y, half, y, half, y+h,
		x+w, y+h)
}

// group begins a group of elements with a tip.
func (c *canvas) group(class, id, tip string) {
	fmt.Fprintf(c, `<g class="%s"`, class)
	if id != "" {
		fmt.Fprintf(c, ` id="%s"`, id)
	}

	c.WriteString(">")
	if tip != "" {
		fmt.Fprintf(c, "<title>%s</title>", escape(tip))
	}
}

// bar is a box that is filled with the shares of pairs by their change.
type bar struct {
	tally      report.Tally
	change     report.Change // of the device
	text, tip  string
	x, y, w, h int
}

func (c *canvas) bar(b bar) {
	c.group("chip "+string(b.change), "", b.tip)
	rect := func(class string, x, w int) {
		fmt.Fprintf(c, `<rect class="%s" x="%d" y="%d" width="%d" height="%d"/>`, class, x, b.y, w,
			b.h)
	}

	rect("base", b.x, b.w)

	// Each share begins where the one before ends, in whole pixels of the sum: rounding leaves no
	// gap.
	before := 0
	for _, change := range []report.Change{
		report.Same, report.Nearer, report.Farther, report.Unknown,
	} {
		after := before + b.tally.By[change]
		if after > before {
			from, to := b.w*before/b.tally.All, b.w*after/b.tally.All
			rect(string(change), b.x+from, to-from)
		}

		before = after
	}

	rect("frame", b.x, b.w)
	fmt.Fprintf(c, `<text class="middle" x="%d" y="%d">%s</text>`, b.x+b.w/2, b.y+b.h/2+baseline,
		escape(b.text))
	c.WriteString("</g>\n")
}

// box is a box with up to two lines of text.
type box struct {
	class, id  string // id is unique in the picture, or ""
	radius     int    // of its corners
	tip        string // shown when pointed at
	x, y, w, h int
	text, more string
}

func (c *canvas) box(b box) {
	c.group(b.class, b.id, b.tip)
	fmt.Fprintf(c, `<rect x="%d" y="%d" width="%d" height="%d" rx="%d"/>`, b.x, b.y, b.w, b.h,
		b.radius)
	line := func(class string, x, up int, text string) {
		fmt.Fprintf(c, `<text class="%s" x="%d" y="%d">%s</text>`, class, x, b.y+b.h/2+baseline-up,
			escape(text))
	}

	middle := b.x + b.w/2
	switch {
	case b.text == "":
	case b.more == "":
		line("middle mono", middle, 0, b.text)
	case b.id != "":
		line("name", b.x+textInset, 6, b.text)
		line("more", b.x+textInset, -7, b.more)

	default:
		line("middle", middle, 6, b.text)
		line("middle more", middle, -7, b.more)
	}

	c.WriteString("</g>\n")
}

// escape writes a text as XML. Names are not trusted, and a terminal may show the picture:
// it replaces characters other than newlines that XML 1.0 cannot hold, that a terminal
// obeys, or that turn the direction of text.
func escape(text string) string {
	lines := topology.Map(strings.Split(text, "\n"), words.Printable)
	return html.EscapeString(strings.Join(lines, "\n"))
}
