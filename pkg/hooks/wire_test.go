package hooks_test

import (
	"fmt"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/hooks/hookstest"
	"hook-sidecar/test/expect"
)

// bytesCodec sends and receives messages as bytes, so that these tests do not
// depend on the generated code.
type bytesCodec struct{}

func (bytesCodec) Name() string { return "proto" }

func (bytesCodec) Marshal(v any) ([]byte, error) {
	message, ok := v.([]byte)
	if !ok {
		return nil, fmt.Errorf("send a %T", v)
	}
	return message, nil
}

func (bytesCodec) Unmarshal(data []byte, v any) error {
	message, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("receive into a %T", v)
	}

	*message = append([]byte(nil), data...)
	return nil
}

// field is one length-delimited field of a message.
type field struct {
	Number protowire.Number
	Value  string
}

func encode(fields ...field) []byte {
	var message []byte
	for _, f := range fields {
		message = protowire.AppendTag(message, f.Number, protowire.BytesType)
		message = protowire.AppendString(message, f.Value)
	}

	return message
}

// wire calls methods by the names in KubeVirt's v1.9.0 .proto files
// (pkg/hooks/info, pkg/hooks/v1alpha{1,2,3}, pkg/hooks/plugins/v1alpha1). Those of 1.10's
// LauncherHookService are inferred: see plugin.proto.
type wire struct{ conn *grpc.ClientConn }

func dialWire(t *testing.T, socket string) wire {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"))

	expect.NoError(t, err)
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})

	return wire{conn}
}

func (w wire) call(t *testing.T, method string, request []byte) ([]byte, error) {
	var response []byte
	err := w.conn.Invoke(t.Context(), method, request, &response, grpc.ForceCodec(bytesCodec{}))
	return response, err
}

func TestWire(t *testing.T) {
	server := hookstest.Start(t, hooks.Config{Mutator: hookstest.Func(mark)})
	hook, plugin := dialWire(t, server.HookSocket), dialWire(t, server.PluginSocket)

	// InfoResult: name=1, hookPoints=3, versions=4; HookPoint: name=1, and
	// priority=2, which is 0 and therefore not sent.
	info := encode(field{1, "hook-sidecar"},
		field{
			3, string(encode(field{1, "OnDefineDomain"})),
		}, field{3, string(encode(field{1, "Shutdown"}))},
		field{4, "v1alpha3"}, field{4, "v1alpha2"}, field{4, "v1alpha1"})

	// domainXML=1, vmi=2, and a field 9 that a later KubeVirt may send.
	define := encode(field{1, "<domain/>"}, field{2, "{}"}, field{9, "new"})

	// cloudInitNoCloudSource=1, vmi=2, cloudInitData=3.
	iso := encode(field{1, "old"}, field{2, "{}"}, field{3, "data"})
	isoBack := encode(field{1, "old"}, field{3, "data"})

	// domain_type=1, domain=2, vmi=3, sidecar_context=4 {invocation_context=1}.
	mutate := func(kind, invocation string) []byte {
		return encode(field{
			1, kind,
		}, field{2, "<domain/>"}, field{3, "{}"}, field{4, string(encode(field{1, invocation}))})
	}

	tests := []struct {
		wire    wire
		method  string
		request []byte
		want    []byte
		code    codes.Code
	}{
		{hook, "/kubevirt.hooks.info.Info/Info", nil, info, codes.OK},
		{hook, "/kubevirt.hooks.v1alpha1.Callbacks/OnDefineDomain", define,
			encode(field{1, "v1alpha1 <domain/> {}"}), codes.OK},
		{hook, "/kubevirt.hooks.v1alpha2.Callbacks/OnDefineDomain", define,
			encode(field{1, "v1alpha2 <domain/> {}"}), codes.OK},
		{hook, "/kubevirt.hooks.v1alpha3.Callbacks/OnDefineDomain", define,
			encode(field{1, "v1alpha3 <domain/> {}"}), codes.OK},
		{hook, "/kubevirt.hooks.v1alpha1.Callbacks/PreCloudInitIso", iso, nil, codes.Unimplemented},
		{hook, "/kubevirt.hooks.v1alpha2.Callbacks/PreCloudInitIso", iso, isoBack, codes.OK},
		{hook, "/kubevirt.hooks.v1alpha3.Callbacks/PreCloudInitIso", iso, isoBack, codes.OK},
		{hook, "/kubevirt.hooks.v1alpha2.Callbacks/Shutdown", nil, nil, codes.Unimplemented},
		{hook, "/kubevirt.hooks.plugins.v1alpha1.DomainHookService/MutateDomain",
			mutate("libvirt", "Boot"), nil, codes.Unimplemented},
		{plugin, "/kubevirt.hooks.info.Info/Info", nil, nil, codes.Unimplemented},
		{plugin, "/kubevirt.hooks.plugins.v1alpha1.DomainHookService/MutateDomain",
			mutate("libvirt", "Boot"), encode(field{1, "plugin <domain/> {}"}), codes.OK},
		{plugin, "/kubevirt.hooks.plugins.v1alpha1.DomainHookService/MutateDomain",
			mutate("libvirt", "MigrationTarget"), encode(field{1, "<domain/>"}), codes.OK},
		{plugin, "/kubevirt.hooks.plugins.v1alpha1.DomainHookService/MutateDomain",
			mutate("cloud-hypervisor", "Boot"), nil, codes.InvalidArgument},
		{plugin, "/kubevirt.hooks.plugins.v1alpha1.DomainHookService/MutateDomain", nil, nil,
			codes.InvalidArgument},
		// cut in a field
		{plugin, "/kubevirt.hooks.plugins.v1alpha1.DomainHookService/MutateDomain",
			mutate("libvirt", "")[:11], nil, codes.Internal},
		{hook, "/kubevirt.hooks.plugins.v1alpha1.LauncherHookService/GuestDefinition",
			mutate("libvirt", "Boot"), nil, codes.Unimplemented},
		{plugin, "/kubevirt.hooks.plugins.v1alpha1.LauncherHookService/GuestDefinition",
			mutate("libvirt", "Boot"), encode(field{1, "plugin <domain/> {}"}), codes.OK},
		{plugin, "/kubevirt.hooks.plugins.v1alpha1.LauncherHookService/GuestDefinition",
			mutate("libvirt", "MigrationTarget"), encode(field{1, "<domain/>"}), codes.OK},
		{plugin, "/kubevirt.hooks.plugins.v1alpha1.LauncherHookService/GuestDefinition",
			mutate("cloud-hypervisor", "Boot"), nil, codes.InvalidArgument},
		{plugin, "/kubevirt.hooks.plugins.v1alpha1.LauncherHookService/GuestDefinition", nil, nil,
			codes.InvalidArgument},
		// cut in a field
		{plugin, "/kubevirt.hooks.plugins.v1alpha1.LauncherHookService/GuestDefinition",
			mutate("libvirt", "")[:11], nil, codes.Internal},
		// This one stops the server.
		{hook, "/kubevirt.hooks.v1alpha3.Callbacks/Shutdown", nil, nil, codes.OK},
	}

	for _, tt := range tests {
		got, err := tt.wire.call(t, tt.method, tt.request)
		if status.Code(err) != tt.code {
			t.Errorf("%s of %q: %v, want %s", tt.method, tt.request, err, tt.code)
		}
		expect.Same(t, string(tt.want), string(got), "%s of %q (-want +got)", tt.method, tt.request)
	}

	waitDone(t, server)
}
