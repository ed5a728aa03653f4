package hooks_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/hooks/hookstest"
	"hook-sidecar/test/expect"
)

// mark returns a mutator that returns its input.
func mark(_ context.Context, call hooks.Call) ([]byte, error) {
	return fmt.Appendf(nil, "%s %s %s", call.Protocol, call.Domain, call.VMI), nil
}

func fail(err error) hookstest.Func {
	return func(context.Context, hooks.Call) ([]byte, error) { return nil, err }
}

// record returns a logger and its output, to be read when the server has ended.
func record() (*slog.Logger, *bytes.Buffer) {
	var log bytes.Buffer
	return slog.New(slog.NewTextHandler(&log, nil)), &log
}

// stopped stops a server, so that its log can be read.
func stopped(t *testing.T, server *hookstest.Server) {
	t.Helper()
	server.Stop()
	if err := server.Wait(); err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestInfo(t *testing.T) {
	points := []string{"OnDefineDomain", "Shutdown"}
	tests := map[string]struct {
		versions []string
		want     hookstest.Info
		chosen   string
	}{
		"all by default": {nil, hookstest.Info{
			Versions: []string{"v1alpha3", "v1alpha2", "v1alpha1"}, HookPoints: points,
		}, "v1alpha3"},
		"one with Shutdown": {[]string{"v1alpha3"},
			hookstest.Info{Versions: []string{"v1alpha3"}, HookPoints: points}, "v1alpha3"},
		"none with Shutdown": {[]string{"v1alpha1", "v1alpha2"},
			hookstest.Info{
				Versions: []string{"v1alpha1", "v1alpha2"}, HookPoints: points[:1],
			}, "v1alpha2"},
	}

	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			server := hookstest.Start(t, hooks.Config{
				Mutator: hookstest.Func(mark), Versions: tt.versions,
			})

			// Client.Info has virt-launcher's deadline of one second.
			got, err := hookstest.Dial(t, server.HookSocket).Info(t.Context())
			expect.NoError(t, err)
			tt.want.Name = "hook-sidecar"
			expect.Same(t, tt.want, got, "Info (-want +got)")
			if chosen, err := got.Version(); err != nil || chosen != tt.chosen {
				t.Errorf("Version() = %q, %v, want %q", chosen, err, tt.chosen)
			}
		})
	}
}

func TestVersionWithNothingInCommon(t *testing.T) {
	if got, err := (hookstest.Info{Versions: []string{"v2"}}).Version(); err == nil ||
		!strings.Contains(err.Error(), `"v2"`) {
		t.Errorf("Version() = %q, %v, want an error that names v2", got, err)
	}
}

func TestOnlyChosenVersionsAnswer(t *testing.T) {
	server := hookstest.Start(t, hooks.Config{
		Mutator: hookstest.Func(mark), Versions: []string{hooks.V1alpha2},
	})

	client := hookstest.Dial(t, server.HookSocket)
	for _, version := range hooks.Versions() {
		_, err := client.OnDefineDomain(t.Context(), version, []byte("<domain/>"), nil)
		want := codes.Unimplemented
		if version == hooks.V1alpha2 {
			want = codes.OK
		}

		if got := status.Code(err); got != want {
			t.Errorf("OnDefineDomain of %s: %v, want %v", version, err, want)
		}
	}

	if _, err := client.OnDefineDomain(t.Context(), "v2", nil, nil); err == nil ||
		!strings.Contains(err.Error(), ".v2.") {
		t.Errorf("OnDefineDomain of v2: %v, want an error that names it", err)
	}
}

// In a migration KubeVirt discards the answer but not an error, so nothing that the
// mutator returns may reach it.
func TestMigrationReturnsTheInput(t *testing.T) {
	for name, answer := range map[string]hookstest.Func{
		"other bytes": mark,
		"no bytes":    fail(nil),
		"an error":    fail(errors.New("strict says no")),
		"a panic":     func(context.Context, hooks.Call) ([]byte, error) { panic("lost") },
	} {
		t.Run(name, func(t *testing.T) {
			var calls []hooks.Call
			server := hookstest.Start(t,
				hooks.Config{Mutator: hookstest.Func(func(ctx context.Context,
					call hooks.Call) ([]byte, error) {
					calls = append(calls, call)
					return answer(ctx, call)
				})})

			client := hookstest.Dial(t, server.PluginSocket)
			contexts := []string{hooks.MigrationTarget, hooks.MigrationSource, "AContextOfTomorrow"}
			for _, invocation := range contexts {
				got, err := client.MutateDomain(t.Context(), invocation, []byte("<domain/>"), nil)
				if err != nil || string(got) != "<domain/>" {
					t.Errorf("MutateDomain in %s = %q, %v, want the input", invocation, got, err)
				}
			}

			stopped(t, server)
			if len(calls) != len(contexts) {
				t.Fatalf("the mutator saw %d calls, want %d", len(calls), len(contexts))
			}

			for i, call := range calls {
				if !call.Migration {
					t.Errorf("the mutator saw no migration in context %s", contexts[i])
				}
			}
		})
	}
}

