package main

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/report"
)

// answerer answers calls and logs each.
type answerer struct {
	mutator plan.Planner
	log     logFunc
	last    *lastCall
}

// lastCall is what is left to do of the last call.
type lastCall struct {
	mu     sync.Mutex
	begin  func()          // begins to log it, unless that was begun; nil without a call
	logged <-chan struct{} // closed when it is logged
}

// logPatience is how long a call waits for the log of the one before it, which takes
// milliseconds: a read of sysfs can hang in a driver.
const logPatience = time.Second

// finish returns when the last call is logged, or the patience is over.
func (l *lastCall) finish() {
	if l.begin == nil {
		return
	}
	l.begin()
	select {
	case <-l.logged:
	case <-time.After(logPatience):
	}
}

// logFunc logs a call after its answer, which took so long.
type logFunc func(protocol string, answer plan.Result, took time.Duration)

func newAnswerer(m plan.Planner, log logFunc) answerer {
	return answerer{mutator: m, log: log, last: &lastCall{}}
}

// answer returns the answer to a call, and what logs it.
func (a answerer) answer(protocol string, req plan.Request) (result plan.Result, log func()) {
	start := time.Now()
	result = a.mutator.Answer(req)
	took := time.Since(start)
	return result, func() { a.log(protocol, result, took) }
}

// Mutate answers a call of virt-launcher. It implements hooks.Mutator. The call is
// logged when its reply is written, because what only the log says takes as long to
// find out as the answer. The next call waits for that.
func (a answerer) Mutate(ctx context.Context, call hooks.Call) ([]byte, error) {
	a.last.mu.Lock()
	defer a.last.mu.Unlock()
	a.last.finish()
	result, log := a.answer(call.Protocol, plan.Request{
		Domain: call.Domain, VMI: call.VMI, Discarded: call.Migration, CloudInitSkipped: a.noReader(call.Protocol),
	})
	logged := make(chan struct{})
	a.last.logged = logged
	a.last.begin = sync.OnceFunc(func() {
		go func() {
			log()
			runtime.GC() // so that it does not interrupt the next call
			close(logged)
		}()
	})
	hooks.AfterReply(ctx, a.last.begin)
	if result.Err == nil || !result.Strict {
		return result.Domain, nil
	}
	var e *plan.Error
	if errors.As(result.Err, &e) && e.Kind == plan.Malformed {
		return nil, &hooks.MalformedError{Err: e}
	}
	return nil, &hooks.RefusedError{Err: result.Err}
}

// rehearse answers and logs the demo's call, which nobody sees, so that the first
// call of a VM need not wait for what is made when it is first used: pages of the
// program, encoders, memory. With a sidecar's share of a CPU that takes long.
func (a answerer) rehearse() {
	if s, err := newSample(a.mutator.Source); err == nil {
		logTo(slog.New(slog.NewJSONHandler(io.Discard, nil)), s.mutator)("", s.mutator.Answer(s.request), 0)
	}
	runtime.GC()
}

// wait waits for the log of the last call.
func (a answerer) wait() {
	a.last.mu.Lock()
	defer a.last.mu.Unlock()
	a.last.finish()
}

// hookAnswerer returns the answerer of serve and onDefineDomain: it takes the
// environment variables of this process, and annotations override flags unless
// their keys are locked.
//
// A host that cannot be opened is not an error, because a VM without devices
// does not need one, and the hook must not be the reason why a VM does not
// start. Devices then have the reason no-sysfs.
func (a *app) hookAnswerer(log *slog.Logger, sysfs string, lock []string, policy *policyFlags) (answerer, error) {
	locked, err := lockedKeys(lock)
	if err != nil {
		return answerer{}, err
	}
	m, err := a.withoutHost("", policy)
	if err != nil {
		return answerer{}, err
	}
	m.AnnotationsFirst, m.Locked, m.PhysBits = true, locked, physBitsOf(sysfs)
	if m.Sysfs, err = a.openSysfs(sysfs); err != nil {
		log.Error("the host cannot be read, no device will be placed", "sysfs", sysfs, "error", err)
		m.Sysfs = embed.FS{} // without any file
	}
	return newAnswerer(m, logTo(log, m)), nil
}

// logTo returns a function that logs one line per call, device and warning,
// with the field names of the report. It never logs the domain and the VMI,
// because they hold passwords. It catches its panics: the VM needs the answer.
func logTo(log *slog.Logger, m plan.Planner) logFunc {
	return func(protocol string, answer plan.Result, took time.Duration) {
		defer func() {
			if cause := recover(); cause != nil {
				log.Error("a panic ended the log of this call", "stack", string(debug.Stack()))
			}
		}()
		result, log := m.Diagnose(answer), log
		if result.VMI != nil && result.VMI.Name != "" {
			log = log.With("vmi", result.VMI.String(), "uid", result.VMI.UID)
		}
		r := report.New(result.Plan, result.Changed(), result.Err)
		logCall(log, protocol, result, r, took)
		for _, d := range r.Devices {
			level := slog.LevelInfo
			if d.Outcome == placement.Unplaced {
				level = slog.LevelWarn
			}
			log.Log(context.Background(), level, "device",
				"id", d.ID, "alias", d.Alias, "kind", d.Kind, "resource", d.Resource, "added", d.Added,
				"hostNode", d.HostNode, "guestCell", d.GuestCell, "guestAddress", d.GuestAddress, "predicted", d.Predicted,
				"outcome", d.Outcome, "reason", d.Reason)
		}
		for _, e := range r.Extras {
			log.Info("extra", "key", e.Key, "text", e.Text)
		}
		var last reasons.Code // warnings are in the order of their codes
		for _, w := range r.Warnings {
			attrs := []any{"code", w.Code, "device", w.Device, "text", w.Text}
			if w.Code != last {
				attrs = append(attrs, "remedy", w.Remedy)
			}
			log.Warn("warning", attrs...)
			last = w.Code
		}
	}
}

func logCall(log *slog.Logger, protocol string, result plan.Result, r report.Report, took time.Duration) {
	attrs := []any{"protocol", protocol}
	if result.Policy.Layout != "" {
		attrs = append(attrs, "layout", cmp.Or(r.Layout, result.Policy.Layout))
		if r.LayoutReason != nil {
			attrs = append(attrs, "layoutReason", *r.LayoutReason)
		}
		attrs = append(attrs, "dryRun", result.Policy.DryRun)
	}
	c := r.Count()
	attrs = append(attrs,
		"placed", c.Placed, "kept", c.Kept, "unplaced", c.Unplaced, "added", c.Added,
		"changed", r.Changed, "ms", float64(took.Microseconds())/1000)
	if result.Err == nil {
		log.Info("domain planned", attrs...)
		return
	}
	attrs = append(attrs, "strict", result.Strict, "error", result.Err)
	var panicked *plan.PanicError
	if errors.As(result.Err, &panicked) {
		attrs = append(attrs, "stack", string(panicked.Stack))
	}
	log.Error("domain left unchanged", attrs...)
}
