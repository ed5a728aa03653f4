package apiserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// notFound is a shell's exit status of a command that does not exist.
const notFound = 127

// exec runs a command over WebSocket, in version 5 of the protocol, the only one in
// which client-go speaks it. `make kubectl` has SPDY.
func (c *Cluster) exec(w http.ResponseWriter, r *http.Request) {
	if err := c.refuse(r, "create", schema.GroupResource{Resource: "pods/exec"}); err != nil {
		fail(w, err)
		return
	}

	conn := wsstream.NewConn(
		map[string]wsstream.ChannelProtocolConfig{remotecommand.StreamProtocolV5Name: {
			Binary: true,
			Channels: []wsstream.ChannelType{
				wsstream.ReadChannel, wsstream.WriteChannel, wsstream.WriteChannel,
				wsstream.WriteChannel,
			},
		}})

	_, streams, err := conn.Open(w, r)
	if err != nil {
		return // Open has answered the client
	}

	defer conn.Close()
	var input []byte
	if r.FormValue("stdin") == "true" {
		if input, err = io.ReadAll(streams[remotecommand.StreamStdIn]); err != nil {
			return
		}
	}

	status := c.run(c.command(r, string(input)), streams[remotecommand.StreamStdIn],
		streams[remotecommand.StreamStdOut], streams[remotecommand.StreamStdErr])
	json.NewEncoder(streams[remotecommand.StreamErr]).Encode(status)
}

// command finds the command of a request; without one it is what a shell prints.
func (c *Cluster) command(r *http.Request, input string) command {
	words := strings.Join(r.URL.Query()["command"], " ")
	for _, d := range c.containers {
		if !d.isOf(r.PathValue("namespace"), r.PathValue("name"), r.FormValue("container")) {
			continue
		}

		i := slices.IndexFunc(d.Commands, func(c command) bool {
			return strings.HasPrefix(words+" ", c.Command+" ") && strings.Contains(input, c.Input)
		})
		if i >= 0 {
			return d.Commands[i]
		}
	}

	return command{Stderr: "sh: 1: " + words + ": not found\n", Exit: notFound}
}

// run does what the command does, and returns how it ended.
func (c *Cluster) run(cmd command, in io.Reader, out, errs io.Writer) metav1.Status {
	time.Sleep(time.Duration(cmd.Delay) * time.Millisecond)
	data := []byte(cmd.Stdout)
	var err error
	if cmd.File != "" {
		data, err = os.ReadFile(filepath.Join(c.dir, cmd.File))
	}

	if err == nil {
		_, err = out.Write(data)
	}

	if err == nil {
		_, err = io.WriteString(errs, cmd.Stderr)
	}

	for endless := bytes.Repeat([]byte("x"), 1<<16); err == nil && cmd.Endless; {
		_, err = out.Write(endless)
	}

	if cmd.Silent {
		io.Copy(io.Discard, in) // which ends when the client leaves
	}

	switch {
	case err != nil:
		return metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
	case cmd.Error != "":
		return metav1.Status{
			Status:  metav1.StatusFailure,
			Reason:  metav1.StatusReasonInternalError,
			Message: cmd.Error,
		}

	case cmd.Exit != 0:
		return metav1.Status{
			Status: metav1.StatusFailure, Reason: remotecommand.NonZeroExitCodeReason,
			Message: fmt.Sprint("command terminated with non-zero exit code: exit status ",
				cmd.Exit),
			Details: &metav1.StatusDetails{
				Causes: []metav1.StatusCause{
					{Type: remotecommand.ExitCodeCauseType, Message: fmt.Sprint(cmd.Exit)},
				},
			},
		}
	}

	return metav1.Status{Status: metav1.StatusSuccess}
}
