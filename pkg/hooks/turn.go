package hooks

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"hook-sidecar/pkg/hooks/api/info"
	"hook-sidecar/pkg/hooks/api/v1alpha3"
)

// turns makes all sockets of a server receive, handle and answer one call at a
// time. virt-launcher makes one at a time; many large ones at once would need more
// memory than a sidecar has. gRPC buffers 64 KiB of each waiting call.
type turns struct {
	next     chan struct{} // full while a call has the turn
	patience time.Duration
}

// streamWindow is the number of bytes of a request that gRPC buffers before the
// server reads it. By default gRPC lets it grow to 16 MiB.
const streamWindow = 64 << 10

func newTurns(patience time.Duration) *turns {
	return &turns{next: make(chan struct{}, 1), patience: patience}
}

// turn is the turn of one call. The client gets the patience to send its request
// and again to receive the reply. Then the call is canceled, so that no client
// blocks the others for long.
type turn struct {
	turns *turns
	end   context.CancelFunc // cancels the call

	held  bool
	timer *time.Timer
}

// turnKey is the key of a context's *turn.
type turnKey struct{}

// tap creates the turn of a new call. Only a tap can replace the context with
// which gRPC receives and sends. Info and Shutdown do not wait for a turn, because
// virt-launcher gives Info one second (KubeVirt pkg/hooks/manager.go).
func (t *turns) tap(ctx context.Context, call *tap.Info) (context.Context, error) {
	switch call.FullMethodName {
	case info.Info_Info_FullMethodName, v1alpha3.Callbacks_Shutdown_FullMethodName:
		return ctx, nil
	}
	ctx, end := context.WithCancel(ctx)
	return context.WithValue(ctx, turnKey{}, &turn{turns: t, end: end}), nil
}

func turnOf(ctx context.Context) *turn {
	t, _ := ctx.Value(turnKey{}).(*turn)
	return t
}

// HandleRPC is part of stats.Handler. gRPC reports the begin of a call before it
// receives the request, and blocks until HandleRPC returns. It reports the end of
// every call that has begun.
func (t *turns) HandleRPC(ctx context.Context, event stats.RPCStats) {
	turn := turnOf(ctx)
	if turn == nil {
		return
	}
	switch event.(type) {
	case *stats.Begin:
		turn.take(ctx)
	case *stats.End:
		turn.pass()
	}
}

// TagRPC, TagConn and HandleConn are part of stats.Handler.

func (t *turns) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (t *turns) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (t *turns) HandleConn(context.Context, stats.ConnStats)                       {}

// work handles a received request. The patience does not limit it.
func (t *turns) work(ctx context.Context, request any, handle grpc.UnaryHandler) (any, error) {
	turn := turnOf(ctx)
	if turn == nil {
		return handle(ctx, request)
	}
	if !turn.held || !turn.timer.Stop() {
		return nil, status.FromContextError(context.Canceled).Err() // just canceled
	}
	defer turn.timer.Reset(t.patience)
	return handle(ctx, request)
}

// take waits for the turn, or until the client hangs up.
func (t *turn) take(ctx context.Context) {
	select {
	case t.turns.next <- struct{}{}:
		t.held = true
		t.timer = time.AfterFunc(t.turns.patience, t.end)
	case <-ctx.Done():
	}
}

// pass ends the turn.
func (t *turn) pass() {
	t.end()
	if t.held {
		t.timer.Stop()
		<-t.turns.next
	}
}
