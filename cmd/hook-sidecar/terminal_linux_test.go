package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"hook-sidecar/pkg/tools/cli"
	"hook-sidecar/test/expect"
)

// onTerminal runs the program on a terminal of Linux, with as many columns (man 7
// pty), and returns what it prints.
func onTerminal(t *testing.T, columns uint16, environ []string, args ...string) string {
	t.Helper()
	control, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}

	fd := int(control.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}

	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns})
	}

	expect.NoError(t, err)
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}

	printed := make(chan string)
	go func() {
		data, _ := io.ReadAll(control) // ends with EIO when the terminal is closed
		printed <- string(data)
	}()

	var messages bytes.Buffer
	code := run(t.Context(), append([]string{"hook-sidecar"}, args...), environ,
		cli.Streams{In: strings.NewReader(""), Out: terminal, Err: &messages})
	if err := terminal.Close(); err != nil {
		t.Error(err)
	}

	text := strings.ReplaceAll(<-printed, "\r\n", "\n")
	if err := control.Close(); err != nil {
		t.Error(err)
	}

	if code == cli.ExitFailed {
		t.Fatalf("%v: %s", args, &messages)
	}

	return text
}

var colour = regexp.MustCompile("\x1b\\[[0-9]*m")

// longestOf returns how many columns the longest line of a text takes.
func longestOf(text string) (longest int) {
	for line := range strings.Lines(colour.ReplaceAllString(text, "")) {
		longest = max(longest, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")))
	}
	return longest
}

// On a terminal, text is as wide as the terminal and has colours, also in doctor and
// in diffs.
func TestOnTerminal(t *testing.T) {
	inputs := []string{
		"--domain", "../../testdata/samples/02-8gpu-8nic-gate-off.xml", "--vmi",
		"../../testdata/samples/02-8gpu-8nic-gate-off.vmi.json",
		"--sysfs", "../../testdata/hosts/x86-2n8g-hgx-h100.txtar", "--layout", "numa",
	}

	utf8Locale := []string{"LANG=C.UTF-8"}
	for _, test := range []struct {
		columns uint16
		environ []string
		want    int
	}{
		{80, utf8Locale, 80},
		{120, utf8Locale, 120},
		{120, []string{"LANG=C.UTF-8", "COLUMNS=90"}, 90},
		{0, utf8Locale, 100},
	} {
		longest := longestOf(onTerminal(t, test.columns, test.environ,
			append([]string{"explain", "--details"}, inputs...)...))
		if longest > test.want || longest < test.want-5 {
			t.Errorf("%d columns, %v: the longest line has %d, want %d", test.columns, test.environ,
				longest, test.want)
		}
	}

	for _, args := range [][]string{
		append([]string{"doctor", "--socket-dir", "", "--cgroup", ""}, inputs...), {"demo"},
	} {
		if text := onTerminal(t, 80, utf8Locale, args...); longestOf(text) > 80 {
			t.Errorf("%v: a line of %d columns on 80:\n%s", args, longestOf(text), text)
		}
	}

	for want, command := range map[string][]string{
		"\x1b[33mWARN\x1b[0m layout-fit: ": {"doctor", "--socket-dir", "", "--cgroup", ""},
		"\n\x1b[32m+":                      {"mutate", "--diff"},
		"\n\x1b[31m-":                      {"mutate", "--diff"},
		"\x1b[36m@@ ":                      {"mutate", "--diff"},
	} {
		args := append(command, inputs...)
		if text := onTerminal(t, 80, utf8Locale, args...); !strings.Contains(text, want) {
			t.Errorf("%v: no %q in\n%s", command, want, text)
		}

		if text := onTerminal(t, 80, []string{"NO_COLOR=1"}, args...); strings.Contains(text,
			"\x1b") {
			t.Errorf("%v: NO_COLOR is ignored:\n%s", command, text)
		}
	}
}
