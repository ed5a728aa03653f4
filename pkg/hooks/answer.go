package hooks

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"hook-sidecar/pkg/hooks/api/info"
	"hook-sidecar/pkg/hooks/api/plugin"
	"hook-sidecar/pkg/hooks/api/v1alpha1"
	"hook-sidecar/pkg/hooks/api/v1alpha2"
	"hook-sidecar/pkg/hooks/api/v1alpha3"
)

// answer returns the domain for the reply, or the status that fails the call.
func (s *Server) answer(ctx context.Context, call Call) ([]byte, error) {
	domain, err := s.config.Mutator.Mutate(ctx, call)
	log := s.config.Logger.With("protocol", call.Protocol)
	switch {
	case call.Migration:
		if err != nil {
			log.Warn("refusal ignored during a migration", "error", err)
		}
		return call.Domain, nil
	case err != nil:
		return nil, statusOf(err)
	case len(domain) == 0 && len(call.Domain) > 0:
		log.Error("the mutator returned an empty domain, returning the input")
		return call.Domain, nil
	}
	return domain, nil
}

// cloudInit returns the cloud-init data for the reply, which has so many other bytes.
func (s *Server) cloudInit(call CloudInitCall, others int) []byte {
	if s.config.CloudInit == nil {
		return call.Data
	}
	const field = 5 // bytes of the second field's tag and length
	data := s.config.CloudInit(call)
	switch {
	case len(data) == 0:
		return call.Data
	case len(data)+others+field > MaxReply:
		s.config.Logger.Error("the cloud-init data is too large for virt-launcher, returning the input",
			"protocol", call.Protocol, "bytes", len(data)+others, "limit", MaxReply-field)
		return call.Data
	}
	return data
}

// statusOf converts an error to a gRPC status. No other code does.
func statusOf(err error) error {
	if malformed := (*MalformedError)(nil); errors.As(err, &malformed) {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return status.FromContextError(err).Err()
	}
	return status.Error(codes.FailedPrecondition, err.Error())
}

// guard logs every call that fails. When a call panics, it returns the input.
func (s *Server) guard(ctx context.Context, request any, rpc *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (response any, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			s.logPanic(rpc.FullMethod, cause)
			response, err = unchanged(request)
		}
	}()
	response, err = s.handle(ctx, rpc.FullMethod, request, handle)
	if err != nil {
		refusal := status.Convert(err)
		s.config.Logger.Warn("call failed",
			"method", rpc.FullMethod, "code", refusal.Code().String(), "error", refusal.Message())
	}
	return response, err
}

// handle handles one call at a time, which bounds memory. Info and Shutdown do not wait
// for their turn, because virt-launcher gives Info one second (KubeVirt
// pkg/hooks/manager.go).
func (s *Server) handle(ctx context.Context, method string, request any, handler grpc.UnaryHandler) (any, error) {
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

// logPanic logs where a call panicked. It truncates the cause, because a panic's
// value may contain a domain, and domains are not logged.
func (s *Server) logPanic(method string, cause any) {
	const most = 256
	text := fmt.Sprint(cause)
	if len(text) > most {
		text = text[:most] + "…"
	}
	s.config.Logger.Error("call panicked, returning the input",
		"method", method, "panic", text, "stack", string(debug.Stack()))
}

// unchanged returns the reply with the domain or the cloud-init data of the request.
func unchanged(request any) (any, error) {
	switch r := request.(type) {
	case *v1alpha1.OnDefineDomainParams:
		return &v1alpha1.OnDefineDomainResult{DomainXML: r.GetDomainXML()}, nil
	case *v1alpha2.OnDefineDomainParams:
		return &v1alpha2.OnDefineDomainResult{DomainXML: r.GetDomainXML()}, nil
	case *v1alpha3.OnDefineDomainParams:
		return &v1alpha3.OnDefineDomainResult{DomainXML: r.GetDomainXML()}, nil
	case *v1alpha2.PreCloudInitIsoParams:
		return &v1alpha2.PreCloudInitIsoResult{CloudInitNoCloudSource: r.GetCloudInitNoCloudSource(), CloudInitData: r.GetCloudInitData()}, nil
	case *v1alpha3.PreCloudInitIsoParams:
		return &v1alpha3.PreCloudInitIsoResult{CloudInitNoCloudSource: r.GetCloudInitNoCloudSource(), CloudInitData: r.GetCloudInitData()}, nil
	case *plugin.MutateDomainRequest:
		return &plugin.MutateDomainResponse{Domain: r.GetDomain()}, nil
	default:
		return nil, status.Errorf(codes.Internal, "panic while answering a %T", request)
	}
}
