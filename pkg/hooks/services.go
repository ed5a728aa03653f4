package hooks

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"hook-sidecar/pkg/hooks/api/info"
	"hook-sidecar/pkg/hooks/api/plugin"
	"hook-sidecar/pkg/hooks/api/v1alpha3"
)

type infoService struct {
	info.UnimplementedInfoServer
	server *Server
}

// Info announces PreCloudInitIso only with v1alpha2 and v1alpha3, and Shutdown only
// with v1alpha3, the versions that have it. virt-launcher logs an error for a hook
// point that a version lacks. Names are those of KubeVirt pkg/hooks/info/info.go.
func (i infoService) Info(ctx context.Context, _ *info.InfoParams) (*info.InfoResult, error) {
	i.server.watchLauncher(ctx)
	versions := i.server.config.Versions
	points := []*info.HookPoint{{Name: "OnDefineDomain"}}
	if i.server.config.CloudInit != nil &&
		(slices.Contains(versions, V1alpha2) || slices.Contains(versions, V1alpha3)) {
		points = append(points, &info.HookPoint{Name: "PreCloudInitIso"})
	}

	if slices.Contains(versions, V1alpha3) {
		points = append(points, &info.HookPoint{Name: "Shutdown"})
	}

	return &info.InfoResult{Name: "hook-sidecar", HookPoints: points, Versions: versions}, nil
}

// callbacks serves a version of the Callbacks service. All versions share its messages; each
// version has one call more than the one before.
type callbacks struct {
	v1alpha3.UnimplementedCallbacksServer
	server  *Server
	version string
}

// callbacksService describes the Callbacks service of a version.
func callbacksService(version string) *grpc.ServiceDesc {
	service := v1alpha3.Callbacks_ServiceDesc
	service.ServiceName = "kubevirt.hooks." + version + ".Callbacks"
	newer := slices.Index(Versions(), version)
	service.Methods = service.Methods[:len(service.Methods)-newer]
	return &service
}

func (c callbacks) OnDefineDomain(
	ctx context.Context, p *v1alpha3.OnDefineDomainParams,
) (*v1alpha3.OnDefineDomainResult, error) {
	domain, err := c.server.reply(ctx, Call{
		Protocol: c.version, Domain: p.GetDomainXML(), VMI: p.GetVmi(),
	})
	return &v1alpha3.OnDefineDomainResult{DomainXML: domain}, err
}

// PreCloudInitIso changes CloudInitData only: virt-launcher reads the older
// CloudInitNoCloudSource where the other one is not valid.
func (c callbacks) PreCloudInitIso(
	_ context.Context, p *v1alpha3.PreCloudInitIsoParams,
) (*v1alpha3.PreCloudInitIsoResult, error) {
	call := CloudInitCall{Protocol: c.version, Data: p.GetCloudInitData(), VMI: p.GetVmi()}
	return &v1alpha3.PreCloudInitIsoResult{
		CloudInitNoCloudSource: p.GetCloudInitNoCloudSource(),
		CloudInitData:          c.server.cloudInit(call, len(p.GetCloudInitNoCloudSource())),
	}, nil
}

// Shutdown ends the server after this reply.
func (c callbacks) Shutdown(
	context.Context, *v1alpha3.ShutdownParams,
) (*v1alpha3.ShutdownResult, error) {
	c.server.config.Logger.Info("virt-launcher requested shutdown")
	c.server.shutdown()
	return &v1alpha3.ShutdownResult{}, nil
}

// The contexts in which KubeVirt calls a structured plugin (v1.9.0,
// kubevirt.io/api/plugin/v1alpha1). It defines MigrationSource but never sends it.
const (
	Boot            = "Boot"
	MigrationTarget = "MigrationTarget"
	MigrationSource = "MigrationSource"
)

// libvirtDomain is the only domain_type that KubeVirt has.
const libvirtDomain = "libvirt"

// pluginService serves KubeVirt 1.9's DomainHookService and 1.10's LauncherHookService, whose
// messages are the same.
type pluginService struct {
	plugin.UnimplementedDomainHookServiceServer
	server *Server
}

// launcherService describes LauncherHookService, whose GuestDefinition is MutateDomain.
func launcherService() *grpc.ServiceDesc {
	service := plugin.DomainHookService_ServiceDesc
	service.ServiceName = plugin.LauncherHookService_ServiceDesc.ServiceName
	service.Methods = slices.Clone(service.Methods)
	service.Methods[0].MethodName = plugin.LauncherHookService_ServiceDesc.Methods[0].MethodName
	return &service
}

// MutateDomain changes the domain in context Boot or without a context. In any other
// context the domain is already running elsewhere, so it stays unchanged.
func (p pluginService) MutateDomain(
	ctx context.Context, r *plugin.MutateDomainRequest,
) (*plugin.MutateDomainResponse, error) {
	if kind := r.GetDomainType(); kind != libvirtDomain {
		return nil, status.Errorf(codes.InvalidArgument, "invalid domain_type %.40q: must be %s",
			kind, libvirtDomain)
	}

	call := Call{Protocol: Plugin, Domain: r.GetDomain(), VMI: r.GetVmi()}
	switch invocation := r.GetSidecarContext().GetInvocationContext(); invocation {
	case "", Boot:
	case MigrationTarget, MigrationSource:
		call.Migration = true
	default:
		p.server.config.Logger.Warn("unknown invocation context, returning the input", "context",
			invocation)
		call.Migration = true
	}

	domain, err := p.server.reply(ctx, call)
	return &plugin.MutateDomainResponse{Domain: domain}, err
}
