package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"kubevirt.io/api/core"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/tools/cli"
	"hook-sidecar/pkg/tools/cluster"
	"hook-sidecar/pkg/tools/cluster/archive"
	"hook-sidecar/pkg/tools/cluster/fit"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/topology/nvlink"
	"hook-sidecar/pkg/words"
)

// readFleet reads the files and, where they are not the cluster's, the cluster: as far as the user
// may.
func (a *app) readFleet(ctx context.Context, flags fitFlags) (objects fit.Objects, err error) {
	files, err := a.readShape(flags)
	if err != nil {
		return objects, err
	}

	var server string
	isLive := len(flags.from) == 0 && len(a.archives) == 0
	if isLive {
		client, _, err := a.connect()
		if err != nil {
			return objects, err
		}

		server, err = client.Version(ctx)
		switch status := apierrors.APIStatus(nil); {
		case err == nil, apierrors.IsNotFound(err):
		case !errors.As(err, &status): // no server answers, or none that is Kubernetes'
			return objects, err
		default:
			a.Say("warning: not read: %s", reasons.Text(err))
		}

		files = append(files, a.list(ctx, client, fitReads...)...)
	}

	if objects, err = fit.Parse(files...); err != nil {
		return objects, err
	}

	for _, in := range a.archives {
		server = cmp.Or(server, in.Collected.Versions["Kubernetes"])
	}

	objects.Only, objects.ServerVersion, objects.AssumedMinor = flags.node, server, flags.minor
	names := topology.Map(objects.Nodes, func(n *corev1.Node) string { return n.Name })
	if err := checkNodes(names, flags); err != nil {
		return objects, err
	}

	if objects.Partitions, err = a.readPartitions(flags); err != nil {
		return objects, err
	}

	objects.Hosts, err = a.readHosts(ctx, names, flags)
	if err == nil {
		err = a.addSnapshots(&objects)
	}

	if err == nil && (isLive || len(a.archives) > 0) && len(objects.Hosts) > 0 {
		objects.Held, err = a.readHeld(ctx, objects.Hosts)
	}

	return objects, err
}

// readShape reads the files of -f and --from. Of an archive of collect it takes the objects, and
// the VM where -f names it.
func (a *app) readShape(flags fitFlags) (files []fit.File, err error) {
	for i, names := range [][]string{flags.files, flags.from} {
		inputs, err := a.readInputs(names, maxObjects)
		if err != nil {
			return nil, err
		}

		for _, in := range inputs {
			if in.Collected != nil {
				a.archives = append(a.archives, in)
			}
			for _, f := range in.Files {
				isVM := f.Name == archive.ObjectsOf("virtualmachines")
				if in.Collected == nil || f.IsObjects() && (i == 0 || !isVM) {
					files = append(files, fit.File{Name: in.Name, Data: f.Data})
				}
			}
		}
	}

	return files, nil
}

// addSnapshots adds the nodes that archives have a snapshot of, unless a flag names another.
func (a *app) addSnapshots(objects *fit.Objects) error {
	for _, in := range a.archives {
		for _, f := range in.Files {
			namespace, pod, isSnapshot := f.Snapshot()
			i := slices.IndexFunc(objects.Pods, func(p *fit.Pod) bool {
				return isSnapshot && p.Namespace == namespace && p.Name == pod
			})
			if i < 0 || objects.Hosts[objects.Pods[i].Node] != nil {
				continue
			}

			sysfs, err := host.ParseSnapshot(f.Data)
			if err != nil {
				return fmt.Errorf("read %s: %s: %w", in.Name, f.Name, err)
			}

			objects.Hosts[objects.Pods[i].Node], _ = host.Read(sysfs, nil, host.All)
		}
	}

	return nil
}

// checkNodes checks that the cluster has the nodes that flags name.
func checkNodes(names []string, flags fitFlags) error {
	unknown := func(flag, name string) error {
		hint := words.DidYouMean(name, names, "", " ") + "kubectl get nodes lists them"
		return cli.Failed(hint, fmt.Errorf("%s: no node has this name", flag))
	}

	for flag, files := range map[string]map[string]string{
		"snapshot": flags.snapshots, "partitions": flags.partitions,
	} {
		for _, name := range slices.Sorted(maps.Keys(files)) {
			if !slices.Contains(names, name) {
				return unknown(fmt.Sprintf("--%s %s=%s", flag, name, files[name]), name)
			}
		}
	}

	switch {
	case len(names) == 0:
		return errors.New("read nodes: there is none")
	case flags.node != "" && !slices.Contains(names, flags.node):
		return unknown("--node "+flags.node, flags.node)
	}

	return nil
}

