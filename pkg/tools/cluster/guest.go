package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/pkg/reasons"
)

// maxGuest limits the size of an answer of the guest agent, base64 in JSON.
const maxGuest = maxSnapshot

// pollEvery is the interval of queries whether a command of the agent has ended.
const pollEvery = 200 * time.Millisecond

// Guest returns a snapshot of the guest's own sysfs, taken by its agent.
func (c *Client) Guest(ctx context.Context, vm RunningVM) ([]byte, error) {
	var started struct {
		PID int `json:"pid"`
	}

	err := c.ask(ctx, vm, "guest-exec", map[string]any{
		"path": "/bin/sh", "arg": []string{"-s"}, "input-data": []byte(host.Script("/sys", nil)),
		"capture-output": true,
	}, &started)
	if err != nil {
		return nil, err
	}

	for {
		var status struct {
			Exited    bool   `json:"exited"`
			Code      int    `json:"exitcode"`
			Out       []byte `json:"out-data"`
			Truncated bool   `json:"out-truncated"`
		}

		if err := c.ask(ctx, vm, "guest-exec-status", map[string]any{
			"pid": started.PID,
		}, &status); err != nil {
			return nil, err
		}

		switch {
		case status.Exited && (status.Code != 0 || status.Truncated):
			return nil, fmt.Errorf("read the guest's sysfs by its agent: exit status %d, %d bytes",
				status.Code, len(status.Out))
		case status.Exited:
			return status.Out, nil
		}

		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("read the guest's sysfs by its agent: %w", context.Cause(ctx))
		case <-time.After(pollEvery):
		}
	}
}

// ask sends a command to the guest's agent (QEMU qga/qapi-schema.json) through the input of
// a shell: arguments of an exec are in the URL, whose length proxies limit.
func (c *Client) ask(
	ctx context.Context, vm RunningVM, name string, arguments map[string]any, answer any,
) error {
	request, err := json.Marshal(map[string]any{"execute": name, "arguments": arguments})
	if err != nil {
		return err
	}

	script := fmt.Sprintf("exec virsh -q -c %s qemu-agent-command %s %s\n", host.Quoted(vm.uri()),
		host.Quoted(kubevirt.DomainName(vm.NamespacedName)), host.Quoted(string(request)))
	out, err := c.exec(ctx, vm.pod, command{
		container: compute, words: []string{"sh", "-s"}, input: script, limit: maxGuest,
	})

	var exit *exitError
	if errors.As(err, &exit) {
		return reasons.WithHint("the guest has to run qemu-guest-agent, and allow "+name+
			"; or pass the guest's output of lspci -Dvmmnn with --guest-file",
			fmt.Errorf("ask the guest's agent for %s: %w", name, err))
	}

	if err != nil {
		return err
	}

	if err := json.Unmarshal(out, &struct {
		Return any `json:"return"`
	}{answer}); err != nil {
		return fmt.Errorf("ask the guest's agent for %s: its answer does not match the agent's "+
			"schema", name)
	}

	return nil
}
