package hooks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	turns    *turns
	started  atomic.Bool
	ready    chan struct{}
	shutdown context.CancelFunc // makes Run return
}

// New returns a server that does nothing until Run.
func New(config Config) *Server {
	config = config.withDefaults()
	return &Server{config: config, turns: newTurns(config.Patience), ready: make(chan struct{})}
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
	ctx, s.shutdown = context.WithCancel(ctx)
	defer s.shutdown()
	endpoints, err := s.listen()
	if err != nil {
		return err
	}

	serving, ended := errgroup.WithContext(ctx)
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
		server := s.newGRPC()
		socket.register(server)
		opened, err := openSocket(socket.path, socket.makeDir)
		if err != nil {
			return nil, errors.Join(append(s.close(endpoints), err)...)
		}
		s.config.Logger.Info("listening", "socket", socket.path)
		endpoints = append(endpoints, &endpoint{socket: opened, server: server, log: s.config.Logger})
	}
	return endpoints, nil
}

func (s *Server) newGRPC() *grpc.Server {
	return grpc.NewServer(
		grpc.MaxRecvMsgSize(s.config.MaxMessage),
		grpc.UnaryInterceptor(s.guard),
		grpc.InTapHandle(s.turns.tap),
		grpc.StatsHandler(s.turns),
		grpc.InitialWindowSize(streamWindow),
		// A peer that connects and stays silent delays the end of a gRPC server,
		// even Stop, until its handshake times out; the default of 120 s is longer
		// than a kubelet waits.
		grpc.ConnectionTimeout(s.config.Grace),
	)
}

func (s *Server) registerHooks(server *grpc.Server) {
	info.RegisterInfoServer(server, infoService{versions: s.config.Versions})
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

// endpoint is a socket and its gRPC server.
type endpoint struct {
	socket *socket
	server *grpc.Server
	log    *slog.Logger
}

// serve returns nil when the endpoint was closed, even before serve began.
func (e *endpoint) serve() error {
	err := e.server.Serve(e.socket.listener)
	if err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve on %s: %w", e.socket.path, err)
	}
	return nil
}

// close removes the socket and waits for calls in progress, which it cuts off
// after grace.
func (e *endpoint) close(grace time.Duration) error {
	err := e.socket.remove()
	graceful := make(chan struct{})
	go func() {
		e.server.GracefulStop()
		close(graceful)
	}()
	timeout := time.NewTimer(grace)
	defer timeout.Stop()
	select {
	case <-graceful:
	case <-timeout.C:
		// GracefulStop still waits for the calls, so close does not wait for it.
		e.server.Stop()
		e.log.Warn("calls in progress were cut off", "socket", e.socket.path, "grace", grace)
	}
	return err
}
