package redact

import (
	"regexp"
	"slices"
	"strings"
)

// Mark stands for a value that was removed.
const Mark = "…"

// The forms of secrets that need no name: private keys, JSON Web Tokens (RFC 7519), tokens by the
// prefixes that their issuers document, and credentials of an address or a header (RFC 7235, 2.1).
var bare = []struct {
	form *regexp.Regexp
	with string
	in   []string // one of these is in a text, in lower case, that the form matches
}{
	{
		regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`), Mark,
		[]string{"-----begin"},
	},
	{
		regexp.MustCompile(`\beyJ[\w-]+(?:\.[\w-]*){0,2}`), Mark,
		[]string{"eyj"},
	},
	{
		regexp.MustCompile(`\b(?:gh[oprsu]_|github_pat_|glpat-|hf_|nvapi-|xox[a-z]-|sk-|AKIA|ASIA)[\w-]{8,}`), Mark,
		[]string{
			"gho_", "ghp_", "ghr_", "ghs_", "ghu_", "github_pat_", "glpat-", "hf_", "nvapi-", "xox",
			"sk-", "akia", "asia",
		},
	},
	{
		regexp.MustCompile(`://[^/\s@]+@`), "://" + Mark + "@",
		[]string{"@"},
	},
	{
		regexp.MustCompile(`(?i)\b(bearer|basic) +[\w.~+/=-]{6,}`), "$1 " + Mark,
		[]string{"bearer", "basic"},
	},
	{
		regexp.MustCompile(`\b(ssh-[a-z0-9-]+|ecdsa-[a-z0-9-]+) +\S+`), "$1 " + Mark,
		[]string{"ssh-", "ecdsa-"},
	},
}

// dump begins a list of variables, arguments, headers or data of a Secret, or a map, as Go and
// YAML print them. Such a list has values of any form, so the rest of the message goes with it.
var dump = regexp.MustCompile(`(?i)\b(?:env\w*|variables?|args?|command|headers?|data|stringdata|annotations)\\*["']?\s*[:=]\s*(?:\[\]\w*\.?\w*|map\[\w+\]\w+)?[\[{]\s*[^\]}\s]|\bmap\[[^\]]|\b(?:string)?data:\s*\n|\\*["']?binaryData\b`)

// cloudInit begins cloud-init data, and the fields of a VMI that hold some.
var cloudInit = regexp.MustCompile(`#cloud-config|(?i:user-?data|network-?data)|#!/`)

// secretWord is a part of a name whose value is a secret.
const secretWord = `(?:passw(?:or)?d|passphrase|passcode|pwd|secret|token|credential|api[_.-]?key|(?:access|private|signing|account|encryption|license)[_.-]?key|cookie|signature)`

// secretName is a name whose value is a secret, whatever sign is between.
var secretName = regexp.MustCompile(`(?i)` + secretWord +
	`|(?:^|[_.-])(?:key|pass|auth|sig|salt|pin|value)$|^(?:proxy-)?authorization$|^x-[\w-]+$`)

// secretParts are parts of names: one that secretName matches has one of them, in lower case.
var secretParts = strings.Fields(`pass pwd secret token credential key cookie sig auth salt pin value x-`)

// variableName is a name that nothing but a variable has.
var variableName = regexp.MustCompile(`^[A-Z][A-Z0-9]*_[A-Z0-9_]+$`)

// spoken is a secret after its name in a sentence or on a command line, or before it.
var spoken = regexp.MustCompile(`(?i)((?:\b|--?)[\w-]*(?:passw(?:or)?d|passphrase|token|api-?key)s?["']?\s+(?:is\s+|was\s+|of \S+ is\s+)?)(\S+)|(\S+)(\s+is (?:the|its|my|your) (?:passw(?:or)?d|passphrase|token|secret))`)

// element is an XML element with a secret in it.
var element = regexp.MustCompile(`(?i)(<[\w:-]*` + secretWord + `[^<>]*>)[^<]+`)

// resourceName is a resource's name in a quota, without that of a device, and quantity its value.
var (
	resourceName = regexp.MustCompile(`^(?:requests\..+|limits\..+|cpu|memory|pods)$`)
	quantity     = regexp.MustCompile(`^[0-9]+(?:\.[0-9]+)?[KMGTPEkmi]{0,2}\b`)
)

// public are names whose values messages of KubeVirt, libvirt, QEMU and Kubernetes cannot do
// without, where an option list or JSON has them: "-device vfio-pci,host=0000:1b:00.0".
var public = strings.Fields(`accel addr alias apiVersion bus code cell Code component count device display
	Domain driver errno error exitCode field file function group guest host host-nodes hugetlb hugetlbsize
	id iommufd iova kind layout level limit machine mem-path Message message mode model msg multifunction
	name namespace node nodeName operation phase pid policy pos prealloc protocol reason resource
	share size slot status strict subcomponent sysfsdev thread time timestamp type uid vm vmi`)

