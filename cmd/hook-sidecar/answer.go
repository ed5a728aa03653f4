package main

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"hook-sidecar/pkg/cli"
	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/report"
	"hook-sidecar/pkg/words"
)

// onDefineDomainName is the program that KubeVirt's sidecar-shim looks for in
// $PATH (KubeVirt cmd/sidecars/sidecar_shim.go).
const onDefineDomainName = "onDefineDomain"

// answerer answers calls and logs each.
type answerer struct {
	planner plan.Planner
	log     *slog.Logger
	logs    *sync.WaitGroup // of calls that are not logged yet
}

// answer returns the answer to a call, and a function that logs it.
func (a answerer) answer(protocol string, req plan.Request) (result plan.Result, log func()) {
	start := time.Now()
	result = a.planner.Answer(req)
	took := time.Since(start)
	return result, func() { a.logAnswer(protocol, result, took) }
}

// Mutate answers a call of virt-launcher. It implements hooks.Mutator. The call is logged
// after its reply, because finding the warnings takes as long as the answer.
func (a answerer) Mutate(ctx context.Context, call hooks.Call) ([]byte, error) {
	result, log := a.answer(call.Protocol, plan.Request{
		Domain: call.Domain, VMI: call.VMI, Discarded: call.Migration,
		CloudInitSkipped: a.noReader(call.Protocol),
	})

	a.logs.Go(func() {
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

// hookAnswerer returns the answerer of serve and onDefineDomain, with the environment variables of
// this process. On an error of flags the answerer has the valid ones.
//
// A host that cannot be opened is not an error, because the hook must not keep a VM from
// starting. Its devices have the reason no-sysfs.
func hookAnswerer(
	p *cli.Program, log *slog.Logger, calls *sync.WaitGroup, sysfs string, flags *cli.PolicyFlags,
) (answerer, error) {
	m, invalid := withoutHost(p, "", flags)
	m.PhysBits = physBitsOf(sysfs)
	var err error
	if m.Sysfs, err = openSysfs(p, sysfs); err != nil {
		log.Error("the host cannot be read, no device will be placed", "sysfs", sysfs, "error", err)
		m.Sysfs = embed.FS{} // without any file
	}

	return answerer{planner: m, log: log, logs: calls}, invalid
}

// logAnswer logs one line per call, device and warning, with the field names of the report. It
// never logs the domain and the VMI, which hold passwords. It catches its panics: the VM needs
// the answer.
func (a answerer) logAnswer(protocol string, answer plan.Result, took time.Duration) {
	defer func() {
		if cause := recover(); cause != nil {
			a.log.Error("a panic ended the log of this call", "stack", string(debug.Stack()))
		}
	}()

	result := a.planner.Diagnose(answer)
	log := withVMI(a.log, result.VMI)
	r := report.New(result.Plan, result.Changed(), result.Err)
	logCall(log, protocol, result, r, took)

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

func logCall(
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
func (a answerer) announcesCloudInit() bool {
	return a.planner.Invalid == nil &&
		a.planner.Flags[policy.KeyNCCLTopology] == policy.NCCLTopologyCloudInit
}

// noReader returns the reason why a protocol has no call for cloud-init's data; "" if it
// has one.
func (a answerer) noReader(protocol string) string {
	switch {
	case protocol == hooks.Plugin:
		return "a structured plugin cannot change the VM's cloud-init data"
	case protocol == hooks.V1alpha1:
		return "version v1alpha1 of the hooks cannot change the VM's cloud-init data; v1alpha3 can"
	case protocol == onDefineDomainName:
		return "the hook does not change cloud-init data under KubeVirt's sidecar-shim"
	case !a.announcesCloudInit():
		return `the sidecar's args lack "--nccl-topology=cloudinit", and an annotation comes ` +
			`too late for cloud-init data`
	}

	return ""
}

// cloudInit answers a call of virt-launcher before it writes cloud-init's data, and logs
// it. User data holds passwords and is never logged.
func (a answerer) cloudInit(call hooks.CloudInitCall) []byte {
	result := a.planner.CloudInit(call.VMI, call.Data)
	log := withVMI(a.log.With("protocol", call.Protocol), result.VMI)
	if result.Err == nil {
		log.Info("cloud-init data planned", "changed", !bytes.Equal(result.Data, call.Data))
		return result.Data
	}

	log.Error("cloud-init data left unchanged", errorAttrs(result.Err)...)
	return result.Data
}
