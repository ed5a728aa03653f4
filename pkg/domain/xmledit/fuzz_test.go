package xmledit_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"hook-sidecar/pkg/domain/xmledit"
)

// FuzzParse: Parse never panics; what it accepts it gives back unchanged, and
// encoding/xml reads the same elements and attributes in it.
func FuzzParse(f *testing.F) {
	for _, src := range nasty {
		f.Add([]byte(src))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		d, err := xmledit.Parse(src)
		if err != nil {
			var at *xmledit.Error
			if !errors.As(err, &at) || at.Line < 1 || at.Column < 1 {
				t.Fatalf("Parse: %v", err)
			}
			return
		}
		if got := mustApply(t, d); !bytes.Equal(got, src) {
			t.Errorf("without edits:\n%q, want\n%q", got, src)
		}
		checkSpans(t, string(src), d.Root(), nil)
		elements, attributes := count(d.Root())
		wantElements, wantAttributes := countTokens(t, src)
		if elements != wantElements || attributes != wantAttributes {
			t.Errorf("%d elements and %d attributes, encoding/xml sees %d and %d",
				elements, attributes, wantElements, wantAttributes)
		}
	})
}

func count(e *xmledit.Element) (elements, attributes int) {
	elements, attributes = 1, len(e.Attrs)
	for _, child := range e.Children {
		n, m := count(child)
		elements, attributes = elements+n, attributes+m
	}
	return elements, attributes
}

func countTokens(t *testing.T, src []byte) (elements, attributes int) {
	t.Helper()
	decoder := xml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(src, []byte("\ufeff"))))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return elements, attributes
		}
		if err != nil {
			t.Fatalf("encoding/xml: %v", err)
		}
		if start, ok := token.(xml.StartElement); ok {
			elements++
			attributes += len(start.Attr)
		}
	}
}

// FuzzApply: edits of any element leave a document that is well formed, with
// everything outside the edits as it was.
func FuzzApply(f *testing.F) {
	for _, src := range nasty {
		f.Add([]byte(src), uint64(1), "value")
	}
	f.Fuzz(func(t *testing.T, src []byte, seed uint64, value string) {
		d, err := xmledit.Parse(src)
		if err != nil || len(src) > 1<<16 || bytes.Count(src, []byte("<")) > 400 {
			return // what is added must not go over the limits of size and depth
		}
		edit := randomEdit(d, rand.New(rand.NewPCG(seed, 0)), value)
		changed := mustApply(t, d, edit)
		if got := string(changed[:edit.Start]); got != string(src[:edit.Start]) {
			t.Errorf("before the edit: %q, want %q", got, src[:edit.Start])
		}
		if got := string(changed[edit.Start+len(edit.New):]); got != string(src[edit.End:]) {
			t.Errorf("behind the edit: %q, want %q", got, src[edit.End:])
		}
		if _, err := xmledit.Parse(changed); err != nil {
			t.Errorf("%q with %+v: %v", src, edit, err)
		}
	})
}

// randomEdit is some edit of some element; the root is not removed.
func randomEdit(d *xmledit.Document, random *rand.Rand, value string) xmledit.Edit {
	e := d.Root()
	for len(e.Children) > 0 && random.IntN(4) > 0 {
		e = e.Children[random.IntN(len(e.Children))]
	}
	kind := random.IntN(7)
	if e.Parent == nil && kind > 2 {
		kind = 0
	}
	switch kind {
	case 0:
		return d.InsertLast(e, element, element)
	case 1:
		return d.SetAttr(e, "name", value)
	case 2:
		if len(e.Attrs) == 0 {
			return d.SetAttr(e, "name", value)
		}
		return d.RemoveAttr(&e.Attrs[random.IntN(len(e.Attrs))])
	case 3:
		return d.InsertAfter(e, element)
	case 4:
		return d.InsertBefore(e, element)
	case 5:
		return d.Remove(e)
	}
	return d.Replace(e, element)
}
