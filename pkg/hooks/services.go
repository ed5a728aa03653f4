package hooks

import (
	"context"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"hook-sidecar/pkg/hooks/api/info"
	"hook-sidecar/pkg/hooks/api/plugin"
	"hook-sidecar/pkg/hooks/api/v1alpha1"
	"hook-sidecar/pkg/hooks/api/v1alpha2"
	"hook-sidecar/pkg/hooks/api/v1alpha3"
)

// The hook's name in Info, and its hook points (KubeVirt pkg/hooks/info/info.go).
const (
	hookName        = "hook-sidecar"
	onDefineDomain  = "OnDefineDomain"
	preCloudInitIso = "PreCloudInitIso"
	shutdown        = "Shutdown"
)

type infoService struct {
	info.UnimplementedInfoServer
	server *Server
}

// Info announces PreCloudInitIso only with v1alpha2 and v1alpha3, and Shutdown only
// with v1alpha3, the versions that have it. virt-launcher logs an error for a hook
// point that a version lacks.
func (i infoService) Info(ctx context.Context, _ *info.InfoParams) (*info.InfoResult, error) {
	i.server.watchLauncher(ctx)
	versions := i.server.config.Versions
	points := []*info.HookPoint{{Name: onDefineDomain}}
	if i.server.config.CloudInit != nil && (slices.Contains(versions, V1alpha2) || slices.Contains(versions, V1alpha3)) {
		points = append(points, &info.HookPoint{Name: preCloudInitIso})
	}
	if slices.Contains(versions, V1alpha3) {
		points = append(points, &info.HookPoint{Name: shutdown})
	}
	return &info.InfoResult{Name: hookName, HookPoints: points, Versions: versions}, nil
}

type callbacksV1alpha1 struct {
	v1alpha1.UnimplementedCallbacksServer
	server *Server
}

func (c callbacksV1alpha1) OnDefineDomain(ctx context.Context, p *v1alpha1.OnDefineDomainParams) (*v1alpha1.OnDefineDomainResult, error) {
	domain, err := c.server.answer(ctx, Call{Protocol: V1alpha1, Domain: p.GetDomainXML(), VMI: p.GetVmi()})
	return &v1alpha1.OnDefineDomainResult{DomainXML: domain}, err
}

type callbacksV1alpha2 struct {
	v1alpha2.UnimplementedCallbacksServer
	server *Server
}

func (c callbacksV1alpha2) OnDefineDomain(ctx context.Context, p *v1alpha2.OnDefineDomainParams) (*v1alpha2.OnDefineDomainResult, error) {
	domain, err := c.server.answer(ctx, Call{Protocol: V1alpha2, Domain: p.GetDomainXML(), VMI: p.GetVmi()})
	return &v1alpha2.OnDefineDomainResult{DomainXML: domain}, err
}

// PreCloudInitIso changes CloudInitData only: virt-launcher reads the older
// CloudInitNoCloudSource where the other one is not valid.
func (c callbacksV1alpha2) PreCloudInitIso(_ context.Context, p *v1alpha2.PreCloudInitIsoParams) (*v1alpha2.PreCloudInitIsoResult, error) {
	call := CloudInitCall{Protocol: V1alpha2, Data: p.GetCloudInitData(), VMI: p.GetVmi()}
	return &v1alpha2.PreCloudInitIsoResult{
		CloudInitNoCloudSource: p.GetCloudInitNoCloudSource(),
		CloudInitData:          c.server.cloudInit(call, len(p.GetCloudInitNoCloudSource())),
	}, nil
}

type callbacksV1alpha3 struct {
	v1alpha3.UnimplementedCallbacksServer
	server *Server
}

func (c callbacksV1alpha3) OnDefineDomain(ctx context.Context, p *v1alpha3.OnDefineDomainParams) (*v1alpha3.OnDefineDomainResult, error) {
	domain, err := c.server.answer(ctx, Call{Protocol: V1alpha3, Domain: p.GetDomainXML(), VMI: p.GetVmi()})
	return &v1alpha3.OnDefineDomainResult{DomainXML: domain}, err
}

// PreCloudInitIso is as in v1alpha2.
func (c callbacksV1alpha3) PreCloudInitIso(_ context.Context, p *v1alpha3.PreCloudInitIsoParams) (*v1alpha3.PreCloudInitIsoResult, error) {
	call := CloudInitCall{Protocol: V1alpha3, Data: p.GetCloudInitData(), VMI: p.GetVmi()}
	return &v1alpha3.PreCloudInitIsoResult{
		CloudInitNoCloudSource: p.GetCloudInitNoCloudSource(),
		CloudInitData:          c.server.cloudInit(call, len(p.GetCloudInitNoCloudSource())),
	}, nil
}

// Shutdown ends the server after this reply.
func (c callbacksV1alpha3) Shutdown(context.Context, *v1alpha3.ShutdownParams) (*v1alpha3.ShutdownResult, error) {
	c.server.config.Logger.Info("virt-launcher requested shutdown")
	c.server.shutdown()
	return &v1alpha3.ShutdownResult{}, nil
}

// The contexts in which KubeVirt calls MutateDomain (v1.9.0,
// kubevirt.io/api/plugin/v1alpha1). It defines MigrationSource but never sends it.
const (
	Boot            = "Boot"
	MigrationTarget = "MigrationTarget"
	MigrationSource = "MigrationSource"
)

// libvirtDomain is the only domain_type that KubeVirt has.
const libvirtDomain = "libvirt"

type pluginService struct {
	plugin.UnimplementedDomainHookServiceServer
	server *Server
}

// MutateDomain changes the domain in context Boot or without a context. In any
// other context the domain is already running elsewhere, so it stays unchanged.
func (p pluginService) MutateDomain(ctx context.Context, r *plugin.MutateDomainRequest) (*plugin.MutateDomainResponse, error) {
	if kind := r.GetDomainType(); kind != libvirtDomain {
		return nil, status.Errorf(codes.InvalidArgument, "invalid domain_type %.40q: must be %s", kind, libvirtDomain)
	}
	call := Call{Protocol: Plugin, Domain: r.GetDomain(), VMI: r.GetVmi()}
	switch invocation := r.GetSidecarContext().GetInvocationContext(); invocation {
	case "", Boot:
	case MigrationTarget, MigrationSource:
		call.Migration = true
	default:
		p.server.config.Logger.Warn("unknown invocation context, returning the input", "context", invocation)
		call.Migration = true
	}
	domain, err := p.server.answer(ctx, call)
	return &plugin.MutateDomainResponse{Domain: domain}, err
}
