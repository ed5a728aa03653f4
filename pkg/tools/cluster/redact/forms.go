package redact

import (
	"strings"

	"hook-sidecar/pkg/words/lazyregexp"
)

// tokenPrefixes are how the tokens of an issuer begin, as it documents them. What comes after is
// eight characters or more.
var tokenPrefixes = strings.Fields(`
	AGE-SECRET-KEY- AIza AKCp AKIA ASIA ATATT3 ATBB ATCTT3 atlasv1. bkua_ CCIPAT_ CFPAT- dapi
	dckr_oat_ dckr_pat_ DHHC-1:00: DHHC-1:01: DHHC-1:02: DHHC-1:03: doo_v1_ dop_v1_ dp.pt. dp.st.
	figd_ fo1_ gho_ ghp_ ghr_ ghs_ ghu_ github_pat_ glc_ gldt- glft- glpat- glptt- glrt- glrtr-
	glsa_ GOCSPX- gsk_ hf_ hvb. hvr. hvs. KGAT_ lin_api_ lsv2_ LTAI nfp_ npm_ NRAK- ntn_ nvapi-
	NVMeTLSkey-1:01: NVMeTLSkey-1:02: ops_ PMAK- pplx- pscale_pw_ pscale_tkn_ pul- pypi- r8_
	rk_live_ rpa_ rubygems_ sbp_ SG. sgp_ sha256~ shpat_ shpss_ sk- sk_live_ sk_test_ sntrys_
	sq0atp- squ_ SWMTKN-1- tskey- vault:v1: wandb_v1_ whsec_ xai- xapp- xkeysib- xoxa- xoxb- xoxe-
	xoxo- xoxp- xoxr- xoxs- ya29.`)

// The lines around a private key: RFC 7468, OpenPGP's, SSH2's (RFC 4716), and OpenVPN's of a static
// key (openvpn(8), --genkey).
const (
	keyKind  = `[A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?|OpenVPN Static key V1`
	keyBegin = `-{4,5} ?BEGIN (?:` + keyKind + `) ?-{4,5}`
	keyEnd   = `-{4,5} ?END (?:` + keyKind + `) ?-{4,5}`
)

// schemes are those of the header Authorization (IANA, HTTP Authentication Scheme Registry).
var schemes = strings.Fields(`apikey basic bearer digest negotiate ntlm`)

// request matches the start of an HTTP request in a log, before the path: "GET ", "uri=".
const request = `\b(?-i:GET|HEAD|POST|PUT|PATCH|DELETE) |\b(?:uri|url)=\\*["']?`

// rule is a form of a secret that needs no name, and what is written in its place.
type rule struct {
	form  lazyregexp.Regexp
	with  string
	hints *hints // one of these is in a text, in lower case, that the form matches
}

