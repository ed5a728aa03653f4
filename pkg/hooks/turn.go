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

// turns has one call at a time received, worked on and answered, on all sockets
// of a server. virt-launcher makes one at a time; many large ones at once would
// each need their memory, of which a sidecar has little.
//
// gRPC holds 64 KiB of a call whose turn has not come (streamWindow).
type turns struct {
	next     chan struct{} // holds the turn that is on
	patience time.Duration
}

// streamWindow is how much of a request, in bytes, gRPC takes before it is
// asked for it. Left to itself gRPC makes it grow to 16 MiB.
const streamWindow = 64 << 10

func newTurns(patience time.Duration) *turns {
	return &turns{next: make(chan struct{}, 1), patience: patience}
}

// turn is that of one call. A client has the patience to send its request, once
// its turn has come, and as long again to take the answer; then the call is
// ended, so that each keeps the others waiting for a bounded time.
type turn struct {
	turns *turns
	end   context.CancelFunc // ends the call

	held  bool
	timer *time.Timer
}

// turnKey is the key of a context's *turn.
type turnKey struct{}

// tap gives a new call its turn to wait for. It is the one place where a
// server can have a context of its own for what it receives and sends.
// Info and Shutdown have no turns, for virt-launcher gives Info one second
// (KubeVirt pkg/hooks/manager.go).
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

// HandleRPC is part of stats.Handler. gRPC reports the begin of a call before
// it receives the request, and waits meanwhile; it reports the end of every
// call that has begun.
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

// work handles a request that is there; however long that takes, the call is
// not ended for it.
func (t *turns) work(ctx context.Context, request any, handle grpc.UnaryHandler) (any, error) {
	turn := turnOf(ctx)
	if turn == nil {
		return handle(ctx, request)
	}
	if !turn.held || !turn.timer.Stop() {
		return nil, status.FromContextError(context.Canceled).Err() // the call has just ended
	}
	defer turn.timer.Reset(t.patience)
	return handle(ctx, request)
}

// take waits for the turn, or for the client to hang up.
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
