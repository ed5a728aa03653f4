package hooks_test

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/hooks/hookstest"
)

func TestMessageSizes(t *testing.T) {
	grown := make([]byte, hooks.MaxReply+1)
	server := hookstest.Start(t,
		hooks.Config{Mutator: hookstest.Func(func(_ context.Context, call hooks.Call) ([]byte,
			error) {
			if string(call.Domain) == "grow" {
				return grown, nil
			}
			return call.Domain, nil
		})})

	client := hookstest.Dial(t, server.HookSocket)
	call := func(domain, vmi []byte) ([]byte, error) {
		return client.OnDefineDomain(t.Context(), hooks.V1alpha3, domain, vmi)
	}

	// MaxReply is the largest supported domain, and 3 MiB is more than etcd stores of
	// a VMI.
	if got, err := call(make([]byte, hooks.MaxReply), make([]byte, 3<<20)); err != nil ||
		len(got) != hooks.MaxReply {
		t.Errorf("a domain of MaxReply with a VMI of 3 MiB: %d bytes, %v", len(got), err)
	}

	if got, err := call(grown[:hooks.MaxReply], nil); err != nil || len(got) != hooks.MaxReply {
		t.Errorf("the largest reply: %d bytes, %v", len(got), err)
	}

	// The client has virt-launcher's limit, so MaxReply is right if one more byte
	// is too many.
	if _, err := call([]byte("grow"), nil); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a reply past MaxReply: %v, want ResourceExhausted", err)
	}

	if _, err := call(make([]byte, hooks.MaxMessage),
		nil); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a request past the limit: %v, want ResourceExhausted", err)
	}

	if got, err := call([]byte("<domain/>"), nil); err != nil || string(got) != "<domain/>" {
		t.Errorf("the next call: %q, %v", got, err)
	}
}
