package report

import (
	"fmt"
	"html"
	"strings"
)

// styleSheet uses neither variables nor nesting: converters such as librsvg
// know CSS 2 only, and ignoring the rest has to leave a light picture.
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
rect.nearer,.swatch.nearer rect{fill:#cfe6ff;stroke:none}rect.unknown,.swatch.unknown rect{fill:#d1d9e0;stroke:none}
.frame{fill:none;stroke:#59636e}.unplaced .frame,.device.unplaced rect,.swatch.unplaced rect{stroke:#cf222e;stroke-width:1.5;stroke-dasharray:4 3}
.swatch.unplaced rect{fill:none}.join.unplaced{stroke:#cf222e;stroke-dasharray:4 3}.join.unknown{stroke-dasharray:4 3}
.cell rect{fill:none;stroke:#d1d9e0}.cell.farther rect{fill:#ffc999}.cell.nearer rect{fill:#cfe6ff}
@media (prefers-color-scheme:dark){
text{fill:#e6edf3}.note,.more{fill:#a3adb8}
.ground,.base{fill:#0d1117}.area rect{fill:#151b23;stroke:#3d444d}
.root rect,.port rect,.switch rect,.bridge rect,.parent rect{fill:#0d1117;stroke:#7d8590}
.switch rect{fill:#3d444d}.root rect{fill:#262c36}.wire,.join{stroke:#7d8590}
.gpu rect{fill:#2b2150;stroke:#a187f0}.nic rect{fill:#42062a;stroke:#db61a2}.other rect{fill:#0d1117;stroke:#a3adb8}
rect.same,.swatch.same rect{fill:#1a7f37}rect.farther,.swatch.farther rect{fill:#9a4b00}
rect.nearer,.swatch.nearer rect{fill:#0550ae}rect.unknown,.swatch.unknown rect{fill:#3d444d}
.frame{stroke:#a3adb8}.unplaced .frame,.device.unplaced rect,.swatch.unplaced rect,.join.unplaced{stroke:#ff7b72}
.cell rect{stroke:#3d444d}.cell.farther rect{fill:#9a4b00}.cell.nearer rect{fill:#0550ae}
}
`

// baseline is how far under its middle the baseline of a line of text is. The
// property dominant-baseline does the same, but not every viewer knows it.
const baseline = 4

// canvas is the content of an SVG file. Positions are in pixels.
type canvas struct{ strings.Builder }

func (c *canvas) element(format string, values ...any) { fmt.Fprintf(c, format+"\n", values...) }

// words writes a text with the middle of its line at (x, y).
func (c *canvas) words(class string, x, y int, text string) {
	c.element(`<text class="%s" x="%d" y="%d">%s</text>`, class, x, y+baseline, escape(text))
}

// curve draws a line from (x, y) to (x+w, y+h).
func (c *canvas) curve(class string, x, y, w, h int) {
	half := x + w/2
	c.element(`<path class="%s" d="M%d %dC%d %d %d %d %d %d"/>`, class, x, y, half, y, half, y+h, x+w, y+h)
}

// bar is a box that shares fill in proportion.
type bar struct {
	shares     []share
	look       string // of the device
	text, tip  string
	x, y, w, h int
}

func (c *canvas) bar(b bar) {
	fmt.Fprintf(c, `<g class="chip %s">`, b.look)
	if b.tip != "" {
		fmt.Fprintf(c, "<title>%s</title>", escape(b.tip))
	}
	frame := func(class string) {
		fmt.Fprintf(c, `<rect class="%s" x="%d" y="%d" width="%d" height="%d"/>`, class, b.x, b.y, b.w, b.h)
	}
	frame("base")
	all, before := 0, 0
	for _, s := range b.shares {
		all += s.pairs
	}
	for _, s := range b.shares {
		if s.pairs > 0 {
			from, to := b.w*before/all, b.w*(before+s.pairs)/all
			fmt.Fprintf(c, `<rect class="%s" x="%d" y="%d" width="%d" height="%d"/>`, s.look, b.x+from, b.y, to-from, b.h)
		}
		before += s.pairs
	}
	frame("frame")
	if b.text != "" {
		fmt.Fprintf(c, `<text class="middle" x="%d" y="%d">%s</text>`, b.x+b.w/2, b.y+b.h/2+baseline, escape(b.text))
	}
	c.WriteString("</g>\n")
}

// cornerOf is the radius of the corners of a device's box, by which its kind is seen
// without its tint.
func cornerOf(k kind) int {
	return map[kind]int{gpu: 0, nic: rowHeight / 2, other: 5}[k]
}

// textPixels is how wide a text of 12 pixels in bold is, about: letters of a
// proportional font differ.
func textPixels(text string) int {
	tenths := 0
	for _, r := range text {
		switch {
		case strings.ContainsRune("iIjlt.,:;'|!()[] -f", r):
			tenths += 45
		case strings.ContainsRune("mwMW@%", r):
			tenths += 110
		case r >= 'A' && r <= 'Z', r > 0x7f:
			tenths += 90
		default:
			tenths += 74
		}
	}
	return tenths / 10
}

// fitPixels cuts a text that takes more than as many pixels.
func fitPixels(text string, pixels int) string {
	if textPixels(text) <= pixels {
		return text
	}
	runes := []rune(text)
	for len(runes) > 0 && textPixels(string(runes)+"…") > pixels {
		runes = runes[:len(runes)-1]
	}
	return string(runes) + "…"
}

// textInset is where the text of a device begins in its box.
const textInset = 12

// box is a box with up to two lines of text.
type box struct {
	class, id  string // id is unique in the picture, or ""
	radius     int    // of its corners
	tip        string // shown when pointed at
	x, y, w, h int
	text, more string
}

func (c *canvas) box(b box) {
	fmt.Fprintf(c, `<g class="%s"`, b.class)
	if b.id != "" {
		fmt.Fprintf(c, ` id="%s"`, b.id)
	}
	c.WriteString(">")
	if b.tip != "" {
		fmt.Fprintf(c, "<title>%s</title>", escape(b.tip))
	}
	fmt.Fprintf(c, `<rect x="%d" y="%d" width="%d" height="%d" rx="%d"/>`, b.x, b.y, b.w, b.h, b.radius)
	line := func(class string, x, up int, text string) {
		fmt.Fprintf(c, `<text class="%s" x="%d" y="%d">%s</text>`, class, x, b.y+b.h/2+baseline-up, escape(text))
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

// escape writes a text as XML. What XML 1.0 cannot hold becomes U+FFFD.
func escape(text string) string {
	return html.EscapeString(strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0xfffe || r == 0xffff {
			return '\ufffd'
		}
		return r
	}, text))
}
