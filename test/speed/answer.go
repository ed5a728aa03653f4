package speed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"hook-sidecar/pkg/hooks"
)

// Answer is everything that a call says.
type Answer struct {
	Domain  string   // "" where the call is refused
	Refused string   // why strict policy refuses it
	Log     []string // lines without what differs from call to call
}

// Twins ask a server that runs on, and a process that has just started.
type Twins struct {
	Server *Server
	Log    *Lines                         // of the server
	Fresh  func(args ...string) *exec.Cmd // the program under test
	Sysfs  string
}

// Ask asks both. The log of the server is complete when it has as many lines as
// that of the fresh process.
func (t *Twins) Ask(ctx context.Context, vm VM) (running, fresh Answer, err error) {
	group, asking := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		running.Domain, running.Refused, err = t.askServer(asking, vm)
		return err
	})
	group.Go(func() (err error) {
		fresh, err = t.askFresh(asking, vm)
		return err
	})
	if err := group.Wait(); err != nil {
		return running, fresh, err
	}
	err = t.Log.wait(ctx, len(fresh.Log))
	running.Log = t.Log.take()
	return running, fresh, err
}

// askServer calls the server as virt-launcher does.
func (t *Twins) askServer(ctx context.Context, vm VM) (domain, refused string, err error) {
	client, err := hooks.Dial(ctx, t.Server.Socket)
	if err != nil {
		return "", "", err
	}
	reply, err := client.OnDefineDomain(ctx, hooks.V1alpha3, vm.Domain, vm.VMI)
	if status.Code(err) == codes.FailedPrecondition {
		_, refused, _ = strings.Cut(err.Error(), "desc = ")
		err = nil
	}
	return string(reply), refused, errors.Join(err, client.Close())
}

// askFresh runs the program as sidecar-shim does. Why it refuses a call is in its log.
func (t *Twins) askFresh(ctx context.Context, vm VM) (a Answer, err error) {
	var out bytes.Buffer
	log := NewLines()
	command := t.Fresh("onDefineDomain", "--sysfs", t.Sysfs, "--vmi", string(vm.VMI), "--domain", string(vm.Domain))
	command.Stdout, command.Stderr = &out, log
	if err := command.Start(); err != nil {
		return a, err
	}
	stop := context.AfterFunc(ctx, func() { command.Process.Kill() })
	defer stop()
	waitErr := command.Wait()
	a.Domain, a.Log = out.String(), log.take()
	var exit *exec.ExitError
	if errors.As(waitErr, &exit) && a.Domain == "" && len(a.Log) > 0 {
		var first struct{ Error string }
		waitErr = json.Unmarshal([]byte(a.Log[0]), &first)
		a.Refused = first.Error
	}
	return a, waitErr
}

// Lines are the lines of a log that say what came out of a call, without what
// differs from call to call.
type Lines struct {
	mu      sync.Mutex
	part    []byte // of a line
	lines   []string
	arrived chan struct{} // full when there are new lines
}

// NewLines are no lines yet.
func NewLines() *Lines { return &Lines{arrived: make(chan struct{}, 1)} }

// Write takes a piece of a log.
func (l *Lines) Write(piece []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.part = append(l.part, piece...)
	for {
		line, rest, whole := bytes.Cut(l.part, []byte("\n"))
		if !whole {
			break
		}
		if text := outcome(line); text != "" {
			l.lines = append(l.lines, text)
		}
		l.part = rest
	}
	select {
	case l.arrived <- struct{}{}:
	default:
	}
	return len(piece), nil
}

// outcome is a line of the log as far as it depends on the call and the host alone;
// "" for a line about the server.
func outcome(line []byte) string {
	fields := map[string]any{}
	if err := json.Unmarshal(line, &fields); err != nil {
		return "" // an error and a hint for a person
	}
	about := []any{"domain planned", "domain left unchanged", "device", "warning"}
	if !slices.Contains(about, fields["msg"]) && fields["level"] != "ERROR" {
		return ""
	}
	for _, name := range []string{"time", "ms", "protocol"} {
		delete(fields, name)
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// wait waits until there are so many lines.
func (l *Lines) wait(ctx context.Context, count int) error {
	for {
		l.mu.Lock()
		have := len(l.lines)
		l.mu.Unlock()
		if have >= count {
			return nil
		}
		select {
		case <-l.arrived:
		case <-ctx.Done():
			return fmt.Errorf("the server has logged %d lines, want %d: %w", have, count, ctx.Err())
		}
	}
}

// take removes and returns the lines.
func (l *Lines) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.lines
	l.lines = nil
	return lines
}
