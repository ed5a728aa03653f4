package redact

import (
	"strings"

	"hook-sidecar/pkg/words/lazyregexp"
)

// flagged is a flag whose value is the next word or the next item of a list: --token VALUE,
// "--token", "VALUE".
var flagged = lazyregexp.New(`(?:^|[\s"'\[(,;|=])--?([A-Za-z][\w.-]*)(?:\\*["'])?(?:,\s*|\s+)`)

// removeFlags removes the values of flags whose name says that they are secrets.
func removeFlags(text string) string {
	return removeAfter(flagged, text, isSecretOf)
}

// programs are programs of which a flag has a password, or a user with one, some only in a command
// of theirs. A "*" stands for more characters. Of their manual pages: curl(1), mysql(1), sshpass(1),
// docker-login(1), redis-cli(1), ldapsearch(1), ipmitool(1).
var programs = []struct{ names, command, flags string }{
	{"curl wget", "", "u U user proxy-user"},
	{"lftp", "", "u"},
	{"mysql* mariadb* sshpass mongo* 7z*", "", "p"},
	{"ncftpput racadm rdesktop redfishtool twine useradd usermod", "", "p"},
	{"az buildah crane docker helm nerdctl oc oras podman regctl skopeo", "login", "p"},
	{"http https redis-cli", "", "a"},
	{"kadmin* ldap*", "", "s w"},
	{"bcp ipmitool mosquitto_* sqlcmd unzip zip", "", "P"},
	{"beeline fence_*", "", "p"},
	{"consul", "", "encrypt"},
	{"doctl", "", "t"},
	{"manage-bde", "", "rp"},
	{"swaks", "", "ap"},
	{"swift", "", "K"},
	{"ssh-keygen", "", "N P"},
	{"rar unrar", "", "hp p"},
	{"SUSEConnect", "", "r"},
	{"rpcclient smbclient", "", "U"},
	{"tpm2 tpm2_*", "", "p P"},
	{"net", "join", "U"},
	{"nvme", "connect", "C S"},
	{"snmp*", "", "c A X"},
	{"openssl", "", "passin passout pass k K"},
	{"iscsiadm", "", "v"},
}

// secretCommands are commands of which all arguments are removed: where the password is, only their
// manual pages say.
var secretCommands = []string{
	"acl setuser", "ACL SETUSER", "add_user", "alias set", "authentication-key", "bindpw",
	"block_passwd", "cargo login", "change_password", "chpasswd", "com2sec", "com2sec6",
	"composer config", "config host add", "configure set", "ConvertTo-SecureString", "createUser",
	"htpasswd", "incominguser", "informsink", "isakmp key", "key-string", "lan set 1 snmp",
	"masterauth", "message-digest-key", "microk8s join", "mkpasswd", "net use", "net user",
	"openssl passwd", "operator unseal", "outgoinguser", "pro attach", "radius-server",
	"rclone obscure", "requirepass", "rocommunity", "rocommunity6", "rootpw", "rwcommunity",
	"rwcommunity6", "secret store", "secret-set-value", "set-user-password", "set_password",
	"slmgr /ipk", "SMCIPMITool", "snmp community", "snmp-server community", "snmp-server host",
	"snmp-server user", "sqlplus", "tacacs-server", "trap2sink", "trapcommunity", "trapsink",
	"user add", "user set password", "vault login", "vault token", "wandb login",
	"wpa_passphrase",
}

// commandForms match what is before the value of a flag of programs, in the rest of a command.
var commandForms = compilePrograms()

type commandForm struct{ command, flag lazyregexp.Regexp }

func compilePrograms() (forms []commandForm) {
	for _, p := range programs {
		var short, long []string
		for _, name := range strings.Fields(p.flags) {
			if len(name) == 1 {
				short = append(short, name)
				continue
			}
			long = append(long, name)
		}

		names := strings.ReplaceAll(anyOf(strings.Fields(p.names)), `\*`, `[\w-]*`)
		flags := `-\w*?[` + strings.Join(short, "") + `]` // also after others: -sSu
		if len(long) > 0 {
			flags = `--?(?:` + anyOf(long) + `)\b|` + flags
		}

		forms = append(forms, commandForm{
			command: lazyregexp.New(`(?:^|[\s"'/=:\[(;|&,` + "`" + `])(?:` + names +
				`)(?:\\*["'])?[\s,][^\n|;&]*` + p.command + `[^\n|;&]*`),
			flag: lazyregexp.New(`[\s"',\[](?:` + flags + `)(?:=|\\*["'],?\s*|\s+)?()`),
		})
	}

	return forms
}

