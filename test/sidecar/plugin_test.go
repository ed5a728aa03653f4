//go:build linux

package sidecar

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/hooks/api/plugin"
	"hook-sidecar/pkg/hooks/hookstest"
	"hook-sidecar/test/expect"
)

// of19 and of110 are plugins that were built for one version of KubeVirt. They return the domain.
type (
	of19 struct {
		plugin.UnimplementedDomainHookServiceServer
	}
	of110 struct {
		plugin.UnimplementedLauncherHookServiceServer
	}
)

func (of19) MutateDomain(_ context.Context, r *plugin.MutateDomainRequest) (*plugin.MutateDomainResponse, error) {
	return &plugin.MutateDomainResponse{Domain: r.GetDomain()}, nil
}

func (of110) GuestDefinition(_ context.Context, r *plugin.GuestDefinitionRequest) (*plugin.GuestDefinitionResponse, error) {
	return &plugin.GuestDefinitionResponse{Domain: r.GetDomain()}, nil
}

// TestPluginVersions: call calls this program's plugin as either version of KubeVirt, with the same
// answer, and says which version a plugin of one version may be of.
func TestPluginVersions(t *testing.T) {
	t.Parallel()
	needRoot(t)
	domain, host := onDevices(2)
	file := filepath.Join(t.TempDir(), "vm.xml")
	expect.NoError(t, os.WriteFile(file, domain, 0o600))
	call := func(version, socket string) (answer []byte, failure string) {
		var stderr bytes.Buffer
		cmd := exec.Command(built(t), "call", "--plugin="+version, "--socket", socket, "--domain", file)
		cmd.Stderr = &stderr
		answer, err := cmd.Output()
		if err != nil {
			failure = stderr.String()
		}
		return answer, failure
	}

	s := start(t, root(t, host), nil, "--plugin-socket", "/var/run/kubevirt-hooks/hook.sock")
	client, _ := s.dial(t)
	want, err := client.OnDefineDomain(t.Context(), hooks.V1alpha3, domain, nil)
	expect.NoError(t, err)
	for _, version := range []string{"1.9", "1.10"} {
		got, failure := call(version, filepath.Join(filepath.Dir(s.socket), "hook.sock"))
		if failure != "" || !bytes.Equal(got, want) || bytes.Equal(got, domain) {
			t.Errorf("%s: %s\n%s", version, failure, got)
		}
	}

	for _, tt := range []struct{ offers, asked, method string }{{"1.9", "1.10", "GuestDefinition"}, {"1.10", "1.9", "MutateDomain"}} {
		socket := foreignPlugin(t, tt.offers)
		if got, failure := call(tt.offers, socket); failure != "" || !bytes.Equal(got, domain) {
			t.Errorf("%s: %s", tt.offers, failure)
		}
		_, failure := call(tt.asked, socket)
		for _, text := range []string{"call " + tt.method + " on " + socket, "Unimplemented", "no structured plugin of KubeVirt " + tt.asked + ";", "--plugin=" + tt.offers} {
			if !strings.Contains(failure, text) {
				t.Errorf("%q, want %q", failure, text)
			}
		}
	}
}

// foreignPlugin serves a plugin of that version of KubeVirt until the test ends.
func foreignPlugin(t *testing.T, version string) (socket string) {
	t.Helper()
	socket = filepath.Join(hookstest.Dir(t), "hook.sock")
	listener, err := net.Listen("unix", socket)
	expect.NoError(t, err)
	server := grpc.NewServer()
	if version == "1.9" {
		plugin.RegisterDomainHookServiceServer(server, of19{})
	} else {
		plugin.RegisterLauncherHookServiceServer(server, of110{})
	}
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return socket
}
