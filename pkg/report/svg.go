package report

import (
	"fmt"
	"html"
	"io"
	"strings"
)

// WriteSVG draws the report: host and guest side by side, each device joined to
// itself, and in colour what changed its path type. The picture stands alone,
// without scripts or fonts from elsewhere, and follows the viewer's preference
// for light or dark.
func (r Report) WriteSVG(w io.Writer) error {
	p := r.picture()
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">`+"\n",
		p.width, p.height, p.width, p.height)
	fmt.Fprintf(&b, "<title>%s</title>\n<style>%s</style>\n", escape(p.title), styleSheet)
	fmt.Fprintf(&b, `<rect class="ground" width="%d" height="%d"/>`+"\n", p.width, p.height)
	for _, s := range p.shapes {
		s.writeSVG(&b)
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// styleSheet uses neither variables nor nesting: converters such as librsvg
// know CSS 2 only, and what they do not know must leave a light picture.
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

// baseline is how far below its middle a line of text stands. The property
// dominant-baseline says the same, but not every viewer knows it.
const baseline = 4

func (s shape) writeSVG(b *strings.Builder) {
	switch s.form {
	case words:
		fmt.Fprintf(b, `<text class="%s" x="%d" y="%d">%s</text>`+"\n", s.class, s.x, s.y+baseline, escape(s.text))
	case line:
		half := s.x + s.w/2
		fmt.Fprintf(b, `<path class="%s" d="M%d %dC%d %d %d %d %d %d"/>`+"\n", s.class,
			s.x, s.y, half, s.y, half, s.y+s.h, s.x+s.w, s.y+s.h)
	default:
		s.writeBox(b)
	}
}

func (s shape) writeBox(b *strings.Builder) {
	fmt.Fprintf(b, `<g class="%s"`, s.class)
	if s.id != "" {
		fmt.Fprintf(b, ` id="%s"`, s.id)
	}
	b.WriteString(">")
	if s.tip != "" {
		fmt.Fprintf(b, "<title>%s</title>", escape(s.tip))
	}
	fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" rx="4"/>`, s.x, s.y, s.w, s.h)
	middle := s.y + s.h/2 + baseline
	switch {
	case s.text == "":
	case s.more == "" && strings.HasPrefix(s.class, "chip"):
		fmt.Fprintf(b, `<text class="middle" x="%d" y="%d">%s</text>`, s.x+s.w/2, middle, escape(s.text))
	case s.more == "":
		fmt.Fprintf(b, `<text class="middle mono" x="%d" y="%d">%s</text>`, s.x+s.w/2, middle, escape(s.text))
	case s.id != "":
		fmt.Fprintf(b, `<text class="name" x="%d" y="%d">%s</text>`, s.x+7, middle-6, escape(s.text))
		fmt.Fprintf(b, `<text class="more" x="%d" y="%d">%s</text>`, s.x+7, middle+7, escape(s.more))
	default:
		fmt.Fprintf(b, `<text class="middle" x="%d" y="%d">%s</text>`, s.x+s.w/2, middle-6, escape(s.text))
		fmt.Fprintf(b, `<text class="middle more" x="%d" y="%d">%s</text>`, s.x+s.w/2, middle+7, escape(s.more))
	}
	b.WriteString("</g>\n")
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
