// Package sidecar answers the calls that come to a VM's pod: it limits what a call may take
// (limits.go), has package plan answer it, and logs it after its reply (log.go). Package hooks
// brings the calls. Whatever a call goes through is imported here, and none of the tools.
//
//	hooks: OnDefineDomain ──▶ reply ──▶ Sidecar.Mutate ──▶ Call ──▶ plan: Planner.Answer
package sidecar

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/report"
	"hook-sidecar/pkg/words"
)

// Shim is the name of the program that KubeVirt's sidecar-shim looks for in $PATH, and the protocol
// of its calls (KubeVirt cmd/sidecars/sidecar_shim.go).
const Shim = "onDefineDomain"

// Sidecar answers calls and logs each.
type Sidecar struct {
	Planner plan.Planner
	Log     *Log
}

// Serve answers virt-launcher's calls on the sockets of a configuration, until it ends or the
// context is done.
func (s Sidecar) Serve(ctx context.Context, config hooks.Config) error {
	s.Planner.Limit = Limit()
	config.Mutator, config.Logger = s, s.Log.Logger

	// A flag decides, because the VMI is unknown when virt-launcher calls Info.
	// Announced, the call affects all VMs (hooks.Config.CloudInit).
	if s.announcesCloudInit() {
		config.CloudInit = s.cloudInit
	}

	return hooks.New(config).Run(ctx)
}

// Mutate answers a call of virt-launcher. It implements hooks.Mutator. The call is logged
// after its reply, because finding the warnings takes as long as the answer.
func (s Sidecar) Mutate(ctx context.Context, call hooks.Call) ([]byte, error) {
	result, log := s.Call(call.Protocol, plan.Request{
		Domain: call.Domain, VMI: call.VMI, Discarded: call.Migration,
	})

	s.Log.calls.Go(func() {
		hooks.AwaitReply(ctx)
		log()

		// Without this the collector interrupts calls: one with 64 devices takes a fifth more. A
		// collector that runs more seldom instead exceeds the memory that test/sidecar allows.
		runtime.GC()
	})

	if result.Err == nil || !result.Strict {
		return result.Domain, nil
	}

	code := codes.FailedPrecondition
	if result.Kind == plan.Malformed {
		code = codes.InvalidArgument
	}

	return nil, status.Error(code, result.Err.Error())
}

// Call returns the answer to a call by a protocol, and a function that logs it.
func (s Sidecar) Call(protocol string, request plan.Request) (result plan.Result, log func()) {
	request.CloudInitSkipped = s.noReader(protocol)
	start := time.Now()
	result = s.Planner.Answer(request)
	took := time.Since(start)
	return result, func() { s.logCall(protocol, result, took) }
}

// logCall logs one line per call, device and warning, with the field names of the report. It
// never logs the domain and the VMI, which hold passwords. It catches its panics: the VM needs
// the answer.
func (s Sidecar) logCall(protocol string, answer plan.Result, took time.Duration) {
	defer func() {
		if cause := recover(); cause != nil {
			s.Log.Error("a panic ended the log of this call", "panic", words.OfPanic(cause), "stack",
				string(debug.Stack()))
		}
	}()

	result := s.Planner.Diagnose(answer)
	log := withVMI(s.Log.Logger, result.VMI)
	r := report.New(result.Plan, result.Changed(), result.Err)
	logPlan(log, protocol, result, r, took)

	for _, d := range r.Devices {
		level := slog.LevelInfo
		if d.Outcome == placement.Unplaced {
			level = slog.LevelWarn
		}

		log.Log(context.Background(), level, "device",
			"id", d.ID, "alias", cutOptional(d.Alias), "kind", d.Kind, "resource",
			cutOptional(d.Resource), "added", d.Added,
			"hostNode", d.HostNode, "guestCell", d.GuestCell, "guestAddress", d.GuestAddress,
			"predicted", d.Predicted,
			"outcome", d.Outcome, "reason", d.Reason)
	}

	for _, e := range r.Extras {
		log.Info("extra", "key", e.Key, "text", e.Text)
	}

	var last reasons.Code // warnings are in the order of their codes
	for _, w := range r.Warnings {
		attrs := []any{"code", w.Code, "device", w.Device, "text", w.Text}
		if w.Code != last {
			attrs = append(attrs, "remedy", w.Remedy, "page", w.Page)
		}

		log.Warn("warning", attrs...)
		last = w.Code
	}
}