// bare are the forms of secrets that need no name: private keys (RFC 7468; OpenPGP, RFC 9580),
// JSON Web Tokens (RFC 7519), tokens by their prefix, bootstrap tokens (Kubernetes
// staging/src/k8s.io/cluster-bootstrap/token/api), hashed passwords (crypt(5)), credentials of an
// address or a header (RFC 7235, 2.1), SSH keys, and names in an escaped URL.
var bare = []rule{
	{
		lazyregexp.New(`(?s)` + keyBegin + `.*?(?:` + keyEnd + `|$)`),
		Mark, newHints("---begin", "--- begin"),
	},
	{
		lazyregexp.New(`\beyJ[\w-]+(?:\.[\w-]*){0,4}`),
		Mark, newHints("eyj"),
	},
	{
		lazyregexp.New(`\b(ssh-[a-z0-9-]+|ecdsa-[a-z0-9-]+|sk-ssh-[\w@.-]+) +[A-Za-z0-9+/=]\S*`),
		"$1 " + Mark, newHints("ssh-", "ecdsa-"),
	},
	{
		lazyregexp.New(`(?:\b|_)(?:` + anyOf(tokenPrefixes) + `)[\w.~+/=-]{8,}`),
		Mark, newHints(tokenPrefixes...),
	},
	{
		lazyregexp.New(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`),
		Mark, newHints("token", "bootstrap", "kubeadm"),
	},
	{
		lazyregexp.New(`\$(?:1|2[abxy]?|5|6|7|y|gy|apr1|sha1|argon2\w+|pbkdf2[\w-]*|scrypt)\$[\w./$=,+-]+`),
		Mark, newHints("$"),
	},
	{ // of LDAP's userPassword (RFC 2307, 5.3), and of grub-mkpasswd-pbkdf2
		lazyregexp.New(`(\{(?:S?(?:MD5|SHA(?:256|384|512)?)|CRYPT|PBKDF2[\w-]*)\}|\bgrub\.pbkdf2\.\w+\.\d+\.)[\w./$=+-]{8,}`),
		"$1" + Mark, newHints("{", "grub.pbkdf2"),
	},
	{ // of k3s: the hash of the cluster's certificates, a user, and the secret
		lazyregexp.New(`\b(K10[0-9a-f]+::)[^\s"']+`),
		"$1" + Mark, newHints("k10"),
	},
	{ // also with an "@" in the password
		lazyregexp.New(`://(?:[^/\s"'<>]+|[^/\s@]+)@`),
		"://" + Mark + "@", newHints("@"),
	},
	{ // with a slash in the password, so not a port and an image's digest
		lazyregexp.New(`(://[^\s:/@"']+:)(?:[^\s"'0-9]|[0-9]+[^\s"'0-9/])[^\s"']*@`),
		"$1" + Mark + "@", newHints("@"),
	},
	{
		lazyregexp.New(`(^|[\s"'=,(/])[A-Za-z_][\w.+-]*:[^\s:@/"']+@((?:[A-Za-z][\w-]*|\d+\.\d+\.\d+\.\d+|\[[0-9a-f:.]+\])(?:[.:/][\w.:/-]*)?(?:$|[\s"'(),;]))`),
		"$1" + Mark + "@$2", newHints("@"),
	},
	{ // in the path of an address, or of a request
		lazyregexp.New(`(?i)((?:://|` + request + `)[^\s"']*/_?` +
			`(?:password|passwd|tokens?|apikey|api-key|access-key|secret)[/:])[^\s/?#"']+`),
		"$1" + Mark, newHints("://", "get /", "head /", "post /", "put /", "patch /", "delete /",
			"uri=", "url="),
	},
	{ // a link to a share, and a machine's address of MAAS
		lazyregexp.New(`((?:://[^\s/"']+|` + request + `)/(?:[^\s"']*/?by-key/|` +
			`(?:index\.php/)?(?:s|sh|share|shared|sharing|file/d)/)|://1drv\.ms/\w/)[^\s/?#"']{6,}`),
		"$1" + Mark, newHints("/s/", "/sh/", "/share", "/sharing/", "/file/d/", "1drv", "/by-key/"),
	},
	{
		lazyregexp.New(`(://hooks\.[\w.-]+/|://[^\s/"']+/(?:hooks|integration|:[a-z]:)/|://[^\s"']*/(?:webhooks/[0-9]+/|webhookb2/|IncomingWebhook/|bot[0-9]+:))[^\s"']+`),
		"$1" + Mark, newHints("://hooks.", "webhook", "/hooks/", "/integration/", "/:", "/bot"),
	},
	{ // of Oracle's pre-authenticated requests
		lazyregexp.New(`(://[^\s/"']+/p/)[^\s/"']+(/n/)`),
		"$1" + Mark + "$2", newHints("/p/"),
	},
	{ // a query that is no name with a value
		lazyregexp.New(`(/[^\s"'?]*\?)[\w.~+-]{8,}([\s"'\\]|$)`),
		"$1" + Mark + "$2", newHints("?"),
	},
	{ // a key after the address, which a heading of a page does not look like
		lazyregexp.New(`(://[^\s"'#]*#)(?:[A-Za-z]+[0-9]|[0-9]+[A-Za-z])[\w!~+-]{6,}([\s"'\\]|$)`),
		"$1" + Mark + "$2", newHints("#"),
	},
	{ // a user in an escaped address
		lazyregexp.New(`(?i)(%(?:25)*3A%(?:25)*2F%(?:25)*2F)[^\s"'&]*?(%(?:25)*40)`),
		"$1" + Mark + "$2", newHints("3a%"),
	},
	{
		lazyregexp.New(`\b(data:[\w/+.;=-]*;base64,)[\w+/=%-]+`),
		"$1" + Mark, newHints(";base64,"),
	},
	{ // a Secret as etcd has it
		lazyregexp.New(`(?s)(/registry/secrets/[^\s"'\x00-\x1f]+)[^\n]{0,80}?` +
			`(?:[\x00-\x08\x0e-\x1f]|\\u00[01]|\\x[01]).*`),
		"$1 " + Mark, newHints("/registry/secrets/"),
	},
	{ // PostgreSQL's .pgpass
		lazyregexp.New(`((?:^|[\s"'=])(?:[\w*./-]+|\[[0-9a-f:]+\]):(?:\*|\d?5432|5433|6432):` +
			`[\w*-]+:[A-Za-z_*][\w.-]*:)[^\s"'` + Mark + `]+`),
		"$1" + Mark, newHints(":*:", "5432:", "5433:", "6432:"),
	},
	{ // Postfix's sasl_passwd
		lazyregexp.New(`(\[[\w-]+\.[\w.-]+\]:(?:25|465|587|2525|smtps?|submissions?)\s+` +
			`[\w.@+-]+:)[^\s"']+`),
		"$1" + Mark, newHints("]:25", "]:465", "]:587", "]:s"),
	},
	{ // what expect(1) sends
		lazyregexp.New(`(\bexpect\s[^\n]*?\bsend\s+(?:--?\w*\s+)*\\*["'{])[^\n]+`),
		"$1" + Mark, newHints("expect"),
	},
	{ // keys of ip xfrm and ip macsec
		lazyregexp.New(`\b(?:0x[0-9a-fA-F]{32,}|(?:key [0-9]{2} )[0-9a-fA-F]{32,})`),
		Mark, newHints("0x", "key "),
	},
	{
		lazyregexp.New(`([\w.$-]+:\d+:[0-9a-f]{32}:)[0-9a-f]{32}:::`), // a dump of Windows' accounts
		"$1" + Mark + ":::", newHints(":::"),
	},
	{
		lazyregexp.New(`(://[^\s"']*[?&#]code=)[^\s&"']+`),
		"$1" + Mark, newHints("code="),
	},
	{
		lazyregexp.New(`((?:^|[\s"',])/p(?:ass|assword)?:)[^\s"',]+`),
		"$1" + Mark, newHints("/p"),
	},
	{
		lazyregexp.New(`(?s)\bPuTTY-User-Key-File-.*`),
		Mark, newHints("putty"),
	},
	{ // what a shell gives a command as a file
		lazyregexp.New(`(<\((?:echo|printf)\s+)[^\n)]+`),
		"$1" + Mark, newHints("<("),
	},
	{
		lazyregexp.New(`(\b(?:(?:PS|Network)Credential|simple_bind\w*)\()[^)\n]*`),
		"$1" + Mark, newHints("credential", "simple_bind"),
	},
	{
		lazyregexp.New(`(?i)\b(` + anyOf(schemes) + `) +[\w.~+/=-]{6,}`),
		"$1 " + Mark, newHints(schemes...),
	},
	{
		lazyregexp.New(`(?i)([\w.-]*(?:` + anyOf(secretParts) + `|pass|pin|sig|key)\w*(?:%22)?%(?:25)*3[ADad](?:%22|%20)*)[^\s"'&]+`),
		"$1" + Mark, newHints("3d", "3a"),
	},
}

// anyOf returns an expression that matches one of these.
func anyOf(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = lazyregexp.QuoteMeta(text)
	}
	return strings.Join(quoted, "|")
}

// The forms of values that are no secrets, unless the name says so: numbers with a unit, what is on
// or off, PCI addresses, SELinux contexts, and files of a node or a container.
const (
	number  = `[-+]?(?:0x[0-9a-fA-F]+|[0-9]+(?:\.[0-9]+)?(?:%|[KMGTPE]i?B?|[mun]?s|[mhd](?:\d+[ms])*|k|m|/[A-Z]+)?)`
	setting = `true|false|yes|no|on|off|none|null|nil|unknown|<nil>|<none>|enabled|disabled`
	pci     = `(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7](?:,(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])*`
	context = `\w+:(?:object_r|system_r|unconfined_r):[\w.]+:s0(?:[\w.,:-]*)`
	file    = `/(?:bin|boot|dev|etc|home|lib|lib64|mnt|opt|proc|root|run|sbin|sys|tmp|usr|var)(?:/[\w.+:@-]*)*`
)

// publicValue matches such a value at the beginning of a text. Another pair may follow a comma, no
// other text.
var publicValue = lazyregexp.New(`^\\*["']?(?:` +
	strings.Join([]string{number, setting, pci, context, file}, "|") +
	`)\\*["']?(?:$|[\s)\]};&|>]|[.:](?:\s|$|[\w-]+=)|,(?:$|\s|\\*["']?[\w./-]+\\*["']?\s*[=:]|[{}\]]))`)

// emptyValue matches no value, and a line that a table draws.
var emptyValue = lazyregexp.New(`^(?:\\*"\\*"|\\*'\\*'|=+)(?:$|[\s,:;)\]}])`)

// objectKey matches the key of an object or of a label: "namespace/name", "kubernetes.io/hostname".
var objectKey = lazyregexp.New(`^\\*["']?[a-z][a-z0-9.-]*/[\w.-]+\\*["']?(?:$|[\s,)\]};])`)

// bareHints are the hints of all forms that need no name.
func bareHints() (texts []string) {
	for _, b := range bare {
		texts = append(texts, b.hints.texts...)
	}
	return texts
}

// addressSecrets removes the secrets of what is a part of an address, from its path on.
func addressSecrets(path string) string {
	const host = "://host/"
	slash := strings.TrimLeft(path, "/")
	return path[:len(path)-len(slash)] + strings.TrimPrefix(bareSecrets(host+slash), host)
}

// comparison is a name in an expression, of CEL or of a program, that is compared with a value.
var comparison = lazyregexp.New(`([\w-]+)(?:\\*["'])?\]?[ \t]*[=!]==?[ \t]*`)

// removeCompared removes the values with which secrets are compared.
func removeCompared(text string) string { return removeAfter(comparison, text, isSecretOf) }

// bareSecrets removes the secrets that need no name.
func bareSecrets(text string) string {
	lower := strings.ToLower(text)
	for _, b := range bare {
		if !b.hints.isIn(lower) {
			continue
		}
		text = b.form.ReplaceAllStringFunc(text, func(found string) string {
			safe := b.form.ReplaceAllString(found, b.with)
			missing := strings.Count(found, "\n") - strings.Count(safe, "\n")
			return safe + strings.Repeat("\n", missing)
		})
	}

	return text
}