// readPartitions reads the lists of partitions.
func (a *app) readPartitions(flags fitFlags) (map[string]nvlink.List, error) {
	lists := map[string]nvlink.List{}
	for node, file := range flags.partitions {
		data, err := a.ReadInput(file)
		if err == nil {
			lists[node], err = nvlink.Parse(data)
		}

		if err != nil {
			return nil, fmt.Errorf("%s: %w", cli.InputName(file), err)
		}
	}

	return lists, nil
}

// readHosts reads the nodes that have a snapshot or, with a debug image, all that are counted.
func (a *app) readHosts(
	ctx context.Context, names []string, flags fitFlags,
) (map[string]*topology.Host, error) {
	hosts := map[string]*topology.Host{}
	for _, name := range names {
		file, isFile := flags.snapshots[name]
		var sysfs fs.FS
		var err error
		switch {
		case flags.node != "" && flags.node != name:
			continue
		case isFile:
			if sysfs, err = a.OpenSysfs(file); err != nil {
				return nil, err
			}

		case flags.image != "":
			if sysfs, err = a.readNode(ctx, name, nodePod{image: flags.image}); err != nil {
				a.Say("warning: not read: %s", reasons.Text(err))
				continue
			}

		default:
			continue
		}

		hosts[name], _ = host.Read(sysfs, nil, host.All)
	}

	return hosts, nil
}

// fitReads are the objects that fit reads from a cluster.
var fitReads = slices.Concat(
	resourcesOf("", "nodes", "pods"),
	resourcesOf(core.GroupName, "kubevirts"),
	resourcesOf(resourceapi.GroupName, "resourceslices", "deviceclasses", "resourceclaims",
		"resourceclaimtemplates"),
	[]cluster.Resource{cluster.TaintRules},
)

// resourcesOf returns resources of a group.
func resourcesOf(group string, names ...string) []cluster.Resource {
	return topology.Map(names, func(name string) cluster.Resource {
		return cluster.Resource{Query: cluster.Query{Group: group, Resource: name}}
	})
}

// fitResources returns the resources that fit reads and each cluster serves, as kubectl get takes
// them.
func fitResources() (names []string) {
	for _, r := range fitReads {
		if r.Versions == nil {
			names = append(names, r.Resource)
		}
	}
	return names
}

// list reads objects, as far as the user may.
func (a *app) list(
	ctx context.Context, client *cluster.Client, all ...cluster.Resource,
) (files []fit.File) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	lists, unread := client.ListAll(ctx, all...)
	for _, l := range lists {
		files = append(files, fit.File{Name: "the cluster's " + l.Resource, Data: l.Data})
	}
	for _, err := range unread {
		a.Say("warning: not read: %s", reasons.Text(err))
	}

	return files
}

// readHeld reads which devices the VMs have that run on nodes that were read.
func (a *app) readHeld(
	ctx context.Context, hosts map[string]*topology.Host,
) (map[fit.HostDevice]string, error) {
	client, all, err := a.instances(ctx, fleetFlags{all: true})
	all = slices.DeleteFunc(all, func(in cluster.Instance) bool { return hosts[in.Node] == nil })
	read := func(in cluster.Instance) (cluster.RunningVM, error) {
		return a.read(ctx, client, in.NamespacedName, cluster.DevicesOnly)
	}

	held := map[fit.HostDevice]string{}
	unread := map[string]int{} // VMs by remedy, such as the right that is missing
	cluster.Each(all, 8, a.Progress, read, func(vm cluster.RunningVM, err error) {
		if err != nil {
			hint := cmp.Or(reasons.HintOf(err), err.Error())
			if unread[hint]++; unread[hint] == 1 {
				a.Say("warning: devices of a VM count as free: %s", reasons.Text(err))
			}
		}
		for _, id := range vm.IDs {
			held[fit.HostDevice{Node: vm.Node, Device: id}] = vm.String()
		}
	})

	for hint, count := range unread {
		if count > 1 {
			a.Say("warning: so do those of %s for the same cause: %s",
				words.Counted(count-1, "other VM"), hint)
		}
	}

	return held, err
}
