package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/tools/cli"
	"hook-sidecar/pkg/tools/cluster"
	"hook-sidecar/pkg/tools/cluster/archive"
	"hook-sidecar/pkg/tools/cluster/why"
)

// readEvidence reads the VM from the cluster or from a user's files, and what the guest printed. A
// cluster that does not answer keeps no user from the guest's files.
func (a *app) readEvidence(
	ctx context.Context, client *cluster.Client, inputs []archive.Input, guestFiles []string,
	e *why.Evidence,
) (err error) {
	name := types.NamespacedName{Namespace: e.Namespace, Name: e.Name}
	switch {
	case client != nil:
		err = a.readVM(ctx, client, name, e)
		if len(guestFiles) > 0 && isUnreachable(err) {
			err = nil // Unread says so
		}

	case len(inputs) > 0:
		err = untilDone(ctx, func() error { return a.addInputs(ctx, inputs, e) })
	}

	if err != nil {
		return err
	}

	return untilDone(ctx, func() error { return a.readGuestFiles(guestFiles, e) })
}

// addInputs adds a user's files, and what the installation of an archive lacks.
func (a *app) addInputs(ctx context.Context, inputs []archive.Input, e *why.Evidence) error {
	for _, in := range inputs {
		e.AddInput(in)
		if in.Collected != nil {
			a.archives = append(a.archives, in)
		}
	}

	if err := e.Missing(); err != nil {
		return cli.Failed("name the VM and, with -n, its namespace as the files have them", err)
	}
	if len(a.archives) == 0 {
		return nil
	}

	client, namespace, err := a.connect()
	if err != nil {
		return err
	}

	name := types.NamespacedName{Namespace: cmp.Or(e.Namespace, namespace), Name: e.Name}
	if name.Namespace == "" {
		name.Namespace = archived(a.archives, e.Name)
	}

	if err := a.checkHook(ctx, client, name, e); err != nil {
		e.Unread = append(e.Unread, reasons.Text(err))
	}

	return nil
}

// readGuestFiles adds what a user copied out of the guest.
func (a *app) readGuestFiles(names []string, e *why.Evidence) error {
	for _, name := range names {
		data, err := a.ReadFile(name, cli.MaxInput)
		if err == nil {
			err = e.AddGuestFile(cli.InputName(name), data)
		}

		if err != nil {
			return err
		}
	}

	return nil
}

// untilDone does something that no context ends, such as to read a pipe, and returns earlier if the
// context ends.
func untilDone(ctx context.Context, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("interrupted: %w", ctx.Err())
	}
}

// readVM reads a VM from the cluster. It leaves out and names what the user may not read.
func (a *app) readVM(
	ctx context.Context, client *cluster.Client, name types.NamespacedName, e *why.Evidence,
) error {
	defer a.Await(fmt.Sprintf("VM %s, at most %s (--timeout)", name, a.timeout))()
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	read := func(q cluster.Query) error { return readInto(ctx, client, q, e) }

	if isUnreachable(read(cluster.Object(cluster.VMs, name))) {
		_, err := client.Instance(ctx, name)
		return err
	}

	vmiErr := read(cluster.Object(cluster.VMIs, name))
	read(cluster.Query{Resource: "pods", Namespace: name.Namespace})
	read(cluster.Query{Resource: "events", Namespace: name.Namespace})
	readLogs(ctx, client, e.Logs, "5000", e)

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
		readProviders(ctx, client, e)

	case isUnknown(r) && r.Node != "": // what does not run there
		read(cluster.Query{
			Resource: "pods", Parameters: map[string]string{"fieldSelector": "spec.nodeName=" + r.Node},
		})
	}

	if err := a.checkHook(ctx, client, name, e); err != nil {
		e.Unread = append(e.Unread, reasons.Text(err))
	}

	return nil
}

// readProviders adds who has what the VM lacks, and what makes or offers it: nodes, pods, their events
// and the ends of their logs.
func readProviders(ctx context.Context, client *cluster.Client, e *why.Evidence) {
	read := func(q cluster.Query) error { return readInto(ctx, client, q, e) }
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
	readLogs(ctx, client, logs[:min(len(logs), most)], "500", e)
}

// readLogs adds the last lines of logs.
func readLogs(
	ctx context.Context, client *cluster.Client, logs []why.Log, lines string, e *why.Evidence,
) {
	for _, l := range logs {
		err := readInto(ctx, client, cluster.Query{
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
		}, e)
		if apierrors.IsForbidden(err) {
			return // so are the others
		}
	}
}

// readInto adds objects or a log of the cluster to the evidence, or why they cannot be read.
func readInto(
	ctx context.Context, client *cluster.Client, q cluster.Query, e *why.Evidence,
) error {
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

// isUnreachable reports whether the API server did not answer at all.
func isUnreachable(err error) bool {
	var failed *url.Error
	return errors.As(err, &failed)
}

// checkHook checks the cluster for a VM that requests the hook, unless it runs as the hook plans.
func (a *app) checkHook(
	ctx context.Context, client *cluster.Client, name types.NamespacedName, e *why.Evidence,
) error {
	if !kubevirt.RequestsHook(e.Labels, e.Annotations) {
		return nil
	}

	if e.Runs() {
		vm, err := a.read(ctx, client, name, cluster.DevicesOnly)
		if err != nil {
			return err
		}

		running, err := newRunning(vm, plan.Planner{Sysfs: vm.Host})
		if err != nil || !lacksHook(vm, running) {
			return err
		}
	}

	problems, err := a.problems(ctx, client)
	e.Installation = append(e.Installation, problems...)
	return err
}
