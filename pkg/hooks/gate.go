package hooks

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"hook-sidecar/pkg/hooks/api/info"
	"hook-sidecar/pkg/hooks/api/v1alpha3"
)

// gate passes calls on to gRPC so that memory is bounded and no client makes
// another one wait for long.
//
//   - One call is handled at a time, when all of its request has arrived.
//   - A connection sends one request at a time, tiny ones excepted.
//   - A call with a small request waits for no other client.
//   - One call with a large request is received and answered at a time. While others
//     wait, its client has a share of the patience, and all of it as long as it
//     keeps up.
//
// gRPC's own transport cannot do this: it buffers replies that a client does not
// take, and does not say how long a request will be before it has arrived.
type gate struct {
	most     int // bytes of the largest request
	patience time.Duration

	handling chan struct{} // full while a call is handled
	large    chan struct{} // full while a large call is received, handled and answered
	waiting  atomic.Int32  // large calls that wait for it
}

const (
	// smallMessage is the size of the largest small request. A domain with its VMI
	// has some 60 KiB with 16 devices.
	smallMessage = 128 << 10

	// tinyMessage is that of the largest tiny request, which Info's and Shutdown's are.
	tinyMessage = 4 << 10

	// prefixLength is the length of what gRPC sends before a message: a flag and the
	// message's length (gRPC over HTTP2, Length-Prefixed-Message).
	prefixLength = 5

	// shares is the number of ticks in the patience. A client keeps up that sends or
	// receives so many bytes per tick.
	shares  = 25
	keepsUp = 64 << 10
)

func newGate(most int, patience time.Duration) *gate {
	return &gate{most: most, patience: patience, handling: make(chan struct{}, 1), large: make(chan struct{}, 1)}
}

// around passes the calls of a socket on to its services.
func (g *gate) around(services http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		c := &call{gate: g, conn: connOf(ctx), request: r.Body, client: http.NewResponseController(w), closed: make(chan struct{})}
		defer c.end()
		c.conn.called.Store(true)
		c.setLimit(c.client.SetReadDeadline, time.Now().Add(g.patience))
		r = r.WithContext(context.WithValue(ctx, callKey{}, c))
		r.Body = c
		services.ServeHTTP(replyWriter{w, &c.moved}, r)
	})
}

