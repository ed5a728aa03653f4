package sidecar

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/test/expect"
	"hook-sidecar/testdata"
)

// breaksAt is a log handler that panics at one message.
type breaksAt struct {
	slog.Handler
	message string
}

func (h breaksAt) WithAttrs(attrs []slog.Attr) slog.Handler {
	return breaksAt{h.Handler.WithAttrs(attrs), h.message}
}

func (h breaksAt) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == h.message {
		panic(h.message)
	}
	return h.Handler.Handle(ctx, r)
}

// TestLogPanic checks that a panic while a call is logged does not change the
// answer.
func TestLogPanic(t *testing.T) {
	s := demo(t)
	want := answerTo(t, quiet(s.planner), s.request.Domain, s.request.VMI)
	if bytes.Equal(want, s.request.Domain) {
		t.Fatal("the sample is not placed")
	}

	var log bytes.Buffer
	broken := logging(s.planner, breaksAt{slog.NewJSONHandler(&log, nil), "device"})
	if got := answerTo(t, broken, s.request.Domain, s.request.VMI); !bytes.Equal(got, want) {
		t.Error("the answer differs when the log panics")
	}

	broken.Log.calls.Wait()

	for _, part := range []string{
		`"msg":"domain planned"`, `"msg":"a panic ended the log of this call","panic":"device"`,
		`sidecar_test.go`,
	} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("no %s in the log:\n%s", part, &log)
		}
	}
}

// TestAnswerTooLong checks a domain that virt-launcher could receive (4 MiB) and
// that grows larger when placed: it is returned unchanged, or refused by strict
// policy.
func TestAnswerTooLong(t *testing.T) {
	s := demo(t)
	free := hooks.MaxReply - len(s.request.Domain)
	long := append(bytes.Clone(s.request.Domain), "<!--"+strings.Repeat("x", free-len("<!---->"))+
		"-->"...)
	if len(long) != hooks.MaxReply {
		t.Fatalf("the domain has %d bytes, want %d", len(long), hooks.MaxReply)
	}

	a := quiet(s.planner)
	a.Planner.Limit = Limit()
	a.Planner.Limit.Bytes = 0
	if got := answerTo(t, a, long, s.request.VMI); !bytes.Equal(got, long) {
		t.Errorf("the answer has %d bytes, want the domain unchanged", len(got))
	}

	a.Planner.Flags = map[policy.Key]string{policy.KeyStrict: "true"}
	_, err := a.Mutate(t.Context(), hooks.Call{Domain: long, VMI: s.request.VMI})
	if status.Code(err) != codes.FailedPrecondition {
		t.Errorf("strict: error %v, want a refusal", err)
	}
}

// quiet answers without a log.
func quiet(m plan.Planner) Sidecar {
	return logging(m, slog.DiscardHandler)
}

func logging(m plan.Planner, log slog.Handler) Sidecar {
	return Sidecar{Planner: m, Log: &Log{Logger: slog.New(log)}}
}

// sample is a VM that is placed, and its host.
type sample struct {
	planner plan.Planner
	request plan.Request
}

func demo(t *testing.T) (s sample) {
	t.Helper()
	read := func(name string) []byte {
		data, err := testdata.Demo.ReadFile(name)
		expect.NoError(t, err)
		return data
	}

	sysfs, err := host.ParseSnapshot(read(testdata.DemoHost))
	expect.NoError(t, err)
	s.planner.Sysfs = sysfs
	s.request.Domain, s.request.VMI = read(testdata.DemoDomain), read(testdata.DemoVMI)
	return s
}

func answerTo(t *testing.T, a Sidecar, domain, vmi []byte) []byte {
	t.Helper()
	got, err := a.Mutate(t.Context(), hooks.Call{Domain: domain, VMI: vmi})
	expect.NoError(t, err)
	return got
}

// TestLogCutsNames: no name that a user chose makes a line of the log long.
func TestLogCutsNames(t *testing.T) {
	s := demo(t)
	long := strings.Repeat("é", 1000)
	s.request.VMI = bytes.Replace(s.request.VMI, []byte(`"uid": "`), []byte(`"uid": "`+long), 1)
	s.request.Domain = bytes.ReplaceAll(s.request.Domain, []byte("ua-gpu-"), []byte("ua-gpu-"+long))
	var log bytes.Buffer
	a := logging(s.planner, slog.NewJSONHandler(&log, nil))
	answerTo(t, a, s.request.Domain, s.request.VMI)
	a.Log.calls.Wait()
	if !strings.Contains(log.String(), strings.Repeat("é", 100)) {
		t.Errorf("the log has no long name:\n%.2000s", &log)
	}

	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, strings.Repeat("é", 127)) {
			t.Errorf("a name of more than %d bytes in %s", maxName, line)
		}
	}
}

// hangs is a log handler that waits.
type hangs struct {
	slog.Handler
	until chan struct{}
}

func (h hangs) Enabled(context.Context, slog.Level) bool {
	<-h.until
	return false
}

func (h hangs) WithAttrs([]slog.Attr) slog.Handler { return h }

// TestLogThatHangs: a call is answered though the log of the one before never ends, and the
// program ends after flushGrace.
func TestLogThatHangs(t *testing.T) {
	s := demo(t)
	synctest.Test(t, func(t *testing.T) {
		forever := make(chan struct{})
		a := logging(s.planner, hangs{slog.DiscardHandler, forever})
		for range 3 {
			if got, err := a.Mutate(t.Context(), hooks.Call{
				Domain: s.request.Domain, VMI: s.request.VMI,
			}); err != nil || bytes.Equal(got, s.request.Domain) {
				t.Errorf("the call changes nothing, error %v", err)
			}
		}

		written := newLogWriter(io.Discard)
		start := time.Now()
		written.close(&a.Log.calls)
		if took := time.Since(start); took != flushGrace {
			t.Errorf("the end of the log took %s, want %s", took, flushGrace)
		}

		close(forever)
		<-written.done
	})
}