func TestRefusal(t *testing.T) {
	cause := errors.New("gpu-1 has no guest cell; add numa.guestMappingPassthrough")
	tests := map[string]struct {
		err  error
		want codes.Code
	}{
		"malformed": {status.Error(codes.InvalidArgument, cause.Error()), codes.InvalidArgument},
		"refused": {status.Error(codes.FailedPrecondition, cause.Error()),
			codes.FailedPrecondition},
		"no status": {cause, codes.Unknown},
	}

	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			log, written := record()
			server := hookstest.Start(t, hooks.Config{Mutator: fail(tt.err), Logger: log})
			_, hookErr := hookstest.Dial(t, server.HookSocket).OnDefineDomain(t.Context(),
				hooks.V1alpha1, []byte("<domain/>"), nil)
			_, pluginErr := hookstest.Dial(t, server.PluginSocket).MutateDomain(t.Context(),
				hooks.Boot, []byte("<domain/>"), nil)
			for _, err := range []error{hookErr, pluginErr} {
				if status.Code(err) != tt.want || !strings.Contains(err.Error(), cause.Error()) {
					t.Errorf("got %v, want code %s and the mutator's text", err, tt.want)
				}
			}

			stopped(t, server)
			if got := strings.Count(written.String(), cause.Error()); got != 2 {
				t.Errorf("two refusals made %d log entries:\n%s", got, written)
			}
		})
	}
}

// The mutator decides about an empty domain, because only it knows strict.
func TestEmptyDomainReachesTheMutator(t *testing.T) {
	server := hookstest.Start(t, hooks.Config{
		Mutator: fail(status.Error(codes.InvalidArgument, "empty domain")),
	})

	_, err := hookstest.Dial(t, server.HookSocket).OnDefineDomain(t.Context(), hooks.V1alpha3, nil,
		nil)
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("OnDefineDomain of nothing: %v, want InvalidArgument", err)
	}

	server = hookstest.Start(t, hooks.Config{Mutator: hookstest.Func(hookstest.Echo)})
	got, err := hookstest.Dial(t, server.HookSocket).OnDefineDomain(t.Context(), hooks.V1alpha3,
		nil, nil)
	if err != nil || len(got) != 0 {
		t.Errorf("OnDefineDomain of nothing = %q, %v, want nothing", got, err)
	}
}

func TestInputIsReturned(t *testing.T) {
	const secret = "s3cret-graphics-password"
	domain := []byte("<domain>" + secret + "</domain>")
	tests := map[string]struct {
		mutator hookstest.Func
		logged  string
	}{
		"panic": {func(context.Context, hooks.Call) ([]byte, error) {
			panic("lost the plan")
		}, "lost the plan"},
		"runtime panic": {func(_ context.Context, c hooks.Call) ([]byte, error) {
			return c.Domain[len(c.Domain)+1:], nil
		}, "slice bounds"},
		"long panic": {func(_ context.Context, c hooks.Call) ([]byte, error) {
			panic(strings.Repeat("x", 300) + string(c.Domain))
		}, "xxx…"},
		"empty answer": {fail(nil), "empty domain"},
	}

	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			log, written := record()
			server := hookstest.Start(t, hooks.Config{Mutator: tt.mutator, Logger: log})
			client, plugin := hookstest.Dial(t, server.HookSocket), hookstest.Dial(t,
				server.PluginSocket)
			for _, version := range hooks.Versions() {
				got, err := client.OnDefineDomain(t.Context(), version, domain, nil)
				if err != nil || !bytes.Equal(got, domain) {
					t.Errorf("OnDefineDomain of %s = %q, %v, want the input", version, got, err)
				}
			}

			got, err := plugin.MutateDomain(t.Context(), hooks.Boot, domain, nil)
			if err != nil || !bytes.Equal(got, domain) {
				t.Errorf("MutateDomain = %q, %v, want the input", got, err)
			}

			stopped(t, server)
			if got := strings.Count(written.String(), "level=ERROR"); got != 4 {
				t.Errorf("four calls made %d errors in the log:\n%s", got, written)
			}

			if !strings.Contains(written.String(), tt.logged) {
				t.Errorf("the log does not contain %q:\n%s", tt.logged, written)
			}

			if strings.Contains(written.String(), secret) {
				t.Errorf("the log contains the domain:\n%s", written)
			}
		})
	}
}
