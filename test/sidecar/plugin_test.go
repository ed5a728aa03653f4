//go:build linux

package sidecar

import (
	"context"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"hook-sidecar/pkg/hooks/api/plugin"
	"hook-sidecar/pkg/hooks/hookstest"
	"hook-sidecar/test/expect"
)

// of19 is a plugin that was built for KubeVirt 1.9. It returns the domain.
type of19 struct {
	plugin.UnimplementedDomainHookServiceServer
}

func (of19) MutateDomain(_ context.Context, r *plugin.MutateDomainRequest) (*plugin.MutateDomainResponse, error) {
	return &plugin.MutateDomainResponse{Domain: r.GetDomain()}, nil
}

// TestPluginOf19: call calls it as KubeVirt 1.9 does, and as 1.10 does it says what may be wrong.
func TestPluginOf19(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(hookstest.Dir(t), "hook.sock")
	listener, err := net.Listen("unix", socket)
	expect.NoError(t, err)
	server := grpc.NewServer()
	plugin.RegisterDomainHookServiceServer(server, of19{})
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	call := func(flag string) (string, error) {
		cmd := exec.Command(built(t), "call", flag, "--socket", socket, "--domain", "-", "--diff")
		cmd.Stdin = strings.NewReader(string(around(nil, nil)))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := call("--plugin=1.9"); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	out, err := call("--plugin=1.10")
	for _, want := range []string{"call GuestDefinition on " + socket, "Unimplemented", "no structured plugin of KubeVirt 1.10;", "--plugin=1.9"} {
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("%v: %s\nwant %s", err, out, want)
		}
	}
}
