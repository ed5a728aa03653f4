//go:build unix

package speed_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/hooks/hookstest"
	"hook-sidecar/test/speed"
)

// answer is everything that a call returns and logs.
type answer struct {
	Domain  string   // "" if the call is refused
	Refused string   // why strict refuses it
	Log     []string // lines without what differs from call to call
}

// twins are a server that runs on, and the command of a process that has just started.
type twins struct {
	server *speed.Server
	stderr *os.File // of the server
	log    *bufio.Reader
	fresh  func(args ...string) *exec.Cmd
	sysfs  string
}

// ask asks both, the server as virt-launcher does and the process as sidecar-shim does.
func (t *twins) ask(ctx context.Context, vm speed.VM) (running, fresh answer, err error) {
	running.Domain, running.Refused, err = t.askServer(ctx, vm)
	if err == nil {
		fresh, err = t.askFresh(ctx, vm)
	}

	if err == nil {
		running.Log, err = t.logged(ctx, len(fresh.Log))
	}

	return running, fresh, err
}

func (t *twins) askServer(ctx context.Context, vm speed.VM) (domain, refused string, err error) {
	client, err := hookstest.Connect(ctx, t.server.Socket)
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

// askFresh finds in the log why the process refuses a call.
func (t *twins) askFresh(ctx context.Context, vm speed.VM) (a answer, err error) {
	var out, log bytes.Buffer
	command := t.fresh("onDefineDomain", "--sysfs", t.sysfs, "--vmi", string(vm.VMI), "--domain",
		string(vm.Domain))
	command.Stdout, command.Stderr = &out, &log
	if err := command.Start(); err != nil {
		return a, err
	}

	stop := context.AfterFunc(ctx, func() { command.Process.Kill() })
	defer stop()
	err = command.Wait()
	a.Domain = out.String()
	for line := range bytes.Lines(log.Bytes()) {
		a.Log = appendOutcome(a.Log, line)
	}

	var exit *exec.ExitError
	if errors.As(err, &exit) && a.Domain == "" && len(a.Log) > 0 {
		var first struct{ Error string }
		err = json.Unmarshal([]byte(a.Log[0]), &first)
		a.Refused = first.Error
	}

	return a, err
}

// logged returns that many lines of the server's log, which come after its reply.
func (t *twins) logged(ctx context.Context, count int) (lines []string, err error) {
	until, _ := ctx.Deadline()
	if err := t.stderr.SetReadDeadline(until); err != nil {
		return nil, err
	}

	for len(lines) < count {
		line, err := t.log.ReadBytes('\n')
		if err != nil {
			return lines, err
		}
		lines = appendOutcome(lines, line)
	}

	return lines, nil
}

// appendOutcome appends a line of the log as far as it depends on the call and the host
// alone, and no line about the server.
func appendOutcome(lines []string, line []byte) []string {
	fields := map[string]any{}
	if err := json.Unmarshal(line, &fields); err != nil {
		return lines // an error and a hint for a person
	}

	about := []any{"domain planned", "domain left unchanged", "device", "warning"}
	if !slices.Contains(about, fields["msg"]) && fields["level"] != "ERROR" {
		return lines
	}

	for _, name := range []string{"time", "ms", "protocol"} {
		delete(fields, name)
	}

	text, err := json.Marshal(fields)
	if err != nil {
		return append(lines, err.Error())
	}

	return append(lines, string(text))
}
