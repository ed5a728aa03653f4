package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"runtime/debug"
	"time"

	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/mutate"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/report"
)

// answerer is a Mutator as the servers know it, with the log of each call.
type answerer struct {
	log     *slog.Logger
	mutator mutate.Mutator
}

// Mutate answers one call of virt-launcher.
func (a answerer) Mutate(_ context.Context, call hooks.Call) ([]byte, error) {
	req := mutate.Request{Domain: call.Domain, Discarded: call.Migration}
	if len(call.VMI) > 0 {
		req.VMI = call.VMI
	}
	result := loggedMutate(a.log, a.mutator, req, call.Protocol)
	if tooLong := len(result.Domain) > hooks.MaxReply && len(req.Domain) <= hooks.MaxReply; tooLong {
		// virt-launcher would not receive it and the VM would not start.
		err := fmt.Errorf("the placed domain has %d bytes, virt-launcher receives %d", len(result.Domain), hooks.MaxReply)
		a.log.Error("domain left unchanged", "strict", result.Strict, "error", err)
		result.Domain, result.Err = req.Domain, err
	}
	if result.Err == nil || !result.Strict {
		return result.Domain, nil
	}
	var e *mutate.Error
	if errors.As(result.Err, &e) && e.Kind == mutate.Malformed {
		return nil, &hooks.MalformedError{Err: e}
	}
	return nil, &hooks.RefusedError{Err: result.Err}
}

// hookMutator is the Mutator of the servers and of onDefineDomain: variables of
// this process, and annotations before flags but for the locked keys.
//
// A host that cannot be opened is no error: the domain of a VM without devices
// needs none, and the hook must not be the reason why a VM does not start.
// Devices then have the reason no-sysfs.
func (a *app) hookMutator(log *slog.Logger, sysfs string, lock []string, policy *policyFlags) (mutate.Mutator, io.Closer, error) {
	locked, err := lockedKeys(lock)
	if err != nil {
		return mutate.Mutator{}, nil, err
	}
	m, err := a.withoutHost("", policy)
	if err != nil {
		return m, nil, err
	}
	m.AnnotationsFirst, m.Locked = true, locked
	host, closer, err := env.OpenSysfs(sysfs)
	if err != nil {
		log.Error("the host cannot be read, no device will be placed", "sysfs", sysfs, "error", err)
		host, closer = noHost{}, noHost{}
	}
	m.Sysfs = host
	return m, closer, nil
}

// noHost is the sysfs of a host that cannot be opened: nothing is there.
type noHost struct{}

// Open finds nothing.
func (noHost) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// Close does nothing.
func (noHost) Close() error { return nil }

// loggedMutate answers a call and logs it.
func loggedMutate(log *slog.Logger, m mutate.Mutator, req mutate.Request, protocol string) mutate.Result {
	start := time.Now()
	result := m.Mutate(req)
	logResult(log, result, protocol, time.Since(start))
	return result
}

// logResult logs one line for a call, one for each device and one for each
// warning, with the field names of the report. The domain and the VMI are never
// logged: they hold passwords. A panic here must not cost the VM its answer.
func logResult(log *slog.Logger, result mutate.Result, protocol string, elapsed time.Duration) {
	defer func() {
		if cause := recover(); cause != nil {
			log.Error("the log of this call is cut off by a panic", "stack", string(debug.Stack()))
		}
	}()
	if result.VMI != nil && result.VMI.Name != "" {
		log = log.With("vmi", result.VMI.String(), "uid", result.VMI.UID)
	}
	r := report.New(result.Plan, result.Changed(), result.Err)
	c := r.Count()
	attrs := []any{"protocol", protocol}
	if layout := result.Policy.Layout; layout != "" {
		attrs = append(attrs, "layout", layout, "dryRun", result.Policy.DryRun)
	}
	attrs = append(attrs,
		"placed", c.Placed, "kept", c.Kept, "unplaced", c.Unplaced, "added", c.Added,
		"changed", r.Changed, "ms", float64(elapsed.Microseconds())/1000)
	if result.Err != nil {
		attrs = append(attrs, "strict", result.Strict, "error", result.Err)
		var panicked *mutate.PanicError
		if errors.As(result.Err, &panicked) {
			attrs = append(attrs, "stack", string(panicked.Stack))
		}
		log.Error("domain left unchanged", attrs...)
	} else {
		log.Info("domain planned", attrs...)
	}
	for _, d := range r.Devices {
		level := slog.LevelInfo
		if d.Outcome == string(placement.Unplaced) {
			level = slog.LevelWarn
		}
		log.Log(context.Background(), level, "device",
			"id", d.ID, "alias", d.Alias, "kind", d.Kind, "resource", d.Resource, "added", d.Added,
			"hostNode", d.HostNode, "guestCell", d.GuestCell, "guestAddress", d.GuestAddress, "predicted", d.Predicted,
			"outcome", d.Outcome, "reason", d.Reason)
	}
	for _, w := range r.Warnings {
		log.Warn("warning", "code", w.Code, "device", w.Device, "text", w.Text, "remedy", w.Remedy)
	}
}
