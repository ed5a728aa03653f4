package main

import (
	"cmp"
	"context"
	"fmt"

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
		if len(guestFiles) > 0 && cluster.IsUnreachable(err) {
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
	if err := client.AddEvidence(ctx, e); err != nil {
		return err
	}

	if err := a.checkHook(ctx, client, name, e); err != nil {
		e.Unread = append(e.Unread, reasons.Text(err))
	}

	return nil
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
