package redact

import (
	"slices"
	"strings"

	"hook-sidecar/pkg/words/lazyregexp"
)

// spokenWords are the words after which a sentence, a table or a protocol names the secret, also
// with others before them: chap_secret, HF_TOKEN.
var spokenWords = strings.Fields(`apikey api-key api_key kennwort passcode passphrase passw psk pwd rootpw
	token _secret -secret`)

// keyWords make a secret of the "key" after them: API key, access key.
var keyWords = strings.Fields(`access account activation api cephx certificate encryption licence license
	master private product secret session shared signing`)

var (
	// spoken is such a word, with what is around it.
	spoken = lazyregexp.New(`(?i)(?:[\w.-]*(?:` + strings.ReplaceAll(anyOf(spokenWords), "passw",
		`passw\w*`) + `)s?|(?:\b|_)(?:` + anyOf(keyWords) + `)[ _-]key)\b["'\\)\]*]*`)
	// owner is whose secret it is, before the verb.
	owner = lazyregexp.New(`^\s+(?:of|for|to|used by|from)\s(?:\s*[^\s:]+){1,5}?(?:\s+(?:is|was)|:|\s+=)\s+`)
	// stated is what says that the next word is the secret.
	stated = lazyregexp.New(`^\s*(?:(?:is|was|now|set to|changed to|to be|as|:=?|=>?|->|→|\||,|\(|\[)\s*)*\s*`)
	// turned is a secret before what says that it is one.
	turned = lazyregexp.New(`(?i)\S+(\s+is (?:the|its|my|your) (?:passw(?:or)?d|passphrase|token|secret))`)
	// remarked is a secret, with a digit in it, before a remark that says so.
	remarked = lazyregexp.New(`(?i)(?:\S{5,}[0-9]\S*|\S*[0-9]\S{5,}|\S{3,}[0-9]\S{3,})` +
		`(\s+(?:#|//|\(|<-)\s*(?:[\w']+\s+){0,3}(?:passw(?:or)?d|passphrase|token|secret)\b)`)
)

// protocols are what is before a secret in SQL, FTP (RFC 959, 4.1.1), SMTP (RFC 4954, 4), JDBC, a
// shell, and in sentences about a user and a password.
var protocols = []lazyregexp.Regexp{
	lazyregexp.New(`(?i)\bidentified\s+(?:with\s+\S+\s+)?by\s+()`),
	lazyregexp.New(`(?m)(?:^|[<>:] )AUTH [\w.-]+ ()`), // Redis
	lazyregexp.New(`(?m)(?:^|[<>] )(?:PASS|AUTH(?: LOGIN| PLAIN)?) ()`),
	lazyregexp.New(`"AUTH\\*" (?:\\*"[^"]*" )?()\\*"`), // as MONITOR of Redis prints it
	lazyregexp.New(`(?i)\b(?:login|user|username)\s+[^\s/]+\s+/\s+()`),
	lazyregexp.New(`(?i)\blog(?:in|ging in)\s+(?:as\s+)?[\w.@-]+/()`),
	lazyregexp.New(`(?i)\buser(?:name)?\s+[^\s,]+,?\s+(?:and\s+)?pass\s+()`),
	lazyregexp.New(`(?i)\b(?:auth|creds|credentials|authenticat(?:ed|ing) (?:as|with)|` +
		`log(?:in|ging in) as)\s+(?:are |is |as )?[\w.@-]+[:/]()`),
	// LDAP, after a DN
	lazyregexp.New(`(?i)bind(?:ing)?\s+(?:as\s+)?\S+=\S+\s+with\s+(?:password\s+)?()`),
	// IOS, after a number for its hash
	lazyregexp.New(`(?i)\b(?:password|secret|key|ascii) (?:level [0-9]+ )?(?:[0-9]|sha512) ()`),
	lazyregexp.New(`(?i)\b(?:vnc|spice) ticket(?: is|:)? ()`),
	lazyregexp.New(`\bnetrc\b[^\n:]*:\s+()`),
	lazyregexp.New(`(?i)\breg(?:\.exe)? add [^\n]*\s/d\s+()`), // Windows
	lazyregexp.New(`(?i)\s/rp ()`),
	lazyregexp.New(`(?i)\b(?:otp|pin|secret) (?:is|was) ()`),
	lazyregexp.New(`(?i)\b(?:otp|verification|one-time)\s+code(?:\s+is|:)?\s+()`),
	lazyregexp.New(`(?i)\b(?:unseal key \d+:|totp seed|conda token set)\s+()`),
	lazyregexp.New(`(?i)\b(?:connect|expdp|impdp|target|logged in with|logged in as)\s+[\w.-]+/()`),
	lazyregexp.New(`(?:HTTPBasicAuth|\.auth|auth=)\(\\*["'][^"']*["'],\s*()`),
	lazyregexp.New(`(?m):\s+(?:EAP|XAUTH|PSK)\s+()\\*"`),
	lazyregexp.New(`(?i)\bjdbc:[^\s"']*:[\w-]+/()`),
	lazyregexp.New(`<<<\s*()`),
	lazyregexp.New(`(?i)\b(?:contrase\S{1,4}|mot de passe)\s*:\s*()`),
}

