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

// Server serves the hook protocols on one or two unix sockets. Make it with New.
type Server struct {
	config  Config
	turns   *turns
	started atomic.Bool
	ready   chan struct{}

	stopOnce sync.Once
	stop     chan struct{}
}

// New returns a server that does nothing until Run.
func New(config Config) *Server {
	config = config.withDefaults()
	return &Server{
		config: config,
		turns:  newTurns(config.Patience),
		ready:  make(chan struct{}),
		stop:   make(chan struct{}),
	}
}

// Ready returns a channel that is closed when every socket takes calls. It
// stays open when Run fails before that.
func (s *Server) Ready() <-chan struct{} {
	return s.ready
}

// Run serves until ctx is done or virt-launcher calls Shutdown; both are a good
// end and give nil. Calls under way may finish within Config.Grace. The
// sockets are gone when Run returns. A server runs once.
func (s *Server) Run(ctx context.Context) error {
	if s.started.Swap(true) {
		return errors.New("serve hooks: the server has run before")
	}
	if err := s.config.check(); err != nil {
		return err
	}
	endpoints, err := s.listen()
	if err != nil {
		return err
	}

	serving, ended := errgroup.WithContext(ctx)
	for _, e := range endpoints {
		serving.Go(e.serve)
	}
	close(s.ready)
	select {
	case <-ended.Done():
	case <-s.stop:
	}

	s.config.Logger.Info("stopping hooks")
	errs := s.close(endpoints)
	errs = append(errs, serving.Wait())
	return errors.Join(errs...)
}

// shutdown makes Run return; any number of calls is harmless.
func (s *Server) shutdown() {
	s.stopOnce.Do(func() { close(s.stop) })
}

// listen opens every socket that is configured, or none.
func (s *Server) listen() ([]*endpoint, error) {
	type named struct {
		path       string
		makeFolder bool
		register   func(*grpc.Server)
	}
	var endpoints []*endpoint
	for _, socket := range []named{
		{s.config.HookSocket, false, s.registerHooks},
		{s.config.PluginSocket, true, s.registerPlugin},
	} {
		if socket.path == "" {
			continue
		}
		// virt-launcher gives up on a socket that takes connections and does
		// not answer Info, so the services are there before the socket is.
		server := s.newGRPC()
		socket.register(server)
		opened, err := openSocket(socket.path, socket.makeFolder)
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
		// A peer that connects and stays silent holds up the end of a gRPC
		// server, Stop included, until its handshake times out; the default of
		// 120 s is longer than a kubelet waits.
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

// close ends every endpoint, all within one span of grace.
func (s *Server) close(endpoints []*endpoint) []error {
	errs := make([]error, len(endpoints))
	var closing sync.WaitGroup
	for i, e := range endpoints {
		closing.Go(func() { errs[i] = e.close(s.config.Grace) })
	}
	closing.Wait()
	return errs
}

// endpoint is one socket and the gRPC server behind it.
type endpoint struct {
	socket *socket
	server *grpc.Server
	log    *slog.Logger
}

// serve returns nil when the endpoint was closed, also when that came first.
func (e *endpoint) serve() error {
	err := e.server.Serve(e.socket.listener)
	if err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve on %s: %w", e.socket.path, err)
	}
	return nil
}

// close removes the socket, lets calls under way finish, and cuts them off
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
		// GracefulStop goes on waiting for the call, so it is not waited for.
		e.server.Stop()
		e.log.Warn("calls under way were cut off", "socket", e.socket.path, "grace", grace)
	}
	return err
}