// maxName is the size in bytes of the longest name of a Kubernetes object (RFC 1123).
const maxName = 253

// cutName returns the part of a name that is logged.
func cutName(name string) string { return words.AbridgeTo(name, maxName) }

// cutOptional cuts a device's name, which may be missing.
func cutOptional(name *string) *string {
	if name == nil {
		return nil
	}
	cut := cutName(*name)
	return &cut
}

// withVMI adds a VMI, if it has a name, to each line of a log.
func withVMI(log *slog.Logger, vmi *kubevirt.VMI) *slog.Logger {
	if vmi == nil || vmi.Name == "" {
		return log
	}
	return log.With("vmi", cutName(vmi.Namespace)+"/"+cutName(vmi.Name), "uid",
		cutName(string(vmi.UID)))
}

// logPlan logs the line about the whole call.
func logPlan(
	log *slog.Logger, protocol string, result plan.Result, r report.Report, took time.Duration,
) {
	attrs := []any{"protocol", protocol}
	if result.Policy.Layout != "" {
		attrs = append(attrs, "layout", cmp.Or(r.Layout, result.Policy.Layout))
		if r.LayoutReason != nil {
			attrs = append(attrs, "layoutReason", *r.LayoutReason)
		}
		attrs = append(attrs, "dryRun", result.Policy.DryRun)
	}

	if len(r.Headline) > 0 {
		attrs = append(attrs, "headline", strings.Join(r.Headline, "; "))
	}

	attrs = append(attrs,
		"placed", r.Count(placement.Placed), "kept", r.Count(placement.Kept), "unplaced",
		r.Count(placement.Unplaced), "added", r.Added(),
		"changed", r.Changed, "ms", float64(took.Microseconds())/1000)

	if result.Err == nil {
		log.Info("domain planned", attrs...)
		return
	}

	attrs = append(attrs, "strict", result.Strict)
	log.Error("domain left unchanged", append(attrs, errorAttrs(result.Err)...)...)
}

// errorAttrs returns an error for the log, with the stack of a panic.
func errorAttrs(err error) []any {
	attrs := []any{"error", err}
	if panicked := (*plan.PanicError)(nil); errors.As(err, &panicked) {
		attrs = append(attrs, "stack", string(panicked.Stack))
	}
	return attrs
}

// announcesCloudInit reports whether the hook requests the VM's cloud-init data.
func (s Sidecar) announcesCloudInit() bool {
	return s.Planner.Invalid == nil &&
		s.Planner.Flags[policy.KeyNCCLTopology] == policy.NCCLTopologyCloudInit
}

// noReader returns the reason why a protocol has no call for cloud-init's data; "" if it
// has one.
func (s Sidecar) noReader(protocol string) string {
	switch {
	case protocol == hooks.Plugin:
		return "a structured plugin cannot change the VM's cloud-init data"
	case protocol == hooks.V1alpha1:
		return "version v1alpha1 of the hooks cannot change the VM's cloud-init data; v1alpha3 can"
	case protocol == Shim:
		return "the hook does not change cloud-init data under KubeVirt's sidecar-shim"
	case !s.announcesCloudInit():
		return `the sidecar's args lack "--nccl-topology=cloudinit", and an annotation comes ` +
			`too late for cloud-init data`
	}

	return ""
}

// cloudInit answers a call of virt-launcher before it writes cloud-init's data, and logs
// it. User data holds passwords and is never logged.
func (s Sidecar) cloudInit(call hooks.CloudInitCall) []byte {
	result := s.Planner.CloudInit(call.VMI, call.Data)
	log := withVMI(s.Log.With("protocol", call.Protocol), result.VMI)
	if result.Err == nil {
		log.Info("cloud-init data planned", "changed", !bytes.Equal(result.Data, call.Data))
		return result.Data
	}

	log.Error("cloud-init data left unchanged", errorAttrs(result.Err)...)
	return result.Data
}
