package why

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/tools/cluster"
)

// ReadFrom adds what a cluster has about the VM, and what it waits for. What the user may not read is
// left out, and named in Unread. The error says that there is no such VM.
func (e *Evidence) ReadFrom(ctx context.Context, client *cluster.Client) error {
	name := types.NamespacedName{Namespace: e.Namespace, Name: e.Name}
	read := func(q cluster.Query) error { return e.readQuery(ctx, client, q) }

	if cluster.IsUnreachable(read(cluster.Object(cluster.VMs, name))) {
		_, err := client.Instance(ctx, name)
		return err
	}

	vmiErr := read(cluster.Object(cluster.VMIs, name))
	read(cluster.Query{Resource: "pods", Namespace: name.Namespace})
	read(cluster.Query{Resource: "events", Namespace: name.Namespace})
	e.readLogs(ctx, client, e.Logs, "5000")

	r := e.Diagnose()
	if vmiErr != nil && r.State.Name == "unknown" &&
		len(r.Causes)+len(r.History)+len(r.Errors) == 0 {
		_, err := client.Instance(ctx, name)
		return err // says what there is
	}

	if r.State.Name != "running" {
		for _, q := range cluster.Related(name.Namespace) {
			read(q)
		}
	}

	waitsFor := []string{"no-node", "claim-not-allocated"}
	switch {
	case len(r.Causes) > 0 && slices.Contains(waitsFor, r.Causes[0].Name):
		e.readProviders(ctx, client)

	case r.IsUnknown() && r.Node != "": // what does not run there
		read(cluster.Query{
			Resource: "pods", Parameters: map[string]string{"fieldSelector": "spec.nodeName=" + r.Node},
		})
	}

	return nil
}

// readProviders adds who has what the VM lacks, and what makes or offers it: nodes, pods, their events
// and the ends of their logs.
func (e *Evidence) readProviders(ctx context.Context, client *cluster.Client) {
	read := func(q cluster.Query) error { return e.readQuery(ctx, client, q) }
	read(cluster.Query{Resource: "nodes"})
	if read(cluster.Query{Resource: "pods"}) != nil {
		return
	}

	read(cluster.Query{Group: "kubevirt.io", Resource: "kubevirts"})
	for _, r := range cluster.Resources {
		if r.IsProvider {
			read(r.Query)
		}
	}

	logs := e.ProviderLogs()
	if len(logs) == 0 {
		return
	}

	read(cluster.Query{Resource: "events"})
	if e.HasNodeNetworks() {
		read(cluster.NodeNetworks)
	}

	const most = 32
	e.readLogs(ctx, client, logs[:min(len(logs), most)], "500")
}

// readLogs adds the last lines of logs.
func (e *Evidence) readLogs(
	ctx context.Context, client *cluster.Client, logs []Log, lines string,
) {
	for _, l := range logs {
		err := e.readQuery(ctx, client, cluster.Query{
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

// readQuery adds objects or a log of the cluster to the evidence, or why they cannot be read.
func (e *Evidence) readQuery(ctx context.Context, client *cluster.Client, q cluster.Query) error {
	data, err := client.Get(ctx, q)
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
