//go:build linux

package sidecar

import (
	"bytes"
	"encoding/binary"
	"net"
	"slices"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/hooks/hookstest"
	"hook-sidecar/test/expect"
)

// TestInfoDuringCall measures Info, on a new connection as virt-launcher asks it, while
// the longest call runs, or three of them with WHOLE=1: with a whole CPU, and with a sidecar's
// share. virt-launcher panics after one second, which is the deadline of Client.Info; the goal is
// for an idle machine.
func TestInfoDuringCall(t *testing.T) {
	needRoot(t)
	const goal = 100 * time.Millisecond
	_, host := onDevices(4)
	dir := root(t, host)
	for name, groups := range map[string]func() []group{
		"one CPU":         func() []group { return []group{memoryGroup(t)} },
		"a sidecar's CPU": func() []group { return []group{memoryGroup(t), cpuGroup(t)} },
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, dir, groups())
			client, _ := s.dial(t)
			calls := longestCalls(t, client, expect.Count(1, 3))
			var took []time.Duration
			for {
				took = append(took, s.askInfo(t))
				select {
				case each := <-calls:
					slices.Sort(took)
					t.Logf("%d times Info: median %v, worst %v; the goal is %v; the calls took %v",
						len(took), took[len(took)/2], took[len(took)-1], goal, each)
					return
				default:
				}
			}
		})
	}
}

// longestCalls makes calls with as many elements, and as many annotations that
// lead to warnings, as are accepted. It sends at their end how long each took.
func longestCalls(t *testing.T, client *hookstest.Client, count int) <-chan []time.Duration {
	domain := around(devicesOf(4), fill("<x>", "<a/>", "</x>", 49_000, 2<<20-8<<10))
	vmi := annotated("hostdev.vm.kubevirt.io/", 19_999)
	ended := make(chan []time.Duration, 1)
	go func() {
		var took []time.Duration
		for range count {
			begin := time.Now()
			if got, err := client.OnDefineDomain(t.Context(), hooks.V1alpha3, domain,
				vmi); err != nil || bytes.Equal(got, domain) {
				t.Errorf("changed %t, %v", !bytes.Equal(got, domain), err)
			}

			took = append(took, time.Since(begin))
		}

		ended <- took
	}()

	return ended
}

// askInfo returns how long a new connection and the answer to Info took.
func (s *container) askInfo(t *testing.T) time.Duration {
	t.Helper()
	begin := time.Now()
	client, err := hookstest.Connect(t.Context(), s.socket)
	expect.NoError(t, err)
	if _, err := client.Info(t.Context()); err != nil {
		t.Errorf("Info: %v", err)
	}

	took := time.Since(begin)
	if err := client.Close(); err != nil {
		t.Error(err)
	}

	return took
}

// stall begins a call by hand, sends a part of its message and no more.
func stall(t *testing.T, socket string) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	expect.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	var headers bytes.Buffer
	encoder := hpack.NewEncoder(&headers)
	for _, field := range [][2]string{
		{":method", "POST"}, {":scheme", "http"},
		{":path", "/kubevirt.hooks.v1alpha3.Callbacks/OnDefineDomain"}, {":authority", "localhost"},
		{"content-type", "application/grpc"}, {"te", "trailers"},
	} {
		expect.NoError(t, encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}))
	}

	framer := http2.NewFramer(conn, conn)
	part := append(binary.BigEndian.AppendUint32([]byte{0}, 7<<20), make([]byte, 8<<10)...)
	if _, err = conn.Write([]byte(http2.ClientPreface)); err == nil {
		err = framer.WriteSettings()
	}

	if err == nil {
		err = framer.WriteHeaders(http2.HeadersFrameParam{
			StreamID: 1, BlockFragment: headers.Bytes(), EndHeaders: true,
		})
	}

	if err == nil {
		err = framer.WriteData(1, false, part)
	}

	expect.NoError(t, err)
	return conn
}

// TestStalledClients: clients that stall in a request delay no other, and are
// disconnected when they do not answer a ping either.
func TestStalledClients(t *testing.T) {
	t.Parallel()
	s, domain := sidecarWith(t, 16)
	client, _ := s.dial(t)
	var stalled []net.Conn
	for range 2 { // with the client the three that are accepted
		stalled = append(stalled, stall(t, s.socket))
	}

	begin := time.Now()
	if _, err := client.OnDefineDomain(t.Context(), hooks.V1alpha3, domain,
		vmi(30<<10)); err != nil {
		t.Fatal(err)
	}

	t.Logf("answered after %v", time.Since(begin))

	for _, conn := range stalled {
		expect.NoError(t, conn.SetReadDeadline(time.Now().Add(endsWithin)))
		for buffer := make([]byte, 4<<10); ; {
			if _, err := conn.Read(buffer); err != nil {
				if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
					t.Error("a stalled client stays connected")
				}
				break
			}
		}
	}

	if peak := s.peakMiB(t); peak > 61 {
		t.Errorf("peak of %.1f MiB, more than a sidecar's memory", peak)
	}
}
