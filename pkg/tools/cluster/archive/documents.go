package archive

import (
	"bytes"
	"encoding/json"
	"unicode"
)

// Documents returns the parts of a file between lines that begin with three dashes, each with the
// line on which it begins. The reader of k8s.io/apimachinery refuses a line with more dashes, which
// logs and pasted outputs have, and loses the end of a file whose length is a multiple of its buffer.
func Documents(text []byte) func(func(line int, document []byte) bool) {
	return func(yield func(int, []byte) bool) {
		line, dashes := 1, []byte("---")
		for {
			begin := 0
			if bytes.HasPrefix(text, dashes) {
				begin = len(dashes) // what is after the dashes belongs to the document
				begin += len(text[begin:]) - len(bytes.TrimLeft(text[begin:], "-"))
			}

			end := bytes.Index(text[begin:], []byte("\n---"))
			if end < 0 {
				yield(line, text[begin:])
				return
			}

			end += begin + 1 // with its newline
			if !yield(line, text[begin:end]) {
				return
			}

			line += bytes.Count(text[:end], []byte("\n"))
			text = text[end:]
		}
	}
}

// ObjectsIn returns the texts of a document's objects, of which files that were written in turns have
// several: JSON one after the other, or YAML without a line of dashes between. A text need not be
// an object: who reads it tells.
func ObjectsIn(document []byte) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for rest := document; len(bytes.TrimSpace(rest)) > 0; {
			var object []byte
			if object, rest = cutObject(rest); !yield(object) {
				return
			}
		}
	}
}

// cutObject cuts a text after its first object.
func cutObject(text []byte) (object, rest []byte) {
	trimmed := bytes.TrimLeft(text, " \t\r\n")
	if bytes.HasPrefix(trimmed, []byte("{")) {
		if end := endOfJSON(trimmed); json.Valid(trimmed[:end]) {
			return trimmed[:end], trimmed[end:]
		}
		return text, nil // YAML, which may begin as JSON does
	}

	// A mapping has a key once: where its first one is again, another begins.
	key := firstKey(text)
	if key == nil {
		return text, nil
	}

	begin := bytes.Index(text, key) + len(key)
	again := bytes.Index(text[begin:], append([]byte("\n"), key...))
	if again < 0 {
		return text, nil
	}

	again += begin + 1
	return text[:again], text[again:]
}

// endOfJSON returns where the JSON object ends that a text begins with.
func endOfJSON(text []byte) int {
	depth, isString := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case isString && c == '\\':
			i++
		case c == '"':
			isString = !isString
		case isString:
		case c == '{':
			depth++
		case c == '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}

	return len(text)
}

// firstKey returns the first key of a YAML mapping in block style, with its colon; nil of other
// texts.
func firstKey(text []byte) []byte {
	for line := range bytes.Lines(text) {
		if trimmed := bytes.TrimSpace(line); len(trimmed) == 0 || trimmed[0] == '#' {
			continue
		}

		key, _, isKey := bytes.Cut(line, []byte(":"))
		if !isKey || bytes.ContainsFunc(key, func(r rune) bool { return !unicode.IsLetter(r) }) {
			return nil
		}

		return line[:len(key)+1]
	}

	return nil
}