// prose are words that come after the name of a secret, where a sentence is about one.
var prose = strings.Fields(`a about again also an and any are as at authentication authenticator be
	because been before but by can cannot changed check claim controller could did does empty exists
	expired expires expiry failed failure fetch field file files flag for format from generated generation
	given had has have here i if in incorrect into invalid is issued issuer it its known length lifetime
	manager may mismatch missing must name needs new no none not null of on only option or parameter path
	permission prompt provided provider refresh rejected renewal request requested requests required
	reset review reviews secret sent server set should so source stored supplied that the their then this
	to too type unknown unset until use used user validation value variable volume was were when where which
	will with without wrong you your`)

// isProse reports whether a word goes on with a sentence.
func isProse(word string) bool {
	word = strings.ToLower(strings.TrimRight(word, ".,;:!?)"))
	return word == "" || slices.Contains(prose, word)
}

// removeSpoken removes the secrets that a sentence, a table or a line of a protocol names.
func removeSpoken(text string) string {
	text = turned.ReplaceAllString(text, Mark+"${1}")
	text = remarked.ReplaceAllString(text, Mark+"${1}")
	for _, form := range protocols {
		text = removeAfter(form, text, func(string, string) bool { return true })
	}

	var b strings.Builder
	at := 0
	for _, found := range spoken.FindAllStringIndex(text, -1) {
		if found[0] < at {
			continue // in what was removed
		}

		begin := found[1] + secretAfter(text[found[1]:])
		if begin == found[1] {
			continue
		}

		end := begin + argumentEnd(text[begin:])
		b.WriteString(text[at:begin] + Mark + lineEnds(text[begin:end]))
		at = end
	}

	b.WriteString(text[at:])
	return b.String()
}

// secretAfter returns where the secret begins in what comes after the word for one; 0 if none does.
func secretAfter(rest string) int {
	near := rest[:min(len(rest), 300)]
	begin := len(owner.FindString(near))
	if begin == 0 {
		begin = len(stated.FindString(near))
	}

	if begin == 0 {
		return 0
	}

	// A sentence about a secret goes on with a word of prose, a flag or a path. Only what is none
	// of these is taken for the secret.
	word := rest[begin:]
	word = word[:argumentEnd(word)]
	isAgain := spoken.FindString(word) == word // "root-password password VALUE"
	isOther := isAgain || strings.IndexAny(word, "-/") == 0 || strings.HasPrefix(word, Mark) ||
		isProse(strings.Trim(word, `\"'`))
	if isOther {
		return 0
	}

	return begin
}

// spokenHints are in every text in which removeSpoken finds something.
func spokenHints() []string {
	return slices.Concat(spokenWords, keyWords, []string{
		"secret", "otp ", "pin ", "login", "user", "auth", "cred", "identified", "pass", "jdbc:", "<<<",
		"contrase", "unseal", "bind", " key ", "password ", "ticket", "netrc", "reg add",
		"reg.exe add", "/rp ", "code", "seed", "connect", "expdp", "impdp", "target",
		"logged in", "logging in", " eap ", "xauth", "psk",
	})
}
