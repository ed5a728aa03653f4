package kubectl

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

// process runs a command in a container.
type process func(ctx context.Context, words []string, in io.Reader, out, errs io.Writer) error

// kubelet is a node's kubelet as far as exec and logs go, with the streaming server of kubelet and
// container runtimes.
type kubelet struct {
	*httptest.Server
	mu         sync.Mutex
	containers map[string]process // by pod/container
	refused    bool               // as by a kubelet that does not know the caller
	logs       sync.Map           // by namespace/pod/container
}

func newKubelet(t *testing.T) *kubelet {
	t.Helper()
	k := &kubelet{containers: map[string]process{}}
	k.Server = httptest.NewTLSServer(k)
	t.Cleanup(k.Close)
	return k
}

// port returns where the API server finds it.
func (k *kubelet) port() int { return k.Listener.Addr().(*net.TCPAddr).Port }

func (k *kubelet) add(container string, p process) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.containers[container] = p
}

// ServeHTTP answers /exec/NAMESPACE/POD/CONTAINER and /containerLogs/… as the kubelet does
// (Kubernetes pkg/kubelet/server/server.go, getExec and getContainerLogs).
func (k *kubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(parts) == 4 && parts[0] == "containerLogs" {
		if log, hasLog := k.logs.Load(strings.Join(parts[1:], "/")); hasLog {
			fmt.Fprint(w, log)
		}
		return
	}

	if len(parts) != 4 || parts[0] != "exec" {
		http.NotFound(w, r)
		return
	}

	k.mu.Lock()
	words, refused := r.URL.Query()["command"], k.refused
	k.mu.Unlock()

	if refused {
		http.Error(w, "Forbidden (user=apiserver, verb=create, resource=nodes, subresource=proxy)",
			http.StatusForbidden)
		return
	}

	options, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}

	remotecommand.ServeExec(w, r, k, parts[2], "", parts[3], words, options, time.Minute,
		time.Minute, remotecommand.SupportedStreamingProtocols)
}

// ExecInContainer implements remotecommand.Executor.
func (k *kubelet) ExecInContainer(
	ctx context.Context, pod, _, container string, words []string, in io.Reader, out,
	errs io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration,
) error {
	k.mu.Lock()
	run := k.containers[pod+"/"+container]
	k.mu.Unlock()
	return run(ctx, words, in, out, errs)
}
