package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"kubevirt.io/api/core"

	"hook-sidecar/pkg/archive"
	"hook-sidecar/pkg/cli"
	"hook-sidecar/pkg/cluster"
	"hook-sidecar/pkg/fit"
	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/nvlink"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// fitFlags are the flags of fit.
type fitFlags struct {
	cli.Output
	wish        fit.Wish
	files, from []string
	node, image string
	claim       bool
	snapshots   map[string]string                        // file per node
	partitions  map[string]string                        // file per node
	named       struct{ snapshots, partitions []string } // NODE=FILE, from which these are made
}

func (a *app) newFit() *cobra.Command {
	var flags fitFlags
	cmd := &cobra.Command{
		Use:   "fit (-f FILE | --gpus N [--nics N]) [flags]",
		Short: "Count how often a VM with devices fits on each node, and how near they would be",
		Long: `fit prints per node how many VMs fit now, how many would if nothing ran, how near to
each other the devices of the next one would be, on the host and in the guest with the
hook, and why none fits. The VM is one in a file, with the templates of its claims, or
a number of GPUs and NICs with their DeviceClasses. The scheduler's own code allocates.

Nobody can promise which devices of a device plugin kubelet gives: of a node with a
--snapshot fit prints the nearest and the farthest of those that no VM holds.
Where a node's NVLink partitions are published, or listed with --partitions, a VM's
GPUs are one of them. See ` + reasons.Page("docs/aligned-devices.md") + `
and ` + reasons.Page("docs/nvlink.md") + `.

` + exitStatus,
		Example: `  kubectl hostdev fit -f dgx.yaml
  kubectl hostdev fit --gpus 4 --gpu-class vfio.gpu.nvidia.com --nics 4 --nic-class sriov --claim
  kubectl get -A -o yaml ` + strings.Join(fitResources(), ",") + ` > cluster.yaml
  kubectl hostdev fit -f dgx.yaml --from cluster.yaml --node gpu-7`,
		Args: cli.NoArguments,
	}

	flags.add(cmd.Flags())
	flags.AddAsKubectl(cmd, cli.Text, cli.JSON, cli.YAML)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		flags.wish.MustPair = cmd.Flags().Changed("pair")
		if len(flags.files) == 0 && flags.wish == (fit.Wish{Pair: true}) &&
			!slices.Contains(flags.from, "-") {
			isPiped, err := a.IsPiped()
			if err != nil {
				return err
			}

			if isPiped {
				flags.files = []string{"-"}
			}
		}

		if err := flags.check(cmd); err != nil {
			return err
		}

		return a.fit(cmd.Context(), flags)
	}

	return cmd
}

// add adds the flags to a set.
func (flags *fitFlags) add(f *pflag.FlagSet) {
	f.StringArrayVarP(&flags.files, "filename", "f", nil,
		"a VM, and templates of its claims, or an archive of collect; - is standard\ninput; may "+
			"be repeated")

	f.IntVar(&flags.wish.GPUs, "gpus", 0, "number of GPUs")
	f.IntVar(&flags.wish.NICs, "nics", 0, "number of NICs")
	f.StringVar(&flags.wish.GPUClass, "gpu-class", "", "DeviceClass of the GPUs")
	f.StringVar(&flags.wish.NICClass, "nic-class", "", "DeviceClass of the NICs")
	f.BoolVar(&flags.wish.Pair, "pair", true,
		"each GPU shares a PCIe root with its NIC; by default where a node can meet it")
	f.BoolVar(&flags.wish.OneSocket, "one-socket", false, "all devices are of one NUMA node")
	f.BoolVar(&flags.claim, "claim", false,
		"print a ResourceClaimTemplate for the numbers, and a VM that uses it")
	f.StringVar(&flags.node, "node", "", "this node alone, and its devices")
	f.StringArrayVar(&flags.from, "from", nil,
		"read the cluster's objects from this file instead; may be repeated")
	f.StringArrayVar(&flags.named.snapshots, "snapshot", nil,
		"`NODE=FILE`: a node's snapshot; may be repeated")
	f.StringArrayVar(&flags.named.partitions, "partitions", nil,
		"`NODE=FILE`: a node's NVLink partitions, as fmpm -l prints them; may be repeated")
	f.StringVar(&flags.image, "debug-image", "",
		"as in snapshot, of each node without a --snapshot")
}

// check checks the flags of fit.
func (f *fitFlags) check(cmd *cobra.Command) (err error) {
	hasFile, hasNumbers := len(f.files) > 0, f.wish.GPUs+f.wish.NICs > 0
	switch {
	case f.wish.GPUs < 0 || f.wish.NICs < 0 || hasNumbers == hasFile || f.claim && hasFile:
		return cli.Failed(cli.SeeHelp(cmd),
			errors.New("pass either -f FILE, or --gpus and --nics and, if you like, --claim"))

	case f.wish.GPUs > 0 && f.wish.GPUClass == "" || f.wish.NICs > 0 && f.wish.NICClass == "":
		return cli.Failed("kubectl get deviceclasses lists them",
			errors.New("--gpus requires --gpu-class, and --nics requires --nic-class"))

	case f.image != "" && len(f.from) > 0:
		return cli.Failed("leave out one of them",
			errors.New("--debug-image cannot be combined with --from"))

	case f.claim:
		f.Format = cli.Text // whatever the name of the file
	}

	if f.snapshots, err = filesOfNodes("snapshot", f.named.snapshots); err != nil {
		return err
	}

	if f.partitions, err = filesOfNodes("partitions", f.named.partitions); err != nil {
		return err
	}

	return f.Check()
}