// handle handles a received request, when it is its turn. Info and Shutdown do not
// wait, because virt-launcher gives Info one second (KubeVirt pkg/hooks/manager.go).
func (g *gate) handle(ctx context.Context, method string, request any, handler grpc.UnaryHandler) (any, error) {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		defer c.reply()
	}
	switch method {
	case info.Info_Info_FullMethodName, v1alpha3.Callbacks_Shutdown_FullMethodName:
		return handler(ctx, request)
	}
	select {
	case g.handling <- struct{}{}:
		defer func() { <-g.handling }()
		return handler(ctx, request)
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// call is a call while gRPC serves it, as the body of its request.
type call struct {
	gate    *gate
	conn    *conn
	request io.ReadCloser
	client  *http.ResponseController

	begun   bool
	arrived bool // all of the request
	sending bool // holds conn.sending
	held    bool // holds gate.large
	left    int  // bytes of the request that have not been read

	moved atomic.Int64 // bytes of the request and of the reply so far
	stop  func()       // ends the limit of a large call; nil without one

	closing sync.Once
	closed  chan struct{} // closed by Close

	ending sync.Mutex
	ended  bool
}

// callKey is the key of a context's *call.
type callKey struct{}

// Read reads one message and no more.
func (c *call) Read(data []byte) (int, error) {
	switch {
	case !c.begun:
		return c.begin(data)
	case c.left == 0:
		return 0, io.EOF
	}
	n, err := c.request.Read(data[:min(len(data), c.left)])
	c.moved.Add(int64(n))
	if c.left -= n; c.left == 0 {
		c.arrive()
	}
	return n, late(err)
}

// begin reads what is before the message, and lets a large one wait for its turn.
func (c *call) begin(data []byte) (int, error) {
	var prefix [prefixLength]byte
	if _, err := io.ReadFull(c.request, prefix[:]); err != nil {
		return 0, late(err)
	}
	c.begun = true
	length := binary.BigEndian.Uint32(prefix[1:])
	if length <= uint32(c.gate.most) { // gRPC refuses a larger one by its prefix
		c.left = int(length)
	}
	if c.left == 0 {
		c.arrive()
	}
	if c.left > tinyMessage {
		if err := c.wait(); err != nil {
			return 0, err
		}
	}
	return copy(data, prefix[:]), nil
}

// wait waits until the request may be received.
func (c *call) wait() error {
	c.setLimit(c.client.SetReadDeadline, time.Time{})
	if c.sending = c.take(c.conn.sending); !c.sending {
		return io.ErrUnexpectedEOF
	}
	if c.left <= smallMessage {
		c.setLimit(c.client.SetReadDeadline, time.Now().Add(c.gate.patience))
		return nil
	}
	c.gate.waiting.Add(1)
	defer c.gate.waiting.Add(-1)
	if c.held = c.take(c.gate.large); !c.held {
		return io.ErrUnexpectedEOF
	}
	c.conn.held.Store(true)
	c.share(c.client.SetReadDeadline)
	return nil
}

// take takes a turn, unless the call ends before.
func (c *call) take(turn chan struct{}) bool {
	select {
	case turn <- struct{}{}:
		return true
	case <-c.closed:
		return false
	}
}

// Close is called at the end of a call, and when its client has hung up.
func (c *call) Close() error {
	c.closing.Do(func() { close(c.closed) })
	return c.request.Close()
}

// arrive is called when all of the request has arrived.
func (c *call) arrive() {
	c.arrived = true
	c.conn.arrived.Add(1)
	c.stopSharing()
}

// reply is called before the client gets its reply. It may have hung up: then gRPC has
// ended the call while it was handled, and net/http's writer must not be used.
func (c *call) reply() {
	c.ending.Lock()
	defer c.ending.Unlock()
	if c.ended {
		return
	}
	if c.held {
		c.share(c.client.SetWriteDeadline)
	} else {
		c.setLimit(c.client.SetWriteDeadline, time.Now().Add(c.gate.patience))
	}
}

// end is called when gRPC has served the call.
func (c *call) end() {
	c.ending.Lock()
	defer c.ending.Unlock()
	c.ended = true
	c.stopSharing()
	if c.held {
		c.conn.held.Store(false)
		<-c.gate.large
	}
	if c.sending {
		<-c.conn.sending
	}
	if c.arrived {
		c.conn.arrived.Add(-1)
	}
	c.conn.endCall()
}

// setLimit ignores an error, which says that the call is over.
func (c *call) setLimit(set func(time.Time) error, deadline time.Time) { _ = set(deadline) }

// share cuts off a large call when its share of the patience is over. It counts
// ticks and not time, because a sidecar gets CPU time in slices: what it did not
// read meanwhile is not the client's fault.
func (c *call) share(limit func(time.Time) error) {
	end := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		tick := time.NewTicker(c.gate.patience / shares)
		defer tick.Stop()
		before := int64(0)
		for ticks := int32(1); ; ticks++ {
			select {
			case <-tick.C:
			case <-end:
				return
			}
			moved := c.moved.Load()
			over := ticks*(1+c.gate.waiting.Load()) >= shares && moved < before+keepsUp
			if over || ticks >= shares {
				c.setLimit(limit, time.Unix(0, 0))
				return
			}
			before = moved
		}
	})
	c.stop = func() {
		close(end)
		ended.Wait()
	}
}

func (c *call) stopSharing() {
	if c.stop != nil {
		c.stop()
		c.stop = nil
	}
}

// replyWriter counts the bytes of a reply that the client takes.
type replyWriter struct {
	http.ResponseWriter
	moved *atomic.Int64
}

func (w replyWriter) Write(data []byte) (written int, err error) {
	for part := range slices.Chunk(data, keepsUp) {
		n, err := w.ResponseWriter.Write(part)
		written += n
		w.moved.Add(int64(n))
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// Flush is what gRPC wants of a ResponseWriter.
func (w replyWriter) Flush() { w.ResponseWriter.(http.Flusher).Flush() }

// late makes gRPC cancel a call whose request did not arrive in time.
func late(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return http2.StreamError{Code: http2.ErrCodeCancel, Cause: errors.New("the request did not arrive in time")}
	}
	return err
}
