package hooks_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/hooks/api/v1alpha3"
	"hook-sidecar/pkg/hooks/hookstest"
	"hook-sidecar/test/expect"
)

// preCloudInitIso calls a server with a version and returns both fields of its reply.
func preCloudInitIso(
	t *testing.T, server *hookstest.Server, version string,
) (data, noCloud string) {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+server.HookSocket,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"))
	expect.NoError(t, err)
	defer conn.Close()
	var result v1alpha3.PreCloudInitIsoResult // the same in both versions
	err = conn.Invoke(t.Context(), "/kubevirt.hooks."+version+".Callbacks/PreCloudInitIso",
		&v1alpha3.PreCloudInitIsoParams{
			CloudInitData:          []byte("data"),
			CloudInitNoCloudSource: []byte("old"),
			Vmi:                    []byte("vmi"),
		}, &result)

	expect.NoError(t, err)
	return string(result.GetCloudInitData()), string(result.GetCloudInitNoCloudSource())
}

// TestPreCloudInitIso: whatever goes wrong, virt-launcher gets the data that it sent.
func TestPreCloudInitIso(t *testing.T) {
	for name, tc := range map[string]struct {
		answer func(hooks.CloudInitCall) []byte
		want   string
	}{
		"none": {nil, "data"},
		"an answer": {func(c hooks.CloudInitCall) []byte {
			return slices.Concat(c.Data, []byte(" "+c.Protocol+" "), c.VMI)
		}, ""},
		"empty":   {func(hooks.CloudInitCall) []byte { return nil }, "data"},
		"a panic": {func(hooks.CloudInitCall) []byte { panic("lost") }, "data"},
		"too large": {func(hooks.CloudInitCall) []byte {
			return bytes.Repeat([]byte("x"), hooks.MaxReply-7)
		}, "data"},
		"largest": {func(hooks.CloudInitCall) []byte {
			return bytes.Repeat([]byte("x"), hooks.MaxReply-8)
		}, strings.Repeat("x", hooks.MaxReply-8)},
	} {
		for _, version := range []string{hooks.V1alpha2, hooks.V1alpha3} {
			log, _ := record()
			server := hookstest.Start(t, hooks.Config{
				Mutator: hookstest.Func(mark), CloudInit: tc.answer, Logger: log,
			})

			want := tc.want
			if want == "" {
				want = "data " + version + " vmi"
			}

			if data, noCloud := preCloudInitIso(t, server, version); data != want ||
				noCloud != "old" {
				t.Errorf("%s, %s: %d bytes %.40q and %q, want %d bytes %.40q and old", name,
					version, len(data), data, noCloud, len(want), want)
			}
		}
	}
}

// TestInfoCloudInit: the call is announced where there is an answer and a version has it.
func TestInfoCloudInit(t *testing.T) {
	for _, tc := range []struct {
		versions, want []string
	}{
		{nil, []string{"OnDefineDomain", "PreCloudInitIso", "Shutdown"}},
		{[]string{hooks.V1alpha2}, []string{"OnDefineDomain", "PreCloudInitIso"}},
		{[]string{hooks.V1alpha1}, []string{"OnDefineDomain"}},
	} {
		server := hookstest.Start(t, hooks.Config{
			Mutator: hookstest.Func(mark), Versions: tc.versions,
			CloudInit: func(c hooks.CloudInitCall) []byte {
				return c.Data
			},
		})

		info, err := hookstest.Dial(t, server.HookSocket).Info(t.Context())
		expect.NoError(t, err)
		expect.Same(t, tc.want, info.HookPoints, "%v (-want +got)", tc.versions)
	}
}
