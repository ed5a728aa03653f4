package hooks

import (
	"context"
	"log/slog"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"hook-sidecar/pkg/hooks/api/info"
	"hook-sidecar/pkg/hooks/api/v1alpha3"
	"hook-sidecar/pkg/words"
)

// reply returns the domain to reply with, or the error that fails the call. It returns
// the input when the mutator panics.
func (s *Server) reply(ctx context.Context, call Call) (domain []byte, err error) {
	log := s.config.Logger.With("protocol", call.Protocol)
	defer func() {
		if cause := recover(); cause != nil {
			logPanic(log, cause)
			domain, err = call.Domain, nil
		}
	}()

	domain, err = s.config.Mutator.Mutate(ctx, call)
	switch {
	case call.Migration:
		if err != nil {
			log.Warn("refusal ignored during a migration", "error", err)
		}
		return call.Domain, nil

	case err != nil:
		return nil, err
	case len(domain) == 0 && len(call.Domain) > 0:
		log.Error("the mutator returned an empty domain, returning the input")
		return call.Domain, nil
	}

	return domain, nil
}

// cloudInit returns the cloud-init data for the reply, which has this number of other
// bytes. It returns the input when Config.CloudInit panics.
func (s *Server) cloudInit(call CloudInitCall, others int) (data []byte) {
	if s.config.CloudInit == nil {
		return call.Data
	}

	log := s.config.Logger.With("protocol", call.Protocol)
	defer func() {
		if cause := recover(); cause != nil {
			logPanic(log, cause)
			data = call.Data
		}
	}()

	const field = 5 // bytes of the second field's tag and length
	data = s.config.CloudInit(call)
	switch {
	case len(data) == 0:
		return call.Data
	case len(data)+others+field > MaxReply:
		log.Error("the cloud-init data is too large for virt-launcher, returning the input",
			"bytes", len(data)+others, "limit", MaxReply-field)
		return call.Data
	}

	return data
}

// intercept logs every call that fails.
func (s *Server) intercept(
	ctx context.Context, request any, rpc *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (any, error) {
	response, err := s.handle(ctx, rpc.FullMethod, request, handler)
	if err != nil {
		refusal := status.Convert(err)
		method, _ := grpc.Method(ctx) // that of rpc is v1alpha3's in each version
		s.config.Logger.Warn("call failed",
			"method", method, "code", refusal.Code().String(), "error", refusal.Message())
	}

	return response, err
}

// handle handles one call at a time. gRPC has read and decoded the requests that wait, so
// maxConnections is what bounds their memory. Info and Shutdown do not wait, because virt-launcher
// gives Info one second (KubeVirt pkg/hooks/manager.go).
func (s *Server) handle(
	ctx context.Context, method string, request any, handler grpc.UnaryHandler,
) (any, error) {
	switch method {
	case info.Info_Info_FullMethodName, v1alpha3.Callbacks_Shutdown_FullMethodName:
		return handler(ctx, request)
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
		return handler(ctx, request)
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// logPanic logs a panic with its stack.
func logPanic(log *slog.Logger, cause any) {
	log.Error("call panicked, returning the input", "panic", words.OfPanic(cause), "stack",
		string(debug.Stack()))
}