// filesOfNodes parses the values NODE=FILE of a flag.
func filesOfNodes(flag string, values []string) (map[string]string, error) {
	files := map[string]string{}
	for _, value := range values {
		node, file, isPair := strings.Cut(value, "=")
		switch {
		case !isPair || node == "" || file == "":
			return nil, cli.Failed("kubectl get nodes lists the nodes",
				fmt.Errorf("invalid --%s %q: must be NODE=FILE", flag, words.Abridge(value)))
		case files[node] != "":
			return nil, fmt.Errorf("--%s names node %q twice", flag, words.Abridge(node))
		}

		files[node] = file
	}

	return files, nil
}

func (a *app) fit(ctx context.Context, flags fitFlags) error {
	objects, err := a.readFleet(ctx, flags)
	if err != nil {
		return err
	}

	var answer fit.Answer
	var claim string
	fleet := fit.New(objects)
	if len(flags.files) == 0 {
		answer, claim, err = flags.wish.Count(ctx, fleet)
	} else {
		var shape fit.Shape
		if shape, err = fit.NewShape(objects); err == nil {
			answer, err = fleet.Count(ctx, shape)
		}
	}

	if err != nil {
		return err
	}

	return a.WriteAs(flags.Output, answer, func(b *bytes.Buffer) error {
		switch {
		case !flags.claim:
			b.WriteString(answer.Text())
		case claim == "":
			return fmt.Errorf("write a claim: no node meets it%s", answer.Cause())
		default:
			b.WriteString(claim)
		}

		return nil
	})
}

// maxObjects limits the bytes of a file of a cluster's objects: some thousand nodes with their
// pods.
const maxObjects = 1 << 30

// readFleet reads the files and, where they are not the cluster's, the cluster: as far as the user
// may.
func (a *app) readFleet(ctx context.Context, flags fitFlags) (objects fit.Objects, err error) {
	files, err := a.readShape(flags)
	if err != nil {
		return objects, err
	}

	isLive := len(flags.from) == 0 && len(a.archives) == 0
	if isLive {
		client, _, err := a.connect()
		if err != nil {
			return objects, err
		}
		files = append(files, a.listObjects(ctx, client)...)
	}

	if objects, err = fit.Parse(files...); err != nil {
		return objects, err
	}

	objects.Only = flags.node
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
			i := slices.IndexFunc(objects.Pods, func(p *corev1.Pod) bool {
				return isSnapshot && p.Namespace == namespace && p.Name == pod
			})
			if i < 0 || objects.Hosts[objects.Pods[i].Spec.NodeName] != nil {
				continue
			}

			sysfs, err := host.ParseSnapshot(f.Data)
			if err != nil {
				return fmt.Errorf("read %s: %s: %w", in.Name, f.Name, err)
			}

			objects.Hosts[objects.Pods[i].Spec.NodeName], _ = host.Read(sysfs, nil, host.All)
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
			if sysfs, err = a.readNode(ctx, name, flags.image); err != nil {
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

// resourcesOf has the objects of a group that fit reads.
type resourcesOf struct {
	group string
	names []string
}

// fitReads are the objects that fit reads from a cluster.
var fitReads = []resourcesOf{
	{"", []string{"nodes", "pods"}},
	{core.GroupName, []string{"kubevirts"}},
	{resourceapi.GroupName, []string{
		"resourceslices", "deviceclasses", "resourceclaims", "resourceclaimtemplates",
	}},
}

// fitResources returns the resources that fit reads, as kubectl get takes them.
func fitResources() (names []string) {
	for _, resources := range fitReads {
		names = append(names, resources.names...)
	}
	return names
}

// listObjects reads the objects of a cluster, as far as the user may.
func (a *app) listObjects(ctx context.Context, client *cluster.Client) (files []fit.File) {
	for _, resources := range fitReads {
		files = append(files, a.list(ctx, client, resources.group, resources.names...)...)
	}
	return files
}

// list reads objects, as far as the user may.
func (a *app) list(
	ctx context.Context, client *cluster.Client, group string, resources ...string,
) (lists []fit.File) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	for _, resource := range resources {
		data, err := client.Get(ctx, cluster.Query{Group: group, Resource: resource})
		if err != nil {
			a.Say("warning: not read: %s", reasons.Text(err))
			continue
		}

		lists = append(lists, fit.File{Name: "the cluster's " + resource, Data: data})
	}

	return lists
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
	forEach(a, all, 8, read, func(vm cluster.RunningVM, err error) {
		if err != nil {
			a.Say("warning: devices of a VM count as free: %s", reasons.Text(err))
		}
		for _, id := range vm.IDs {
			held[fit.HostDevice{Node: vm.Node, Device: id}] = vm.String()
		}
	})

	return held, err
}
