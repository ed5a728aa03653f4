package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"hook-sidecar/pkg/words/lazyregexp"
)

// begins matches the begin of an entry of a log: a time, klog's header, a key, or a bracket.
var begins = lazyregexp.New(`^(?:\d{4}[-/]\d\d[-/]\d\d|[IWEF]\d{4} |(?:time|level|ts)=|\[ *\d+\.\d+\])`)

// dumped matches a domain in a log: virt-launcher's dump (KubeVirt
// pkg/virt-launcher/virtwrap/util/libvirt_helper.go), and XML.
var dumped = lazyregexp.New(`(?s)(Base64 dump )([A-Za-z0-9+/=]+)|<domain[ >].*?</domain>`)

// shown are the fields of an entry that stay, without what is secret in them: those of KubeVirt's
// logs (kubevirt.io/client-go/log) and of this hook's, with those that a message may have.
var shown = slices.Concat(public, logged, strings.Fields(`added caller changed context
	controller desc dryRun grace guestAddress guestCell hostNode key kept layoutReason logger ms
	objectName outcome panic placed predicted queueName remedy socket source stack text ts unplaced`))

// Log removes secrets from a log. Its lines are JSON, which a prefix may precede, or text;
// an entry of text may have several lines.
func Log(text string) (string, Removed) {
	l := log{removed: Removed{}}
	for line := range strings.Lines(text) {
		at := strings.Index(line, `{"`)
		if safe, isEntry := l.entry(line, at); isEntry {
			l.flush()
			l.out.WriteString(safe)
			continue
		}

		if begins.MatchString(line) && !l.isInKey() && !l.isInBlock(line) {
			l.flush()
		}

		l.block.WriteString(line)
	}

	l.flush()
	return l.out.String(), l.removed
}

// log is a log that is being written.
type log struct {
	removed Removed
	out     strings.Builder
	block   strings.Builder // of lines that are not JSON, of one entry
	table   *table          // whose header the entry is, with secrets in a column
}

// keyLines are the most lines of a private key, with those around it: one of RSA with 16384 bits.
const keyLines = 220

var keyBegins, keyEnds = lazyregexp.New(keyBegin), lazyregexp.New(keyEnd)

// isInKey reports whether the entry ends within a private key, each of whose lines may have a time.
func (l *log) isInKey() bool {
	text := l.block.String()
	if !strings.Contains(text, "BEGIN ") || strings.Count(text, "\n") > keyLines {
		return false
	}

	return len(keyBegins.FindAllStringIndex(text, -1)) > len(keyEnds.FindAllStringIndex(text, -1))
}

// isInBlock reports whether a line with a time goes on with the entry, as a line of YAML does that is
// indented or an item, and a table's row. If not, it may be the header of a table.
func (l *log) isInBlock(line string) bool {
	found := stamp.FindString(line)
	rest := line[len(found):]
	row := strings.TrimRight(rest, " \r\n")
	isDeeper := strings.HasPrefix(rest, " ") || strings.HasPrefix(rest, "- ")
	isRow := l.table != nil && l.table.isRow(row)
	if found != "" && (isDeeper || isRow) && l.block.Len() > 0 &&
		strings.Count(l.block.String(), "\n") < keyLines {
		return true
	}

	l.table = headerOf(row)
	return false
}

// flush writes the entry that was read.
func (l *log) flush() {
	if l.block.Len() == 0 {
		return
	}

	text := l.block.String()
	l.block.Reset()
	safe := l.text(text)
	l.out.WriteString(safe)
	if strings.HasSuffix(text, "\n") && !strings.HasSuffix(safe, "\n") {
		l.out.WriteString("\n")
	}
}

// entry returns a line of JSON without secrets. A line in which nothing is removed stays as it is.
func (l *log) entry(line string, at int) (safe string, isEntry bool) {
	if at < 0 {
		return "", false
	}

	object := map[string]any{}
	decoder := json.NewDecoder(strings.NewReader(line[at:]))
	decoder.UseNumber()
	if decoder.Decode(&object) != nil || object["msg"] == nil {
		return "", false
	}

	rest := line[at+int(decoder.InputOffset()):]
	removed := Removed{}
	inner := log{removed: removed}
	inner.fields(object)

	// Written again, the fields would be in another order: what has no secret stays as it is.
	if len(removed) == 0 && strings.TrimSpace(rest) == "" {
		return l.text(line[:at]) + line[at:], true
	}

	l.removed.Add(removed)

	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(object) != nil {
		return Mark + "\n", true
	}

	return l.text(line[:at]) + strings.TrimSuffix(b.String(), "\n") +
		l.text(strings.TrimSuffix(rest, "\n")) + "\n", true
}

// fields removes secrets from the fields of an entry. Of one with an unknown name only numbers
// stay.
func (l *log) fields(entry map[string]any) {
	for name, value := range entry {
		text, isText := value.(string)
		_, isNumber := value.(json.Number)
		switch {
		case isText && text == "" || value == nil:
		case isText && slices.Contains(shown, name) && !isSecret(name, entry):
			entry[name] = l.text(text)
		case isText || fields[name] != "" || isNumber && isSecret(name, entry):
			entry[name] = Mark
			l.removed[Messages]++

		default:
			l.value(name, value)
		}
	}
}

// value removes secrets from a field that is not a string.
func (l *log) value(name string, value any) {
	switch v := value.(type) {
	case map[string]any:
		l.fields(v)
	case []any:
		for i, item := range v {
			entry := map[string]any{name: item}
			l.fields(entry)
			v[i] = entry[name]
		}
	}
}

// text removes secrets from a text. A domain in it, as XML or in base64, stays readable: only its
// secrets go.
func (l *log) text(text string) string {
	if !strings.Contains(text, "Base64 dump ") && !strings.Contains(text, "<domain") {
		return l.removed.message(Messages, text, Text)
	}

	var b strings.Builder
	at := 0
	for _, found := range dumped.FindAllStringSubmatchIndex(text, -1) {
		b.WriteString(l.removed.message(Messages, text[at:found[0]], Text))
		at = found[1]
		if found[2] < 0 {
			b.WriteString(l.domain(text[found[0]:at]))
			continue
		}

		b.WriteString(text[found[2]:found[3]])
		xml, err := base64.StdEncoding.DecodeString(text[found[4]:found[5]])
		if err != nil || !bytes.Contains(xml, []byte("<")) {
			b.WriteString(Mark) // also what gzip has compressed
			l.removed[Domains]++
			continue
		}

		b.WriteString(base64.StdEncoding.EncodeToString([]byte(l.domain(string(xml)))))
	}

	b.WriteString(l.removed.message(Messages, text[at:], Text))
	return b.String()
}

func (l *log) domain(xml string) string {
	safe, removed := Domain(xml)
	l.removed.Add(removed)
	return safe
}
