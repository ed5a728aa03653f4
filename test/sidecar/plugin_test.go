//go:build linux

package sidecar

import (
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

// TestPluginOf19: call says what may be wrong with a plugin of KubeVirt 1.9 that it calls as 1.10.
func TestPluginOf19(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(hookstest.Dir(t), "hook.sock")
	listener, err := net.Listen("unix", socket)
	expect.NoError(t, err)
	server := grpc.NewServer()
	plugin.RegisterDomainHookServiceServer(server, plugin.UnimplementedDomainHookServiceServer{})
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	cmd := exec.Command(built(t), "call", "--plugin=1.10", "--socket", socket, "--domain", "-")
	cmd.Stdin = strings.NewReader(string(around(nil, nil)))
	out, err := cmd.CombinedOutput()
	for _, want := range []string{
		"call GuestDefinition on " + socket, "unknown service",
		"no structured plugin of KubeVirt 1.10;", "--plugin=1.9",
	} {
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%v: %s\nwant %s", err, out, want)
		}
	}
}
