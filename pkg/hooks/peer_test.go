package hooks_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/hooks/hookstest"
	"hook-sidecar/test/expect"
)

func TestGraceEnds(t *testing.T) {
	mutator := newBlocker()
	log, written := record()
	server := hookstest.Start(t, hooks.Config{
		Mutator: mutator, Logger: log, Grace: 50 * time.Millisecond,
	})

	underway := callInBackground(t, server.HookSocket)
	<-mutator.called
	server.Stop()
	waitDone(t, server)
	if got := <-underway; status.Code(got.err) != codes.Unavailable {
		t.Errorf("the call that was cut off: %q, %v, want Unavailable", got.domain, got.err)
	}

	if !strings.Contains(written.String(), "cut off") {
		t.Errorf("the log does not say that a call was cut off:\n%s", written)
	}

	close(mutator.release)
}

// Before it stops, gRPC waits for the handshake of a connection, by default for
// 120 s.
func TestSilentPeerDoesNotDelayTheEnd(t *testing.T) {
	server := hookstest.Start(t, hooks.Config{
		Mutator: hookstest.Func(mark), Patience: 50 * time.Millisecond,
	})

	silent, err := net.Dial("unix", server.HookSocket)
	expect.NoError(t, err)
	defer silent.Close()

	// Connections are accepted in order: when this one is answered, gRPC has
	// accepted the silent one.
	if _, err := hookstest.Dial(t, server.HookSocket).Info(t.Context()); err != nil {
		t.Fatal(err)
	}

	server.Stop()
	waitDone(t, server)
}

func TestClientHangsUp(t *testing.T) {
	called, cancelled := make(chan struct{}), make(chan struct{})
	server := hookstest.Start(t,
		hooks.Config{Mutator: hookstest.Func(func(ctx context.Context, call hooks.Call) ([]byte,
			error) {
			if string(call.Domain) == "wait" {
				close(called)
				<-ctx.Done()
				close(cancelled)
				return nil, ctx.Err()
			}

			return call.Domain, nil
		})})

	client, err := hookstest.Connect(t.Context(), server.HookSocket)
	expect.NoError(t, err)
	ended := make(chan error, 1)
	go func() {
		_, err := client.OnDefineDomain(t.Context(), hooks.V1alpha3, []byte("wait"), nil)
		ended <- err
	}()

	<-called
	if err := client.Close(); err != nil {
		t.Error(err)
	}

	if got := status.Code(<-ended); got != codes.Canceled {
		t.Errorf("the interrupted call: %v, want Canceled", got)
	}

	<-cancelled // the mutator's context

	// This client disconnects in the middle of HTTP/2's preface.
	raw, err := net.Dial("unix", server.HookSocket)
	expect.NoError(t, err)
	if _, err := raw.Write([]byte("PRI * HTTP/2.0\r\n")); err != nil {
		t.Error(err)
	}

	if err := raw.Close(); err != nil {
		t.Error(err)
	}

	got, err := hookstest.Dial(t, server.HookSocket).OnDefineDomain(t.Context(), hooks.V1alpha3,
		[]byte("<domain/>"), nil)
	if err != nil || string(got) != "<domain/>" {
		t.Errorf("the next call: %q, %v", got, err)
	}
}
