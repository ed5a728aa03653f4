package redact

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/test/expect"
	"hook-sidecar/test/secrets"
)

var update = flag.Bool("update", false, "write the tables' entries to testdata/rules.txt")

// tables are the lists of the package, with a text in which an entry alone makes a secret of what
// secrets.Planted stands for. "%" stands for the entry.
var tables = []struct {
	name    string
	entries []string
	text    string
}{
	{"secretParts", secretParts, "my%1: " + secrets.Planted},
	{"secretWords", secretWords, "my_%: " + secrets.Planted},
	{"doubtfulWords", doubtfulWords, "my_%: " + secrets.Planted},
	{"secretEnds", secretEnds, "my%: " + secrets.Planted},
	{"doubtfulEnds", doubtfulEnds, "my%: " + secrets.Planted},
	{"formWords", formWords, "key_%: " + secrets.Planted},
	{"lists", lists, "%:\n  greeting " + secrets.Planted},
	{"tokenPrefixes", tokenPrefixes, "got %" + secrets.Planted},
	{"schemes", schemes, "got % " + secrets.Planted},
	{"spokenWords", spokenWords, "the my% is " + secrets.Planted},
	{"keyWords", keyWords, "the % key " + secrets.Planted},
	{"secretCommands", secretCommands, "run % a " + secrets.Planted},
	{"programs", programFlags(), "% " + secrets.Planted},
}

// programFlags returns each program with each of its flags.
func programFlags() (commands []string) {
	for _, p := range programs {
		for _, name := range strings.Fields(p.names) {
			for _, flag := range strings.Fields(p.flags) {
				commands = append(commands, strings.ReplaceAll(name, "*", "x")+" "+p.command+" -"+flag)
			}
		}
	}

	return commands
}

// TestRules: each entry of each table removes what it is for. The file has them, too, so that an
// entry that goes is missed.
func TestRules(t *testing.T) {
	var listed strings.Builder
	texts := map[string]string{}
	for _, table := range tables {
		texts[table.name] = table.text
		for _, entry := range table.entries {
			fmt.Fprintf(&listed, "%s: %s\n", table.name, entry)
		}
	}

	for name := range maps.Keys(fields) {
		listed.WriteString("fields: " + name + "\n")
	}

	for _, entry := range slices.Concat(secretElements, optionKeys) {
		listed.WriteString("domain: " + entry + "\n")
	}

	const file = "testdata/rules.txt"
	lines := slices.Sorted(strings.Lines(listed.String()))
	if *update {
		expect.NoError(t, os.WriteFile(file, []byte(strings.Join(lines, "")), 0o644))
	}

	want := string(expect.File(t, file))
	expect.Same(t, want, strings.Join(lines, ""), "the tables' entries (-want +got)")
	for line := range strings.Lines(want) {
		table, entry, _ := strings.Cut(strings.TrimSpace(line), ": ")
		got := ""
		switch table {
		case "fields":
			object := map[string]any{entry: secrets.Planted}
			Object(object)
			got = fmt.Sprint(object)

		case "domain":
			got, _ = Domain("<" + entry + ">" + secrets.Planted + "</" + entry + ">" +
				"<qemu:arg value='-object'/><qemu:arg value='" + entry + "=" + secrets.Planted + "'/>")
			if slices.Contains(secretElements, entry) {
				got, _, _ = strings.Cut(got, "<qemu:arg")
			} else {
				_, got, _ = strings.Cut(got, "<qemu:arg")
			}

		default:
			text := strings.ReplaceAll(texts[table], "%", entry)
			if got = Text(text); isPlain(text) {
				t.Errorf("%s: %q is taken for plain", line, text)
			}
		}

		if strings.Contains(got, secrets.Planted) {
			t.Errorf("%s: %s", line, got)
		}
	}
}

// TestTaken counts what is removed of messages that have no secret: those of all causes of why. A
// report without what names the cause is of no use.
func TestTaken(t *testing.T) {
	const limit = 2 // per 1000 lines
	files, err := os.ReadDir("../why/testdata/causes")
	expect.NoError(t, err)
	all, taken := 0, []string(nil)
	for _, file := range files {
		for line := range strings.Lines(string(expect.File(t, "../why/testdata/causes/"+file.Name()))) {
			all++
			safe := Text(line)
			if strings.Count(safe, Mark) > strings.Count(line, Mark) {
				taken = append(taken, line, safe)
			}
		}
	}

	if len(taken)/2*1000 > limit*all {
		t.Errorf("of %d lines too many have something removed:\n%s", all, strings.Join(taken, ""))
	}
}
