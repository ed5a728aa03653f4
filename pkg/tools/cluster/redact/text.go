package redact

import (
	"slices"
	"strings"

	"hook-sidecar/pkg/words/lazyregexp"
)

// Mark stands for a value that was removed.
const Mark = "…"

// dump begins a list of variables, arguments, headers or data of a Secret, or a map, as Go, JSON and
// YAML print them in a line. Such a list has values of any form, so the rest of the message goes
// with it.
var dump = lazyregexp.New(`(?i)\b(?:env\w*|variable|arg|header|` + anyOf(lists) +
	`)\\*["']?\s*[:=]\s*(?:\[\]\w*\.?\w*|map\[\w+\]\w+)?[\[{]\s*[^\]}\s]|\bmap\[[^\]]|` +
	`\\*["']?binaryData\b|\b(?:Binary)?Data\n====`)

// cloudInit begins cloud-init data, the fields of a VMI that hold some, and lists of passwords
// (cloud-init's cc_set_passwords.py, chpasswd(8) with a here-document).
var cloudInit = lazyregexp.New(`#cloud-config|(?i:user-?data|network-?data)|#!/|` +
	`Set the following 'random' passwords|\bchpasswd\b[^\n]*<<|(?i:\brecovery codes:)`)

// resourceName is a resource's name in a quota, without that of a device, and quantity its value.
var (
	resourceName = lazyregexp.New(`^(?:requests\..+|limits\..+|cpu|memory|pods)$`)
	quantity     = lazyregexp.New(`^[0-9]+(?:\.[0-9]+)?[KMGTPEkmi]{0,2}\b`)
)

// public are names whose values messages of KubeVirt, libvirt, QEMU and Kubernetes cannot do
// without, where an option list or JSON has them: "-device vfio-pci,host=0000:1b:00.0".
var public = strings.Fields(`accel addr aio alias apiVersion bootindex bus cache cell chassis code Code
	component count device discard display Domain drive driver errno error exitCode field file filename format
	function group guest host host-nodes hugetlb hugetlbsize id if iommufd iova kind layout level limit
	machine mem-path Message message mode model msg multifunction name namespace node node-name nodeName
	operation phase pid policy port pos prealloc protocol qom-type reason resource romfile severity
	share size slot status strict subcomponent sysfsdev thread time timestamp type uid vm vmi`)

// logged are names that loggers, gRPC and the kernel's audit print after a blank: err="...",
// code = NotFound, comm="qemu-kvm" (Linux security/lsm_audit.c, AppArmor's audit.c; severity of drivers/pci/pcie/aer.c).
var logged = strings.Fields(`action apparmor class code comm component container denied_mask desc detail
	dev err error event exe info kind level managed message mode msg name namespace operation path pid pod
	pos profile reason requested_mask res resource severity status subcomponent tclass thread time
	timestamp type uid`)

// refusals are the first words of what is wrong with a secret: "token: no such file or directory".
var refusals = strings.Fields(`cannot denied expected expecting failed invalid missing must no not
	permission required unable unexpected unknown wrong`)

// Text removes secrets from a message, which may have several lines: the values of variables,
// headers and tokens, and cloud-init data. An escaped end of a line becomes one, and lines keep
// their numbers. It removes more rather than less: of what it takes for a value nothing stays.
func Text(text string) string {
	if isPlain(text) {
		return text
	}
	return removeAll(text)
}

// textRules remove secrets from a text, in this order. A rule that needs none of its hints has none.
var textRules = []struct {
	hints  *hints
	remove func(text string) string
}{
	{newHints("#", "data", "passw", "recovery"), func(text string) string { return cutAt(cloudInit, text) }},
	{newHints("[", "{", "binarydata", "===="), func(text string) string { return cutAt(dump, text) }},
	{newHints(bareHints()...), bareSecrets},
	{nameHints, removeColumns},
	{nameHints, removeCompared},
	{newHints(append(pairHints(), ":")...), removeNamed},
	{newHints(commandHints()...), removeArguments},
	{nameHints, removeFlags},
	{newHints(spokenHints()...), removeSpoken},
	{newHints("<"), removeElements},
	{aboutSecret, removeRandom},
	{nil, removeKeys},
}

// pairHints are in every text that has a name and, after it, a secret; a colon beside them.
func pairHints() []string {
	texts := []string{"=", `"`, "'"}
	for _, name := range lists {
		texts = append(texts, name+":")
	}
	return append(texts, allNames()...)
}

// removeAll applies the rules that may match a text. It leaves out the others: what
// a rule removes gives none of the later ones more to find.
func removeAll(text string) string {
	text, stamps := withoutStamps(escapes.Replace(text))
	lower := strings.ToLower(text)
	for _, r := range textRules {
		if r.hints == nil || r.hints.isIn(lower) {
			text = r.remove(text)
		}
	}

	return stamps.with(text)
}

