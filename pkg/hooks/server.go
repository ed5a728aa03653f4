package hooks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"hook-sidecar/pkg/hooks/api/info"
	"hook-sidecar/pkg/hooks/api/plugin"
	"hook-sidecar/pkg/hooks/api/v1alpha1"
	"hook-sidecar/pkg/hooks/api/v1alpha2"
	"hook-sidecar/pkg/hooks/api/v1alpha3"
)

// Server serves the hook protocols on one or two unix sockets. Create it with New.
type Server struct {
	config   Config
	gate     *gate
	conns    *connections
	started  atomic.Bool
	ready    chan struct{}
	ctx      context.Context    // of Run
	shutdown context.CancelFunc // makes Run return

	introduced   sync.Once // by the first Info
	launcherSeen atomic.Bool
	launcher     sync.WaitGroup // waits for virt-launcher's end
}

// New returns a server that does nothing until Run.
func New(config Config) *Server {
	config = config.withDefaults()
	return &Server{config: config, gate: newGate(config.MaxMessage, config.Patience), conns: &connections{}, ready: make(chan struct{})}
}

// Ready returns a channel that is closed when every socket accepts calls. It
// stays open when Run fails before that.
func (s *Server) Ready() <-chan struct{} {
	return s.ready
}

// Run serves until ctx is done or virt-launcher calls Shutdown, and then returns
// nil. Calls in progress may finish within Config.Grace. Run removes the sockets
// before it returns. A server runs once.
func (s *Server) Run(ctx context.Context) error {
	if s.started.Swap(true) {
		return errors.New("serve hooks: the server has already run")
	}
	if err := s.config.validate(); err != nil {
		return err
	}
	s.ctx, s.shutdown = context.WithCancel(ctx)
	defer s.launcher.Wait()
	defer s.shutdown()
	endpoints, err := s.listen()
	if err != nil {
		return err
	}

	serving, ended := errgroup.WithContext(s.ctx)
	for _, e := range endpoints {
		serving.Go(e.serve)
	}
	close(s.ready)
	<-ended.Done()

	s.config.Logger.Info("stopping hooks")
	errs := s.close(endpoints)
	errs = append(errs, serving.Wait())
	return errors.Join(errs...)
}

// listen opens all configured sockets, or none.
func (s *Server) listen() ([]*endpoint, error) {
	var endpoints []*endpoint
	for _, socket := range []struct {
		path     string
		makeDir  bool
		register func(*grpc.Server)
	}{
		{s.config.HookSocket, false, s.registerHooks},
		{s.config.PluginSocket, true, s.registerPlugin},
	} {
		if socket.path == "" {
			continue
		}
		// virt-launcher gives up on a socket that accepts connections and does not
		// answer Info, so the services are registered before the socket exists.
		services := grpc.NewServer(grpc.MaxRecvMsgSize(s.config.MaxMessage), grpc.ForceServerCodecV2(codec{}), grpc.UnaryInterceptor(s.guard))
		socket.register(services)
		opened, err := openSocket(socket.path, socket.makeDir)
		if err != nil {
			return nil, errors.Join(append(s.close(endpoints), err)...)
		}
		s.config.Logger.Info("listening", "socket", socket.path)
		endpoints = append(endpoints, &endpoint{socket: opened, server: s.newHTTP(services), conns: s.conns, log: s.config.Logger})
	}
	return endpoints, nil
}

// What a client may make the server keep: with maxConnections 8 MiB that have not been
// read, and 4 MiB of small requests.
const (
	maxStreams     = 4 // calls at once on a connection; virt-launcher makes one
	maxHeaders     = 16 << 10
	maxFrame       = 16 << 10
	streamWindow   = 64 << 10
	connWindow     = maxStreams * streamWindow // so that no call waits for another one's data
	maxHeaderTable = 4 << 10
)

// newHTTP returns the HTTP/2 server of a socket. gRPC's own has no limit for replies
// that clients do not take.
func (s *Server) newHTTP(services *grpc.Server) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:        s.gate.around(services),
		Protocols:      protocols,
		ConnContext:    withConn,
		ConnState:      stateChanged,
		MaxHeaderBytes: maxHeaders,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          maxStreams,
			MaxReadFrameSize:              maxFrame,
			MaxReceiveBufferPerConnection: connWindow,
			MaxReceiveBufferPerStream:     streamWindow,
			MaxDecoderHeaderTableSize:     maxHeaderTable,
			MaxEncoderHeaderTableSize:     maxHeaderTable,
			WriteByteTimeout:              s.config.Patience,
		},
		ErrorLog: log.New(io.Discard, "", 0), // of clients that do not speak HTTP/2
	}
}

func (s *Server) registerHooks(server *grpc.Server) {
	info.RegisterInfoServer(server, infoService{server: s})
	for _, version := range s.config.Versions {
		switch version {
		case V1alpha1:
			v1alpha1.RegisterCallbacksServer(server, callbacksV1alpha1{server: s})
		case V1alpha2:
			v1alpha2.RegisterCallbacksServer(server, callbacksV1alpha2{server: s})
		case V1alpha3:
			v1alpha3.RegisterCallbacksServer(server, callbacksV1alpha3{server: s})
		}
	}
}

func (s *Server) registerPlugin(server *grpc.Server) {
	plugin.RegisterDomainHookServiceServer(server, pluginService{server: s})
}

// close closes all endpoints at once, so that they share the grace period.
func (s *Server) close(endpoints []*endpoint) []error {
	errs := make([]error, len(endpoints))
	var closing sync.WaitGroup
	for i, e := range endpoints {
		closing.Go(func() { errs[i] = e.close(s.config.Grace) })
	}
	closing.Wait()
	return errs
}

// endpoint is a socket and its server.
type endpoint struct {
	socket *socket
	server *http.Server
	conns  *connections
	log    *slog.Logger
}

// serve returns nil when the endpoint was closed, even before serve began.
func (e *endpoint) serve() error {
	err := e.server.Serve(listener{e.socket.listener, e.conns})
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %s: %w", e.socket.path, err)
	}
	return nil
}

// close removes the socket and waits for calls in progress, which it cuts off
// after grace.
func (e *endpoint) close(grace time.Duration) error {
	err := e.socket.remove()
	// A connection without a call would delay the end.
	e.server.RegisterOnShutdown(e.conns.close)
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if shutdown := e.server.Shutdown(ctx); errors.Is(shutdown, context.DeadlineExceeded) {
		e.log.Warn("calls in progress were cut off", "socket", e.socket.path, "grace", grace)
		err = errors.Join(err, e.server.Close())
	}
	return err
}
