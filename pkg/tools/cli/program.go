package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/words"
)

// Streams are standard input, output and error. Data goes to Out, messages go to Err.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Environ is an environment, as NAME=VALUE.
type Environ []string

// Variable returns the value of a variable, "" where it is not set.
func (e Environ) Variable(name string) string {
	for _, entry := range e {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// Program is a running program.
type Program struct {
	Streams
	Environ Environ
	Prefix  string // of its messages

	name   string
	isRead bool // standard input

	messages   sync.Mutex // on standard error
	inProgress bool       // whether its last line is one of progress
}

// The exit statuses of diff(1), and one more.
const (
	ExitDone    = 0
	ExitFound   = 1 // a change, a difference, a FAIL of doctor
	ExitFailed  = 2 // usage error, invalid input, failure
	ExitRefused = 3 // refused by strict policy
	ExitUnknown = 3 // of why: the VM does not run, and no cause is known
)

// refusal is an error that ends the program with ExitRefused.
type refusal struct{ error }

// Failed returns an error with a hint that ends the program with ExitFailed.
func Failed(hint string, err error) error { return reasons.WithHint(hint, err) }

// Refused returns an error with a hint that ends the program with ExitRefused.
func Refused(hint string, err error) error { return reasons.WithHint(hint, refusal{err}) }

// ErrFound ends the program with ExitFound, without a message.
var ErrFound = errors.New("something was found")

// ErrUnknown ends the program with ExitUnknown, without a message.
var ErrUnknown = errors.New("no cause is known")

// Found returns ErrFound where something was found.
func Found(found bool) error {
	if found {
		return ErrFound
	}
	return nil
}

// ExitStatus prints an error and its hint, and returns the exit status.
func (p *Program) ExitStatus(err error) int {
	switch {
	case err == nil:
		return ExitDone
	case errors.Is(err, ErrFound):
		return ExitFound
	case errors.Is(err, ErrUnknown):
		return ExitUnknown
	}

	p.Say("error: %v", err)
	if hint := reasons.HintOf(err); hint != "" {
		p.Say("hint: %s", hint)
	}

	if errors.As(err, new(refusal)) {
		return ExitRefused
	}

	return ExitFailed
}

// clearLine returns to the start of a terminal's line and clears it (ECMA-48, 8.3.41).
const clearLine = "\r\x1b[K"

// Say prints a line to standard error, which a terminal shows and does not obey: names in a VMI
// and a domain are untrusted. It replaces a line of progress. It is safe for concurrent use.
func (p *Program) Say(format string, args ...any) {
	p.messages.Lock()
	defer p.messages.Unlock()
	line := p.Prefix + words.Printable(fmt.Sprintf(format, args...))
	if p.inProgress {
		line, p.inProgress = clearLine+line, false
	}

	fmt.Fprintln(p.Err, line)
}

// Progress replaces the line of progress on a terminal. A longer text is cut: of two lines only the
// last would be replaced. It is safe for concurrent use.
func (p *Program) Progress(text string) {
	if !IsTerminal(p.Err) {
		return
	}

	const ellipsis = 1 // column
	text = words.Printable(text)
	if width := columns(p.Err.(*os.File), p.Environ); width > ellipsis && len(text) >= width {
		text = words.AbridgeTo(text, width-1-ellipsis)
	}

	p.messages.Lock()
	defer p.messages.Unlock()
	fmt.Fprint(p.Err, clearLine+text)
	p.inProgress = text != ""
}

// waitTime is how long nobody asks what the program waits for.
const waitTime = 2 * time.Second

// Await says on a terminal what the program waits for, unless stop is called soon.
func (p *Program) Await(what string) (stop func() bool) {
	if !IsTerminal(p.Err) {
		return func() bool { return false }
	}
	return time.AfterFunc(waitTime, func() { p.Say("waiting for %s", what) }).Stop
}

// Warn prints warnings. Several of a kind share one hint.
func (p *Program) Warn(warnings []reasons.Finding) {
	for i, w := range warnings {
		p.Say("warning: %s: %s", w.Code, w.Text)
		last := i == len(warnings)-1 || warnings[i+1].Code != w.Code
		if last && w.Remedy != "" {
			p.Say("hint: %s", w.Remedy)
		}
	}
}

// Version returns the version that the build recorded: the tag or the commit.
func (p *Program) Version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return p.name + " " + info.Main.Version
	}
	return p.name + " unknown"
}