var (
	// piped is what a shell writes to a command that reads a password.
	piped = lazyregexp.New(`(\b(?:echo|printf)\s+)[^|\n]+\|`)
	// traced is the same in a shell's trace (set -x), in which each command has a line: a single word
	// that is printed without a line's end.
	traced = lazyregexp.New(`(?m)((?:^|\s)\++ (?:echo -\w*n\w*|printf '?%s'?) )\S+$`)
	// withUser is a password after a user, in any command: -u USER -p PASSWORD, --user USER:PASSWORD.
	withUser = []lazyregexp.Regexp{
		lazyregexp.New(`[\s"',\[](?:-u|-U|--?user(?:name)?)(?:=|\\*["'],?\s*|\s+)?\S+\s+(?:-p|-P|-pw)` +
			`(?:=|\\*["'],?\s*|\s+)()`),
		lazyregexp.New(`[\s"',\[]--?user(?:name)?(?:=|\\*["'],?\s*|\s+)[A-Za-z][\w.@-]*:()`),
	}
	// beforeUser is a password that comes before its user, which a port does not: -p PASSWORD -u USER.
	beforeUser = lazyregexp.New(`((?:^|[\s"',\[])(?:-p|-P|-pw)\s+)` +
		`(?:"[^"\n]*"|'[^'\n]*'|[0-9]*[^\s0-9"'-]\S*)(\s+(?:-u|-U|--?user(?:name)?)[\s=])`)
	// secretCommand is a command that has one, with what is after it.
	secretCommand = lazyregexp.New(`(\b(?:` + anyOf(secretCommands) + `)\s+)[^\n|;&]+`)
)

// commandHints are in every text that has one of the commands.
func commandHints() []string {
	texts := append([]string{"echo", "printf", "-u", "-user"}, secretCommands...)
	for _, p := range programs {
		if p.command != "" {
			texts = append(texts, p.command)
			continue
		}
		texts = append(texts, strings.Fields(strings.ReplaceAll(p.names, "*", ""))...)
	}

	return texts
}

// removeArguments removes the passwords of commands.
func removeArguments(text string) string {
	text = piped.ReplaceAllString(text, "${1}"+Mark+" |")
	text = traced.ReplaceAllString(text, "${1}"+Mark)
	text = secretCommand.ReplaceAllString(text, "${1}"+Mark)
	text = beforeUser.ReplaceAllString(text, "${1}"+Mark+"${2}")
	for _, form := range withUser {
		text = removeAfter(form, text, func(string, string) bool { return true })
	}

	for _, form := range commandForms {
		text = form.command.ReplaceAllStringFunc(text, func(command string) string {
			return removeAfter(form.flag, command, func(string, string) bool { return true })
		})
	}

	return text
}

// removeAfter removes the word or the quoted text after each place where a form matches, if it is a
// value of the name that the form's group has.
func removeAfter(
	form lazyregexp.Regexp, text string, isValue func(name, value string) bool,
) string {
	var b strings.Builder
	at := 0
	for at < len(text) {
		found := form.FindStringSubmatchIndex(text[at:])
		if found == nil {
			break
		}

		name, begin := text[at+found[2]:at+found[3]], at+found[1]
		length := 0
		if isValue(name, text[begin:]) {
			length = argumentEnd(text[begin:])
		}

		value := text[begin : begin+length]
		isShell := strings.HasPrefix(value, "<<<") || strings.HasPrefix(value, "<(")
		isSecret := length > 0 && !strings.HasPrefix(value, "-") && !strings.HasPrefix(value, Mark) &&
			!isShell && !isProse(value)
		if !isSecret {
			next := max(begin-1, at+1) // the sign before the value may begin the next match
			b.WriteString(text[at:next])
			at = next
			continue
		}

		b.WriteString(text[at:begin] + Mark + lineEnds(value))
		at = begin + length
	}

	b.WriteString(text[at:])
	return b.String()
}

// argumentEnd returns the end of an argument: of the quoted text or what is in parentheses, else of
// the word.
func argumentEnd(text string) int {
	if end := max(quotedEnd(text), inParentheses(text)); end > 0 {
		return end
	}
	if end := strings.IndexAny(text, whitespace+"\"'`])}"); end >= 0 {
		return end
	}
	return len(text)
}
