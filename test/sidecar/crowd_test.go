//go:build linux

package sidecar

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"hook-sidecar/pkg/hooks"
)

// promptly is how soon virt-launcher's call is answered whatever others do: it is
// less than the minute that virt-launcher waits.
const promptly = 40 * time.Second

// peer speaks HTTP/2 by hand, so that it can stop anywhere.
type peer struct {
	net.Conn
	framer *http2.Framer
	stream uint32
	window [2]int // for what is sent: of the connection and of the stream
}

// connectPeer connects and offers a window for what it is sent. Errors of a peer are
// of no interest: the program may close its connection at any time.
func connectPeer(socket string, window uint32) *peer {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return nil
	}
	p := &peer{Conn: conn, framer: http2.NewFramer(conn, conn), window: [2]int{65535, 65535}}
	conn.Write([]byte(http2.ClientPreface))
	p.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window})
	return p
}

// begin begins a call that announces a message and sends a part of it.
func (p *peer) begin(method string, length uint32, body []byte) {
	p.stream += 2
	stream := p.stream - 1
	var headers writer
	encoder := hpack.NewEncoder(&headers)
	for _, field := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", "localhost"},
		{"content-type", "application/grpc"}, {"te", "trailers"},
	} {
		encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
	}
	p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: headers, EndHeaders: true})
	p.framer.WriteData(stream, false, binary.BigEndian.AppendUint32([]byte{0}, length))
	p.window[0] -= 5
	p.window[1] -= 5
	for len(body) > 0 {
		part := min(len(body), 16<<10, p.window[0], p.window[1])
		if part > 0 && p.framer.WriteData(stream, false, body[:part]) != nil {
			return
		}
		body = body[max(0, part):]
		p.window[0] -= max(0, part)
		p.window[1] -= max(0, part)
		if len(body) > 0 && part < 16<<10 && !p.wait() {
			return
		}
	}
}

// wait waits for a window, and reports whether the call goes on.
func (p *peer) wait() bool {
	frame, err := p.framer.ReadFrame()
	switch frame := frame.(type) {
	case *http2.WindowUpdateFrame:
		p.window[min(frame.StreamID, 1)] += int(frame.Increment)
	case *http2.RSTStreamFrame, *http2.GoAwayFrame:
		return false
	}
	return err == nil
}

// during acts, and reads until the program ends the call or the connection. Then it
// hangs up.
func (p *peer) during(ctx context.Context, act func(*peer)) {
	defer p.Close()
	defer context.AfterFunc(ctx, func() { p.Close() })()
	act(p)
	for p.wait() {
	}
}

type writer []byte

func (w *writer) Write(data []byte) (int, error) {
	*w = append(*w, data...)
	return len(data), nil
}

const (
	onDefineDomain = "/kubevirt.hooks.v1alpha3.Callbacks/OnDefineDomain"
	infoMethod     = "/kubevirt.hooks.info.Info/Info"
)

// TestCrowd: whatever many clients do, an honest one is answered promptly, and the
// program stays within its memory. A large request takes some ten seconds, and is
// tried where others have large ones.
func TestCrowd(t *testing.T) {
	part := make([]byte, 60<<10)
	whole := append(binary.AppendUvarint([]byte{1<<3 | 2}, 3<<20), make([]byte, 3<<20)...)
	for _, tt := range []struct {
		name  string
		peers int
		large bool // the honest request too
		act   func(p *peer)
	}{
		{"connect and say nothing", 1000, false, func(*peer) {}},
		{"stall in a small request", 1000, false, func(p *peer) { p.begin(onDefineDomain, 100<<10, part) }},
		{"stall in a large request", 1000, true, func(p *peer) { p.begin(onDefineDomain, 7<<20, part) }},
		{"stall in a thousand requests", 20, false, func(p *peer) {
			for range 50 { // more than the program allows
				p.window = [2]int{65535, 65535}
				p.begin(onDefineDomain, 7<<20, part)
			}
		}},
		{"send a large Info and stall", 100, false, func(p *peer) { p.begin(infoMethod, 7<<20, whole) }},
		{"take no reply", 100, true, func(p *peer) { p.begin(onDefineDomain, uint32(len(whole)), whole) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, domain := sidecarWith(t, 16)
			s.dial(t)
			ctx, cancel := context.WithCancel(t.Context())
			var crowd sync.WaitGroup
			var begun atomic.Int64
			for range 20 { // at once; each again and again
				crowd.Go(func() {
					for ctx.Err() == nil {
						if p := connectPeer(s.socket, 0); p != nil {
							begun.Add(1)
							p.during(ctx, tt.act)
						}
					}
				})
			}
			var idle []*peer
			for range tt.peers {
				if p := connectPeer(s.socket, 0); p != nil {
					crowd.Go(func() { tt.act(p) })
					idle = append(idle, p)
				}
			}
			s.honest(t, domain)
			if tt.large {
				s.honest(t, filled(39<<20/10, "<!--", " ", "-->"))
			}
			cancel()
			for _, p := range idle {
				p.Close()
			}
			crowd.Wait()
			peak := s.peakMiB(t)
			t.Logf("%d begun, peak %.1f MiB", begun.Load(), peak)
			if peak > 61 {
				t.Errorf("peak of %.1f MiB, more than a sidecar's memory", peak)
			}
		})
	}
}

// honest calls as virt-launcher does.
func (s *container) honest(t *testing.T, domain []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), promptly)
	defer cancel()
	begin := time.Now()
	client, err := hooks.Dial(ctx, s.socket)
	for err != nil && ctx.Err() == nil { // virt-launcher tries again too
		client, err = hooks.Dial(ctx, s.socket)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Info(ctx); err != nil {
		t.Fatalf("Info: %v", err)
	}
	if got, err := client.OnDefineDomain(ctx, hooks.V1alpha3, domain, vmi(30<<10)); err != nil || len(got) < len(domain) {
		t.Fatalf("%d bytes, %v after %v", len(got), err, time.Since(begin))
	}
	t.Logf("%d bytes answered after %v", len(domain), time.Since(begin))
}
