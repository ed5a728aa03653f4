package xmledit_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"hook-sidecar/pkg/domain/xmledit"
)

// FuzzParse: Parse never panics; what it accepts is returned unchanged, and
// encoding/xml reads the same in it; what it refuses encoding/xml refuses too,
// except what that does not check.
func FuzzParse(f *testing.F) {
	for _, src := range nasty {
		f.Add([]byte(src))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		d, err := xmledit.Parse(src)
		want, wantErr := outline(src)
		if err != nil {
			var at *xmledit.Error
			if !errors.As(err, &at) || at.Line < 1 || at.Column < 1 {
				t.Fatalf("Parse: %v", err)
			}

			// encoding/xml does not check instructions.
			if wantErr == nil && !bytes.Contains(src, []byte("<?")) &&
				!beyondEncodingXML(at.Reason) {
				t.Errorf("Parse: %v; encoding/xml reads %q", err, want)
			}

			return
		}

		if got := mustApply(t, d); !bytes.Equal(got, src) {
			t.Errorf("without edits:\n%q, want\n%q", got, src)
		}

		checkSpans(t, string(src), d.Root(), nil)

		if wantErr != nil {
			// It knows the names of the fourth edition of XML, which are fewer.
			if !strings.Contains(wantErr.Error(), "name") &&
				!strings.Contains(wantErr.Error(), "expected") {
				t.Errorf("encoding/xml: %v", wantErr)
			}
			return
		}

		if got := ownOutline(d, d.Root()); got != want {
			t.Errorf("read as\n%q, encoding/xml reads\n%q", got, want)
		}
	})
}

// beyondEncodingXML reports whether encoding/xml accepts what Parse refuses, or
// does so in a document that is read token by token.
func beyondEncodingXML(reason string) bool {
	for _, part := range []string{
		"whitespace is missing", "duplicate attribute", "nested deeper", "is not UTF-8",
		"is not allowed in XML",
		"refers to no character", "at the very start only", "an XML declaration must end with",
		"must be utf-8",
		"document type", "second root", "outside the root", "no element",
		"invalid namespace declaration",
	} {
		if strings.Contains(reason, part) {
			return true
		}
	}

	return false
}

// spaces makes all whitespace of a value spaces: encoding/xml does not do it,
// and its result does not show which of it was written as references.
var spaces = strings.NewReplacer("\r", " ", "\n", " ", "\t", " ")

// ownOutline returns all that an element says, one line each for its start, text and end.
func ownOutline(d *xmledit.Document, e *xmledit.Element) string {
	var all strings.Builder
	fmt.Fprintf(&all, "<%s", e.Name)
	for _, a := range e.Attrs {
		fmt.Fprintf(&all, " %s=%q", a.Name, spaces.Replace(a.Value))
	}

	for _, child := range e.Children {
		all.WriteString("\n" + ownOutline(d, child))
	}

	fmt.Fprintf(&all, "\n%q>", d.Text(e))
	return all.String()
}

// outline returns the same, as encoding/xml reads it.
func outline(src []byte) (string, error) {
	var all strings.Builder
	var texts []string // of the elements that are open
	decoder := xml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(src, []byte("\ufeff"))))
	for {
		// RawToken does not check that tags match, Token changes names.
		token, err := decoder.RawToken()
		if errors.Is(err, io.EOF) {
			return strings.TrimPrefix(all.String(), "\n"), wellNested(src)
		}
		if err != nil {
			return "", err
		}

		switch token := token.(type) {
		case xml.StartElement:
			fmt.Fprintf(&all, "\n<%s", rawName(token.Name))
			for _, a := range token.Attr {
				fmt.Fprintf(&all, " %s=%q", rawName(a.Name), spaces.Replace(a.Value))
			}
			texts = append(texts, "")

		case xml.EndElement:
			if len(texts) == 0 {
				return "", errors.New("closed once too often")
			}
			fmt.Fprintf(&all, "\n%q>", texts[len(texts)-1])
			texts = texts[:len(texts)-1]

		case xml.CharData:
			if len(texts) > 0 {
				texts[len(texts)-1] += string(token)
			}
		}
	}
}

func wellNested(src []byte) error {
	decoder := xml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(src, []byte("\ufeff"))))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func rawName(name xml.Name) string {
	if name.Space == "" {
		return name.Local
	}
	return name.Space + ":" + name.Local
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
			return // what is added must not exceed the limits of size and depth
		}

		edit := randomEdit(d, rand.New(rand.NewPCG(seed, 0)), value)
		changed := mustApply(t, d, edit)
		if got := string(changed[:edit.Start]); got != string(src[:edit.Start]) {
			t.Errorf("before the edit: %q, want %q", got, src[:edit.Start])
		}

		if got := string(changed[edit.Start+len(edit.New):]); got != string(src[edit.End:]) {
			t.Errorf("after the edit: %q, want %q", got, src[edit.End:])
		}

		if _, err := xmledit.Parse(changed); err != nil {
			t.Errorf("%q with %+v: %v", src, edit, err)
		}
	})
}

// randomEdit returns some edit of some element; the root is not removed.
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
