package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"hook-sidecar/test/expect"
)

// TestKubeconfig: each of kubectl's flags reaches the configuration of the client.
func TestKubeconfig(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	file := filepath.Join(t.TempDir(), "file") // must exist
	expect.NoError(t, os.WriteFile(file, nil, 0o600))

	k := newKubeconfig()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	k.addFlags(flags)
	expect.NoError(t, flags.Parse([]string{
		"-s", "https://cluster:6443", "-n", "namespaces/ml", "--token", "secret",
		"--certificate-authority", file, "--client-certificate", file, "--client-key", file,
		"--tls-server-name", "inner", "--proxy-url", "http://proxy:3128", "--disable-compression",
		"--request-timeout", "5s",
		"--as", "ann", "--as-uid", "7", "--as-group", "a", "--as-group", "b",
		"--as-user-extra", "team=x", "--as-user-extra", "team=y=z", "--as-user-extra", "empty=",
	}))

	loaded := k.load()
	namespace, _, err := loaded.Namespace()
	expect.NoError(t, err)
	expect.Same(t, "ml", namespace, "namespace (-want +got)")
	expect.Same(t, "ml", k.namespace(), "namespace of the flag (-want +got)")

	config, err := loaded.ClientConfig()
	expect.NoError(t, err)
	proxy, err := config.Proxy(nil)
	expect.NoError(t, err)
	expect.Same(t, "http://proxy:3128", proxy.String(), "proxy (-want +got)")
	config.Proxy = nil
	expect.Same(t, &rest.Config{
		Host: "https://cluster:6443", BearerToken: "secret", Timeout: 5 * time.Second,
		DisableCompression: true,
		TLSClientConfig: rest.TLSClientConfig{
			ServerName: "inner", CAFile: file, CertFile: file, KeyFile: file,
		},
		Impersonate: rest.ImpersonationConfig{
			UserName: "ann", UID: "7", Groups: []string{"a", "b"},
			Extra: map[string][]string{"team": {"x", "y=z"}, "empty": {""}},
		},
	}, config, "client (-want +got)")
}