// escapes are those of JSON and XML for what a secret is told by: the end of a line, and signs that
// encoding/json escapes in each text.
var escapes = strings.NewReplacer(`\n`, "\n", `\u003d`, "=", `\u0026`, "&", `\u003c`, "<", `\u003e`, ">",
	"&lt;", "<", "&gt;", ">")

// cutAt removes what a form begins.
func cutAt(form lazyregexp.Regexp, text string) string {
	if at := form.FindStringIndex(text); at != nil {
		return text[:at[0]] + Mark
	}
	return text
}

// lineEnds returns the ends of lines in a text.
func lineEnds(text string) string { return strings.Repeat("\n", strings.Count(text, "\n")) }

// removeNamed removes the values of names.
func removeNamed(text string) string {
	var b strings.Builder
	ps := pairs{text: text}
	for at := 0; ; {
		p, isFound := ps.next(at)
		if !isFound {
			b.WriteString(text[at:])
			return b.String()
		}

		end := p.valueEnd(text)
		b.WriteString(text[at:p.value])
		if end > p.value {
			b.WriteString(Mark + lineEnds(text[p.value:end]))
		}

		at = end
	}
}

// isJSON is the begin of a quoted text or of a number.
var isJSON = lazyregexp.New(`^\\*["'0-9-]`)

// valueEnd returns where the pair's value ends in the text, or where it begins if the value is no
// secret.
func (p pair) valueEnd(text string) int {
	at := p.value
	value := text[at:]
	doubt := doubtOf(p.name)
	isColon := strings.TrimSpace(p.sign) == ":" && p.quote == ""
	if isColon && p.isList(text) {
		doubt = certain
	}

	isSecret := doubt != unknown
	switch {
	case value == "" || !isSecret && isColon || strings.HasPrefix(value, Mark):
		return at
	case !isSecret && p.isPublic(value):
		return at
	case doubt != certain && publicValue.MatchString(value),
		doubt == doubtful && p.isObjectKey(value), emptyValue.MatchString(value),
		isColon && p.isRemark(value):
		return at

	case !isSecret && strings.TrimSpace(p.sign) == ":" && !isJSON.MatchString(value):
		// a sentence with a quoted name
		return at
	}

	if quoted := max(quotedEnd(value), inParentheses(value)); quoted > 0 {
		return at + quoted
	}

	switch {
	case strings.HasPrefix(value, "[") || strings.HasPrefix(value, "{"):
		if !isSecret {
			return at
		}
		return len(text)

	case isColon && p.sign == ":" && strings.EqualFold(p.name, "value"):
		return at + goFieldEnd(value)
	case isColon:
		return at + scalarEnd(text, at)
	case p.before == "[":
		if end := strings.IndexByte(value, ']'); end > 0 {
			return at + end
		}
		return len(text)
	}

	isSetting := (p.before == "" || p.before == "\n") && p.sign == " = " // as a file has it
	if doubt == certain && isSetting {
		return at + lineEnd(value)
	}

	return at + wordEnd(value)
}

// isObjectKey reports whether the value is the name of an object with its namespace. After "auth" it
// is a user with a password.
func (p pair) isObjectKey(value string) bool {
	return objectKey.MatchString(value) && !strings.HasSuffix(strings.ToLower(p.name), "auth")
}

// isRemark reports whether a sentence goes on after the colon.
func (p pair) isRemark(value string) bool {
	word, rest, _ := strings.Cut(value, " ")
	return slices.Contains(refusals, word) && rest != "" ||
		strings.HasPrefix(value, "(") && variableName.MatchString(p.name)
}

// isList reports whether the pair is a list of values of any form, as YAML and kubectl describe print
// it: the name begins its line or an item, or the list begins the next line.
func (p pair) isList(text string) bool {
	if !slices.Contains(lists, strings.ToLower(p.name)) {
		return false
	}

	if strings.HasPrefix(text[p.value:], "\n") {
		return true
	}

	const near = 100 // of a line, which may be long and have many pairs
	line := text[max(0, p.value-near):p.value]
	line = line[strings.LastIndexByte(line, '\n')+1:]
	before := strings.TrimSpace(line[:max(0, strings.LastIndex(line, p.name))])
	isCapital := p.name[0] >= 'A' && p.name[0] <= 'Z' // kubectl describe
	return before == "" || isCapital || strings.HasSuffix(before, ":") || strings.HasSuffix(before, "-")
}

