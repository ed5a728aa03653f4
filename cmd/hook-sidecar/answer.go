package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

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
func (a *app) hookMutator(sysfs string, lock []string, policy *policyFlags) (mutate.Mutator, io.Closer, error) {
	locked, err := lockedKeys(lock)
	if err != nil {
		return mutate.Mutator{}, nil, err
	}
	m, closer, err := a.mutator(sysfs, "", policy)
	m.AnnotationsFirst, m.Locked = true, locked
	return m, closer, err
}

// loggedMutate answers a call and logs one line for it, one for each device and
// one for each warning, with the field names of the report. The domain and the
// VMI are never logged: they hold passwords.
func loggedMutate(log *slog.Logger, m mutate.Mutator, req mutate.Request, protocol string) mutate.Result {
	start := time.Now()
	result := m.Mutate(req)
	elapsed := time.Since(start)
	if result.VMI != nil {
		log = log.With("vmi", result.VMI.String(), "uid", result.VMI.UID)
	}
	r := report.New(result.Plan, result.Changed(), result.Err)
	c := r.Count()
	attrs := []any{
		"protocol", protocol, "layout", r.Layout, "dryRun", r.DryRun,
		"placed", c.Placed, "kept", c.Kept, "unplaced", c.Unplaced, "added", c.Added,
		"changed", r.Changed, "ms", float64(elapsed.Microseconds()) / 1000,
	}
	if result.Err != nil {
		log.Error("domain left unchanged", append(attrs, "strict", result.Strict, "error", result.Err)...)
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
	return result
}
