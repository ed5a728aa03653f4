package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"

	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/tools/cli"
	"hook-sidecar/pkg/tools/cluster"
	"hook-sidecar/pkg/tools/cluster/fit"
)

// checkClaims compares the claims of a name with what running VMs got by them. One that no running
// VM has is a warning, if another one is checked.
func (a *app) checkClaims(ctx context.Context, flags fitFlags) error {
	asked, err := a.readAsked(flags)
	if err != nil {
		return err
	}

	client, claimed, err := a.readClaimed(ctx, flags.checked)
	if err != nil {
		return err
	}

	fleet, err := a.readPublished(ctx, client, asked, claimed)
	if err != nil {
		return err
	}

	check := fit.Check{SchemaVersion: 1, Claims: []fit.CheckedClaim{}}
	var unchecked error
	for _, c := range claimed {
		one, err := a.checkClaim(ctx, client, fleet, cmp.Or(asked, c.Claim), c)
		if err == nil {
			check.Claims = append(check.Claims, one)
			continue
		}

		if len(claimed) > 1 {
			a.Say("warning: not checked: %s", reasons.Text(err))
		}
		unchecked = cmp.Or(unchecked, err)
	}

	if len(check.Claims) == 0 {
		return unchecked
	}

	err = a.WriteAs(flags.Output, check, func(b *bytes.Buffer) error {
		b.WriteString(check.Text())
		return nil
	})

	return cmp.Or(err, cli.Found(!check.IsAsAsked()))
}

// readAsked reads the claim or template that files have; nil without files. Archives of collect are
// what is read in place of the cluster.
func (a *app) readAsked(flags fitFlags) (*resourceapi.ResourceClaim, error) {
	inputs, err := a.readInputs(flags.files, maxObjects)
	if err != nil {
		return nil, err
	}

	var files []fit.File
	for _, in := range inputs {
		if in.Collected != nil {
			a.archives = append(a.archives, in)
			continue
		}
		for _, f := range in.Files {
			files = append(files, fit.File{Name: in.Name, Data: f.Data})
		}
	}

	if len(files) == 0 {
		return nil, nil
	}

	objects, err := fit.Parse(files...)
	if err != nil {
		return nil, err
	}

	return objects.Asked(flags.checked)
}

// readClaimed reads the claims of a name, with the VMs that have them.
func (a *app) readClaimed(
	ctx context.Context, name string,
) (*cluster.Client, []cluster.Claimed, error) {
	client, namespace, err := a.connect()
	if err != nil {
		return nil, nil, err
	}

	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	claimed, err := client.Claimed(ctx, namespace, name)
	return client, claimed, err
}

// readPublished reads what drivers publish of devices, as far as claims ask for it.
func (a *app) readPublished(
	ctx context.Context, client *cluster.Client, asked *resourceapi.ResourceClaim,
	claimed []cluster.Claimed,
) (*fit.Fleet, error) {
	var claims []*resourceapi.ResourceClaim
	for _, c := range claimed {
		claims = append(claims, c.Claim)
	}
	if asked != nil {
		claims = append(claims, asked)
	}

	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	data, err := client.Get(ctx, cluster.Query{
		Group: resourceapi.GroupName, Resource: "resourceslices",
	})
	if err != nil {
		return nil, err
	}

	objects, err := fit.ParseBeside(claims, fit.File{Name: "the cluster's resourceslices", Data: data})
	return fit.New(objects), err
}

// checkClaim checks one claim of a VM, which it reads.
func (a *app) checkClaim(
	ctx context.Context, client *cluster.Client, fleet *fit.Fleet,
	asked *resourceapi.ResourceClaim, c cluster.Claimed,
) (checked fit.CheckedClaim, err error) {
	if c.Err != nil {
		return checked, c.Err
	}

	vm, err := a.read(ctx, client, c.VM.NamespacedName, cluster.DevicesOnly)
	if err != nil {
		return checked, err
	}

	if vm.Pod != c.Pod {
		return checked, fmt.Errorf("claim %s is of pod %s, and VM %s runs in pod %s", c.Claim.Name,
			c.Pod, vm.NamespacedName, vm.Pod)
	}

	running, err := newRunning(vm, plan.Planner{Sysfs: vm.Host})
	if err != nil {
		return checked, err
	}

	return fleet.Check(asked, c.Claim, fit.RunningVM{
		Name: vm.String(), Node: vm.Node, Pod: vm.Pod, Plan: running.Current,
		ToDo: running.ToDo(),
	}), nil
}
