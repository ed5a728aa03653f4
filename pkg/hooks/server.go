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
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"hook-sidecar/pkg/hooks/api/info"
	"hook-sidecar/pkg/hooks/api/plugin"
)

// Server serves the hook protocols on one or two unix sockets. Create it with New.
type Server struct {
	config   Config
	turn     chan struct{} // full while a call is handled
	open     atomic.Int32  // connections
	ready    chan struct{}
	ctx      context.Context    // of Run
	shutdown context.CancelFunc // makes Run return

	launcherSeen atomic.Bool
	launcher     sync.WaitGroup // waits for virt-launcher's end
}

// New returns a server that does nothing until Run.
func New(config Config) *Server {
	return &Server{
		config: config.withDefaults(), turn: make(chan struct{}, 1), ready: make(chan struct{}),
	}
}

// Ready returns a channel that is closed when every socket accepts calls. It
// stays open when Run fails before that.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Run serves until ctx is done or virt-launcher calls Shutdown, and then returns
// nil. Calls in progress may finish within Config.Grace. Run removes the sockets
// before it returns. A server runs once.
func (s *Server) Run(ctx context.Context) error {
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

		// virt-launcher gives up on a socket that does not answer Info: register first.
		services := grpc.NewServer(s.options()...)
		socket.register(services)
		opened, err := openSocket(socket.path, socket.makeDir)
		if err != nil {
			for _, e := range endpoints {
				err = errors.Join(err, e.socket.close())
			}
			return nil, err
		}

		opened.open, opened.silence = &s.open, s.silence()
		s.config.Logger.Info("listening", "socket", socket.path)
		endpoints = append(endpoints, &endpoint{
			socket: opened, server: services, log: s.config.Logger,
		})
	}

	return endpoints, nil
}

const (
	maxStreams = 1 // calls at once on a connection; virt-launcher makes one
	maxHeaders = 16 << 10
)

// options limits the state that clients can make the server keep. It closes a connection
// without a call, and one whose client does not answer pings.
func (s *Server) options() []grpc.ServerOption {
	patience := s.config.Patience
	return []grpc.ServerOption{
		grpc.Creds(connectionCredentials{insecure.NewCredentials()}),
		grpc.UnaryInterceptor(s.intercept),
		grpc.StatsHandler(hangUps{}),
		grpc.MaxRecvMsgSize(MaxMessage),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(patience),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: patience, Time: patience, Timeout: patience,
		}),
	}
}

// minPing is the least time between gRPC's pings (internal/internal.go,
// KeepaliveMinServerPingTime).
const minPing = time.Second

// silence returns a time for which no client that answers pings is silent.
func (s *Server) silence() time.Duration {
	return 2*max(s.config.Patience, minPing) + s.config.Patience
}

func (s *Server) registerHooks(server *grpc.Server) {
	info.RegisterInfoServer(server, infoService{server: s})
	for _, version := range s.config.Versions {
		server.RegisterService(callbacksService(version), callbacks{server: s, version: version})
	}
}

func (s *Server) registerPlugin(server *grpc.Server) {
	service := pluginService{server: s}
	plugin.RegisterDomainHookServiceServer(server, service)
	server.RegisterService(launcherService(), service)
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
	server *grpc.Server
	log    *slog.Logger
}

// serve returns nil when the endpoint was closed, even before serve began.
func (e *endpoint) serve() error {
	err := e.server.Serve(e.socket)
	if err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve on %s: %w", e.socket.path, err)
	}
	return nil
}

// close removes the socket and waits for calls in progress, which it cuts off
// after grace.
func (e *endpoint) close(grace time.Duration) error {
	err := e.socket.remove()
	drained := make(chan struct{})
	go func() {
		e.server.GracefulStop()
		close(drained)
	}()

	select {
	case <-drained:
	case <-time.After(grace):
		e.log.Warn("calls in progress were cut off", "socket", e.socket.path, "grace", grace)
		e.server.Stop()
	}

	return err
}