// isPublic reports whether the name's value can be shown.
func (p pair) isPublic(value string) bool {
	isOption := p.quote != "" || p.before == "," || p.before == "(" || p.before == "{"
	isNumber := value[0] >= '0' && value[0] <= '9'
	isResource := isNumber &&
		(strings.Contains(p.name, "/") || resourceName.MatchString(p.name))
	isLabel := strings.Contains(p.name, "kubevirt.io") || strings.Contains(p.name, "kubernetes.io/")
	return isLabel || isOption && slices.Contains(public, p.name) || slices.Contains(logged, p.name) ||
		p.before == " " && (p.name == "Domain" || p.name == "Message") || isResource &&
		quantity.MatchString(value)
}

// quotedEnd returns the end of the quoted text that a value begins with, and what a shell joins
// to it; 0 without a quote. Escapes may be those of several levels: the quote that ends the text
// has as many backslashes before it as the one that begins it.
func quotedEnd(value string) int {
	escapes := len(value) - len(strings.TrimLeft(value, `\`))
	if escapes == len(value) || value[escapes] != '"' && value[escapes] != '\'' {
		return prefixedEnd(value)
	}

	quote, run := value[escapes], 0
	for i := escapes + 1; i < len(value); i++ {
		switch {
		case value[i] == '\\':
			run++
			continue
		case value[i] == quote && run == escapes:
			// YAML 1.2.2, 7.3.2
			isDoubled := quote == '\'' && i+1 < len(value) && value[i+1] == quote
			if isDoubled {
				i++
				break
			}
			return i + 1 + joinedEnd(value[i+1:])
		}

		run = 0
	}

	return len(value)
}

// most is how long a value in a sign's quote or in parentheses is at most: a text may begin many that
// do not end.
const most = 10_000

// prefixedEnd returns the end of a quoted text with a sign before it, such as b'…' of Python, N'…' of
// SQL and $'…' of a shell; 0 if there is none, or it does not end.
func prefixedEnd(value string) int {
	isPrefixed := len(value) > 1 && strings.IndexByte("bBrRuUfFNL@$", value[0]) >= 0 &&
		strings.IndexByte(`"'\`, value[1]) >= 0
	if !isPrefixed {
		return 0
	}

	value = value[:min(len(value), most)]
	end := 1 + quotedEnd(value[1:])
	if end == 1 || end == len(value) && value[end-1] != '"' && value[end-1] != '\'' {
		return 0
	}

	return end
}

// inParentheses returns the end of what a value has in parentheses at its begin, such as a tuple; 0 if
// it has nothing there.
func inParentheses(value string) int {
	if !strings.HasPrefix(value, "(") {
		return 0
	}
	return 1 + strings.IndexByte(value[:min(len(value), most)], ')')
}

// joinedEnd returns the end of what follows a quoted text without a sign between.
func joinedEnd(rest string) int {
	if rest == "" || strings.ContainsAny(rest[:1], " \t\r\n,;:)]}>\\/") {
		return 0
	}

	if end := quotedEnd(rest); end > 0 {
		return end
	}
	return wordEnd(rest)
}

// lineEnd returns the end of a value that may have blanks.
func lineEnd(value string) int {
	end := wordEnd(value)
	for end < len(value) && value[end] != '\n' && value[end] != '\r' {
		end += max(1, wordEnd(value[end:]))
	}
	return end
}

// wordEnd returns the end of an unquoted value: the first blank that no backslash escapes.
func wordEnd(value string) int {
	for i := 0; i < len(value); i++ {
		switch value[i] {
		case '\\':
			i++
			if line := strings.TrimLeft(value[i:], `\`); strings.HasPrefix(line, "\n") {
				i = len(value) - len(strings.TrimLeft(line, whitespace)) - 1 // on the next line
			}
		case ' ', '\t', '\n', '\r':
			return i
		}
	}

	return len(value)
}

// goFieldEnd returns the end of a value as Go prints that of a variable's field: where the next
// field begins, whatever is before it.
func goFieldEnd(value string) int {
	if end := strings.Index(value, "ValueFrom:"); end > 0 {
		return end
	}
	return len(value)
}

// scalarEnd returns the length of a value of YAML, or of a header: the rest of its line and, as in
// a block, the lines after it that are indented further. A list that begins on the next line may
// have the indent of its name.
func scalarEnd(text string, at int) int {
	begin := strings.LastIndexByte(text[:at], '\n') + 1
	key := text[begin:at]

	// The dash of an item counts as indent: what belongs to its name is indented further.
	indent := len(key) - len(strings.TrimLeft(key, " -"))

	end := at
	isList := strings.HasPrefix(text[at:], "\n")
	for first := true; ; first = false {
		line, _, more := strings.Cut(text[end:], "\n")
		after := strings.TrimLeft(line, " ")
		isItem := isList && strings.HasPrefix(after, "-") && len(line)-len(after) == indent
		deeper := len(line)-len(after) > indent || isItem
		if !first && !deeper && strings.TrimSpace(line) != "" {
			return end - 1 - at
		}

		end += len(line)
		if !more {
			return end - at
		}

		end++
	}
}
