package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"

	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/tools/cluster/redact"
	"hook-sidecar/pkg/words"
)

// command is a command to run in a container.
type command struct {
	container string
	words     []string
	input     string
	limit     int    // of its standard output, in bytes
	file      string // of the pod in an archive, which has what the command prints; "" for none
}

// Limits of a command's standard error in bytes: what is kept, and what an error shows.
const (
	maxMessage   = 4 << 10
	shownMessage = 300
)

// exec returns also when the context ends. The command may then go on in its container.
func (s *server) exec(ctx context.Context, pod *corev1.Pod, cmd command) ([]byte, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	request := s.rest.Post().
		Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("exec").
		Param("container", cmd.container).Param("stdout", "true").Param("stderr", "true")
	for _, word := range cmd.words {
		request = request.Param("command", word)
	}

	streams := remotecommand.StreamOptions{}
	if cmd.input != "" {
		request = request.Param("stdin", "true")
		streams.Stdin = strings.NewReader(cmd.input)
	}

	stdout := &bounded{limit: cmd.limit, exceeded: func() {
		cancel(fmt.Errorf("it printed more than %d bytes", cmd.limit))
	}}

	stderr := &bounded{limit: maxMessage, exceeded: func() {}}
	streams.Stdout, streams.Stderr = stdout, stderr
	stream, err := s.executor(request.URL())
	if err == nil {
		err = stream.StreamWithContext(ctx, streams)
	}

	if err == nil {
		err = context.Cause(ctx) // the command printed too much and ended before the stream was cut
	}

	if err != nil {
		return nil, s.execError(ctx, pod, cmd, stderr.text(), err)
	}

	return []byte(stdout.text()), nil
}

// executor returns an executor that speaks WebSocket or, where the server or a proxy
// refuses it, SPDY, as kubectl does (k8s.io/kubectl pkg/cmd/exec/exec.go, createExecutor).
func (s *server) executor(to *url.URL) (remotecommand.Executor, error) {
	spdy, err := remotecommand.NewSPDYExecutor(s.config, http.MethodPost, to)
	if err != nil {
		return nil, err
	}

	websocket, err := remotecommand.NewWebSocketExecutor(s.config, http.MethodGet, to.String())
	if err != nil {
		return nil, err
	}

	return remotecommand.NewFallbackExecutor(websocket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
}

// execError returns the error of a command that failed or did not run.
func (s *server) execError(
	ctx context.Context, pod *corev1.Pod, cmd command, message string, err error,
) error {
	doing := fmt.Sprintf("run %s in container %s of pod %s/%s", cmd.words[0], cmd.container,
		pod.Namespace, pod.Name)
	var exit exec.CodeExitError
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, context.DeadlineExceeded):
		return reasons.WithHint("try again, or give it longer with --timeout",
			fmt.Errorf("%s: it did not end in time", doing))

	case cause != nil:
		return fmt.Errorf("%s: %w", doing, cause)
	case errors.As(err, &exit):
		return &exitError{
			fmt.Errorf("%s: exit status %d: %s", doing, exit.Code,
				words.AbridgeTo(words.Printable(words.OneLine(redact.Text(message))), shownMessage)),
			exit.Code,
		}
	}

	// client-go keeps the text of a refusal, not its status (k8s.io/streaming
	// pkg/httpstream/spdy/roundtripper.go, NewConnection).
	refusal, isRefused := strings.CutPrefix(err.Error(), "unable to upgrade connection: ")
	if isRefused && strings.Contains(refusal, " is forbidden: ") {
		err = &apierrors.StatusError{
			ErrStatus: metav1.Status{Reason: metav1.StatusReasonForbidden, Message: refusal},
		}
	}

	return right{"create", "", "pods/exec", pod.Namespace}.wrap(doing, err)
}

// exitError is the error of a command that ran and failed.
type exitError struct {
	error
	code int
}

// bounded collects data up to a limit. It discards the rest without an error, which
// client-go would print, and calls exceeded. client-go may write to it after the
// stream's end.
type bounded struct {
	limit    int
	exceeded func()

	mu   sync.Mutex
	data strings.Builder
}

func (b *bounded) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	kept := data[:min(len(data), b.limit-b.data.Len())]
	b.data.Write(kept)
	if len(kept) < len(data) {
		b.exceeded()
	}

	return len(data), nil
}

func (b *bounded) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.String()
}
