package redact

import "strings"

// hints are in every text, in lower case, in which a rule finds something. Text says what of the
// others is not a secret; most of a log has none, and to match all rules takes far longer.
var hints = []string{
	"=", "#", "<", `"`, "'", "[", "{", `\`, "…",
	"passw", "passphrase", "passcode", "pwd", "secret", "token", "credential", "key", "cookie",
	"signature",
	"pass", "auth", "sig", "salt", "pin", "value", "x-",
	"-----begin", "eyj", "gho_", "ghp_", "ghr_", "ghs_", "ghu_", "github_pat_", "glpat-",
	"hf_", "nvapi-", "xox", "sk-", "akia", "asia", "@",
	"bearer", "basic", "ssh-", "ecdsa-", "data",
}

// isPlain reports whether a text has nothing that a rule may match.
func isPlain(text string) bool {
	lower := strings.ToLower(text)
	for _, hint := range hints {
		if strings.Contains(lower, hint) {
			return false
		}
	}

	return !strings.Contains(text, ":") || !hasVariable(text)
}

// hasVariable reports whether a text may have the name of a variable: an underscore after a capital
// or a digit.
func hasVariable(text string) bool {
	for at := 1; at < len(text); at++ {
		before := text[at-1]
		isName := before >= 'A' && before <= 'Z' || before >= '0' && before <= '9' || before == '_'
		if text[at] == '_' && isName {
			return true
		}
	}

	return false
}
