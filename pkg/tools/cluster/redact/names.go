package redact

import (
	"slices"
	"strings"

	"hook-sidecar/pkg/words/lazyregexp"
)

// The names of secrets. Messages, objects, domains and logs are searched for these and no others.
// They are compared in lower case and without signs: "api-key", "API_KEY" and "apiKey" are one.
var (
	// secretParts are parts of names whose values are secrets, in any compound: PGPASSWORD,
	// hashedPasswd, client_secret.
	secretParts = strings.Fields(`passw passphrase passcode kennwort wachtwoord pwd secret token
		credential cookie signature keymaterial activationcode apikey accesskey accountkey
		encryptionkey licensekey licencekey masterkey
		privatekey sharedkey signingkey keyring keytab connectionstring connstr sessionid
		dockerconfigjson ignitiondata networkdata userdata`)

	// secretWords are last words of names whose values are secrets: db_pass, WPA-PSK.
	secretWords = strings.Fields(`authorization bearer creds jwt mnemonic otp pass passe pin preshared
		psk pw salt sas senha totp value`)

	// doubtfulWords are last words of names whose values are secrets or what a log cannot do
	// without: the key of a queue is "namespace/name".
	doubtfulWords = strings.Fields(`auth community encrypt hmac key seed session sid sig`)

	// secretEnds are ends of last words that have no sign before them: dbpass, wpapsk, tlskey.
	secretEnds   = strings.Fields(`pass psk`)
	doubtfulEnds = strings.Fields(`auth key`)
	otherEnds    = strings.Fields(`bypass compass trespass hotkey monkey turnkey`)

	// formWords are last words that say in which form a value is: client-key-data, pass_hash.
	formWords = strings.Fields(`b64 base64 code data hash hex pem plain plaintext raw string text`)

	// referenceWords are last words of names whose values say where a secret is, or what it is like.
	referenceWords = strings.Fields(`class dir file kind name path ref reference refs seconds type`)
)

// lists are names whose values are lists or maps of variables, arguments, headers or data, of any
// form, as YAML and kubectl describe print them, and the files and commands of cloud-init.
var lists = strings.Fields(`annotations args arguments binarydata bootcmd command commands content
	data early-commands env environment envvars error-commands headers httpheaders late-commands runcmd
	stringdata variables write_files`)

// variableName is a name that nothing but a variable has, headerName one of a header that no
// standard has.
var (
	variableName = lazyregexp.New(`^[A-Z][A-Z0-9]*_[A-Z0-9_]+$`)
	headerName   = lazyregexp.New(`^(?i:x-[\w-]+)$`)
)

// doubt says whether the value of a name is a secret.
type doubt int

const (
	unknown  doubt = iota // the name does not say
	doubtful              // it is, unless its form is public
	certain               // it is, whatever its form
)

// doubtOf returns what a name says about its value.
func doubtOf(name string) doubt {
	name, _, _ = strings.Cut(name, "[") // without an index
	if strings.Contains(name, "_") && variableName.MatchString(name) {
		return certain
	}

	if !nameHints.isIn(strings.ToLower(name)) { // before it is taken apart
		return unknown
	}

	words := wordsOf(name)
	joined := strings.Join(words, "")
	for len(words) > 1 && slices.Contains(formWords, words[len(words)-1]) {
		words = words[:len(words)-1]
	}

	if len(words) == 0 {
		return unknown
	}

	last := words[len(words)-1]
	single := strings.TrimSuffix(last, "s")
	isPart := func(part string) bool { return strings.Contains(joined, part) }
	isEnd := func(end string) bool {
		return strings.HasSuffix(last, end) || strings.HasSuffix(single, end)
	}

	// The order counts: passwordRef has no password, and compass ends as a secret does. Parts are
	// before ends, since an end alone says less.
	switch {
	case slices.Contains(referenceWords, last):
		return unknown
	case slices.ContainsFunc(secretParts, isPart), slices.Contains(secretWords, last),
		slices.Contains(secretWords, single) && single != "value" && single != "passe":
		return certain
	case slices.ContainsFunc(otherEnds, isEnd):
		return unknown
	case slices.ContainsFunc(secretEnds, isEnd):
		return certain
	case slices.Contains(doubtfulWords, single), slices.ContainsFunc(doubtfulEnds, isEnd),
		headerName.MatchString(name):
		return doubtful
	}

	return unknown
}

// wordsOf returns the words of a name in lower case. A sign ends a word, and so does a capital
// after a small letter.
func wordsOf(name string) (words []string) {
	begin := 0
	add := func(end int) {
		if end > begin {
			words = append(words, strings.ToLower(name[begin:end]))
		}
	}

	isSmall := func(at int) bool { return at < len(name) && name[at] >= 'a' && name[at] <= 'z' }
	for at := range len(name) {
		c := name[at]
		isCapital := c >= 'A' && c <= 'Z'
		switch {
		case strings.IndexByte("_-./$ ", c) >= 0:
			add(at)
			begin = at + 1

		// Of capitals in a row the last begins the next word if a small letter follows: APIKey is
		// api and key.
		case isCapital && at > begin && (isSmall(at-1) || isSmall(at+1)):
			add(at)
			begin = at
		}
	}

	add(len(name))
	return words
}
