package hooks

import (
	"context"
	"slices"

	"hook-sidecar/pkg/hooks/api/info"
)

// hookName is the name of this hook in Info.
const hookName = "hook-sidecar"

// The hook points of this hook (KubeVirt pkg/hooks/info/info.go).
const (
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