// logged are names that loggers and gRPC print after a blank: err="...", code = NotFound.
var logged = strings.Fields(`code component desc err error kind level msg name namespace pod pos reason subcomponent thread time timestamp uid`)

// Text removes secrets from a message, which may have several lines: the values of variables,
// headers and tokens, and cloud-init data. An escaped end of a line becomes one, and lines keep
// their numbers. It removes more rather than less: of what it takes for a value nothing stays.
func Text(text string) string {
	if isPlain(text) {
		return text
	}
	return removeAll(text)
}

// removeAll applies the rules that may match a text. It leaves out the others: what
// a rule removes gives none of the later ones more to find.
func removeAll(text string) string {
	text = strings.ReplaceAll(text, `\n`, "\n")
	lower := strings.ToLower(text)
	if hasOne(lower, "#", "data") {
		text = cutAt(cloudInit, text)
	}

	if hasOne(lower, "[", "{", "data") {
		text = cutAt(dump, text)
	}

	text = bareIn(text, lower)
	if hasOne(lower, "=", ":") {
		text = redactNamed(text)
	}

	if hasOne(lower, "passw", "passphrase", "token", "api", "secret") {
		text = spoken.ReplaceAllString(text, "${1}"+Mark+"${4}")
	}

	if hasOne(lower, "<") {
		text = element.ReplaceAllString(text, "${1}"+Mark)
	}

	return text
}

// cutAt removes what a form begins.
func cutAt(form *regexp.Regexp, text string) string {
	if at := form.FindStringIndex(text); at != nil {
		return text[:at[0]] + Mark
	}
	return text
}

// hasOne reports whether a text in lower case has one of these.
func hasOne(lower string, hints ...string) bool {
	return slices.ContainsFunc(hints, func(hint string) bool {
		return strings.Contains(lower, hint)
	})
}

// lineEnds returns the ends of lines in a text.
func lineEnds(text string) string { return strings.Repeat("\n", strings.Count(text, "\n")) }

// redactNamed removes the values of names.
func redactNamed(text string) string {
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
var isJSON = regexp.MustCompile(`^\\*["'0-9-]`)

// valueEnd returns where the pair's value ends in the text, or where it begins if the value is no
// secret.
func (p pair) valueEnd(text string) int {
	at := p.value
	value := text[at:]
	isSecret := p.isSecret()
	isColon := strings.TrimSpace(p.sign) == ":" && p.quote == ""
	switch {
	case value == "" || !isSecret && isColon || strings.HasPrefix(value, Mark):
		return at
	case !isSecret && p.isPublic(value):
		return at
	case !isSecret && strings.TrimSpace(p.sign) == ":" && !isJSON.MatchString(value):
		// a sentence with a quoted name
		return at
	}

	if quoted := quotedEnd(value); quoted > 0 {
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

	return at + wordEnd(value)
}

// isSecret reports whether the name says that its value is a secret, or is a variable's.
func (p pair) isSecret() bool {
	return hasOne(strings.ToLower(p.name), secretParts...) && secretName.MatchString(p.name) ||
		strings.Contains(p.name, "_") && variableName.MatchString(p.name)
}

// isPublic reports whether the name's value can be shown.
func (p pair) isPublic(value string) bool {
	isOption := p.quote != "" || p.before == "," || p.before == "(" || p.before == "{"
	isNumber := value[0] >= '0' && value[0] <= '9'
	isResource := isNumber &&
		(strings.Contains(p.name, "/") || resourceName.MatchString(p.name))
	return isOption && slices.Contains(public, p.name) || slices.Contains(logged, p.name) ||
		p.before == " " && (p.name == "Domain" || p.name == "Message") || isResource &&
		quantity.MatchString(value)
}

// quotedEnd returns the end of the quoted text that a value begins with, and what a shell joins
// to it; 0 without a quote. Escapes may be those of several levels: the quote that ends the text
// has as many backslashes before it as the one that begins it.
func quotedEnd(value string) int {
	escapes := len(value) - len(strings.TrimLeft(value, `\`))
	if escapes == len(value) || value[escapes] != '"' && value[escapes] != '\'' {
		return 0
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

// wordEnd returns the end of an unquoted value: the first blank that no backslash escapes.
func wordEnd(value string) int {
	for i := 0; i < len(value); i++ {
		switch value[i] {
		case '\\':
			i++
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
// a block, the lines after it that are indented further.
func scalarEnd(text string, at int) int {
	begin := strings.LastIndexByte(text[:at], '\n') + 1
	key := text[begin:at]
	indent := len(key) - len(strings.TrimLeft(key, " -"))

	end := at
	for first := true; ; first = false {
		line, _, more := strings.Cut(text[end:], "\n")
		deeper := len(line)-len(strings.TrimLeft(line, " ")) > indent
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
