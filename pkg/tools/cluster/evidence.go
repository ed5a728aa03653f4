package cluster

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/tools/cluster/why"
)

// AddEvidence adds what the cluster has about a VM that may not start, and what the VM waits for.
// What the user may not read is left out, and named in Unread. The error says that there is no such
// VM.
func (c *Client) AddEvidence(ctx context.Context, e *why.Evidence) error {
	name := types.NamespacedName{Namespace: e.Namespace, Name: e.Name}
	read := func(q Query) error { return c.addTo(ctx, e, q) }

	if IsUnreachable(read(Object(VMs, name))) {
		_, err := c.Instance(ctx, name)
		return err
	}

	vmiErr := read(Object(VMIs, name))
	read(Query{Resource: "pods", Namespace: name.Namespace})
	read(Query{Resource: "events", Namespace: name.Namespace})
	c.addLogs(ctx, e, e.Logs, "5000")

	r := e.Diagnose()
	if vmiErr != nil && r.State.Name == "unknown" &&
		len(r.Causes)+len(r.History)+len(r.Errors) == 0 {
		_, err := c.Instance(ctx, name)
		return err // says what there is
	}

	if r.State.Name != "running" {
		for _, q := range Related(name.Namespace) {
			read(q)
		}
	}

	waitsFor := []string{"no-node", "claim-not-allocated"}
	switch {
	case len(r.Causes) > 0 && slices.Contains(waitsFor, r.Causes[0].Name):
		c.addProviders(ctx, e)

	case r.IsUnknown() && r.Node != "": // what does not run there
		read(Query{
			Resource: "pods", Parameters: map[string]string{"fieldSelector": "spec.nodeName=" + r.Node},
		})
	}

	return nil
}

// addProviders adds who has what the VM lacks, and what makes or offers it: nodes, pods, their events
// and the ends of their logs.
func (c *Client) addProviders(ctx context.Context, e *why.Evidence) {
	read := func(q Query) error { return c.addTo(ctx, e, q) }
	read(Query{Resource: "nodes"})
	if read(Query{Resource: "pods"}) != nil {
		return
	}

	read(Query{Group: "kubevirt.io", Resource: "kubevirts"})
	for _, r := range Resources {
		if r.IsProvider {
			read(r.Query)
		}
	}

	logs := e.ProviderLogs()
	if len(logs) == 0 {
		return
	}

	read(Query{Resource: "events"})
	if e.HasNodeNetworks() {
		read(NodeNetworks)
	}

	const most = 32
	c.addLogs(ctx, e, logs[:min(len(logs), most)], "500")
}

// addLogs adds the last lines of logs.
func (c *Client) addLogs(
	ctx context.Context, e *why.Evidence, logs []why.Log, lines string,
) {
	for _, l := range logs {
		err := c.addTo(ctx, e, Query{
			Resource:  "pods",
			Namespace: l.Namespace,
			Name:      l.Pod,
			Part:      "log",
			Parameters: map[string]string{
				"container":  l.Container,
				"previous":   fmt.Sprint(l.Before),
				"tailLines":  lines,
				"limitBytes": "8000000",
			},
		})
		if apierrors.IsForbidden(err) {
			return // so are the others
		}
	}
}

// addTo adds objects or a log to the evidence, or why they cannot be read.
func (c *Client) addTo(ctx context.Context, e *why.Evidence, q Query) error {
	data, err := c.Get(ctx, q)
	switch {
	case err == nil && q.Part == "log":
		e.AddLog(fmt.Sprintf("log of container %s of pod %s", q.Parameters["container"],
			q.Name), string(data))

	case err == nil:
		e.Add("", data)
	case !apierrors.IsNotFound(err) && !apierrors.IsBadRequest(err):
		// a bad request is the log of a container that has none
		e.Unread = append(e.Unread, reasons.Text(err))
	}

	return err
}
