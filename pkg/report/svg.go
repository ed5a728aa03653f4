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
.heading{font-size:17px;font-weight:600}.side{font-size:13px;font-weight:600}.areaname{font-weight:600}
.middle{text-anchor:middle}.name{font-weight:600}.note,.more{fill:#59636e}
.ground{fill:#ffffff}
rect{stroke-width:1}path{fill:none}
.area rect{fill:#f6f8fa;stroke:#d1d9e0}
.root rect,.port rect,.switch rect,.bridge rect,.parent rect{fill:#ffffff;stroke:#9aa4af}
.switch rect{fill:#eae4fb;stroke:#8566d6}.root rect{fill:#e6eaef;stroke:#818b98}
.wire{stroke:#9aa4af;stroke-width:1.5}.join{stroke-width:2}
.same rect{fill:#dafbe1;stroke:#1a7f37}.join.same{stroke:#1a7f37}
.farther rect{fill:#fff1d6;stroke:#bc4c00}.join.farther{stroke:#bc4c00}
.nearer rect{fill:#ddf0ff;stroke:#0969da}.join.nearer{stroke:#0969da}
.unplaced rect{fill:#ffebe9;stroke:#cf222e;stroke-dasharray:4 3}.join.unplaced{stroke:#cf222e;stroke-dasharray:4 3}
.unknown rect{fill:#f6f8fa;stroke:#818b98;stroke-dasharray:4 3}.join.unknown{stroke:#818b98;stroke-dasharray:4 3}
@media (prefers-color-scheme:dark){
text{fill:#e6edf3}.note,.more{fill:#a3adb8}
.ground{fill:#0d1117}.area rect{fill:#151b23;stroke:#3d444d}
.root rect,.port rect,.switch rect,.bridge rect,.parent rect{fill:#0d1117;stroke:#7d8590}
.switch rect{fill:#2b2150;stroke:#a187f0}.root rect{fill:#262c36;stroke:#7d8590}.wire{stroke:#7d8590}
.same rect{fill:#0f2d1a;stroke:#3fb950}.join.same{stroke:#3fb950}
.farther rect{fill:#3d2605;stroke:#f0883e}.join.farther{stroke:#f0883e}
.nearer rect{fill:#0c2d4f;stroke:#58a6ff}.join.nearer{stroke:#58a6ff}
.unplaced rect{fill:#3c1618;stroke:#ff7b72}.join.unplaced{stroke:#ff7b72}
.unknown rect{fill:#151b23;stroke:#7d8590}.join.unknown{stroke:#7d8590}
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

// box is a box with up to two lines of text.
type box struct {
	class, id  string // id is unique in the picture, or ""
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
	fmt.Fprintf(c, `<rect x="%d" y="%d" width="%d" height="%d" rx="4"/>`, b.x, b.y, b.w, b.h)
	line := func(class string, x, up int, text string) {
		fmt.Fprintf(c, `<text class="%s" x="%d" y="%d">%s</text>`, class, x, b.y+b.h/2+baseline-up, escape(text))
	}
	middle := b.x + b.w/2
	switch {
	case b.text == "":
	case b.more == "" && strings.HasPrefix(b.class, "chip"):
		line("middle", middle, 0, b.text)
	case b.more == "":
		line("middle mono", middle, 0, b.text)
	case b.id != "":
		line("name", b.x+7, 6, b.text)
		line("more", b.x+7, -7, b.more)
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
