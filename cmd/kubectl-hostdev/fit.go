package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/tools/cli"
	"hook-sidecar/pkg/tools/cluster/fit"
	"hook-sidecar/pkg/words"
)

// fitFlags are the flags of fit.
type fitFlags struct {
	cli.Output
	wish        fit.Wish
	files, from []string
	node, image string
	kubernetes  string
	minor       int // of kubernetes
	claim       bool
	checked     string                                   // the claim that is checked
	snapshots   map[string]string                        // file per node
	partitions  map[string]string                        // file per node
	named       struct{ snapshots, partitions []string } // NODE=FILE, from which these are made
}

func (a *app) newFit() *cobra.Command {
	var flags fitFlags
	cmd := &cobra.Command{
		Use:   "fit (-f FILE | --gpus N [--nics N] | --check CLAIM) [flags]",
		Short: "Count how often a VM with devices fits on each node, and how near they would be",
		Long: `fit prints per node how many VMs fit now, how many would if nothing ran, how near to
each other the devices of the next one would be, on the host and in the guest with the
hook, and why none fits. The VM is one in a file, with the templates of its claims, or
a number of GPUs and NICs with their DeviceClasses. The scheduler's own code allocates.

Of a device plugin's devices the kubelet picks freely, so fit prints the best and the
worst choice among those that no VM holds. That takes the node's --snapshot.
Where a node's NVLink partitions are published, or listed with --partitions, a VM's
GPUs are one of them. See ` + reasons.Page("docs/devices.md") + `.

With --check it compares what a claim asks for with what the VM got that runs with it: a
line per device and per constraint, as published, on the host and in the guest. CLAIM is
a ResourceClaim, the name that VMs have for it, or its template; a claim or template in a
file of -f says in its place what is asked for.

Exit status:
  0  success; with --check: all devices are in the VM and as near as the claim asks
  1  --check found that one is not, or could not tell
  2  usage error or failure`,
		Example: `  kubectl hostdev fit -f dgx.yaml
  kubectl hostdev fit --gpus 4 --gpu-class vfio.gpu.nvidia.com --nics 4 --nic-class sriov --claim
  kubectl get -A -o json ` + strings.Join(fitResources(), ",") + ` > cluster.json
  kubectl hostdev fit -f dgx.yaml --from cluster.json --node gpu-7
  kubectl hostdev fit --check gpus-4-nics-4 -n ml`,
		Args: cli.NoArguments,
	}

	flags.add(cmd.Flags())
	flags.Add(cmd, cli.Text, cli.JSON, cli.YAML)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		flags.wish.MustPair = cmd.Flags().Changed("pair")
		if len(flags.files) == 0 && flags.wish == (fit.Wish{Pair: true}) &&
			!slices.Contains(flags.from, "-") && flags.checked == "" {
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

		if flags.checked != "" {
			return a.checkClaims(cmd.Context(), flags)
		}

		return a.fit(cmd.Context(), flags)
	}

	return cmd
}

// add adds the flags to a set.
func (flags *fitFlags) add(f *pflag.FlagSet) {
	cli.AlsoNamed(f, "filename", "file")
	f.StringArrayVarP(&flags.files, "file", "f", nil,
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
	f.StringVar(&flags.checked, "check", "",
		"compare this claim with what the running VM got that has it")
	f.StringVar(&flags.kubernetes, "kubernetes", "",
		"allocate as this version does, such as 1.36, where nothing tells the cluster's")
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
	if cmd.Flags().Changed("check") {
		return f.checkChecked(cmd)
	}

	hasFile, hasNumbers := len(f.files) > 0, f.wish.GPUs+f.wish.NICs > 0
	switch {
	case f.wish.GPUs < 0 || f.wish.NICs < 0:
		return errors.New("invalid --gpus or --nics: must be positive")
	case hasNumbers == hasFile || f.claim && hasFile:
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

	if f.kubernetes != "" {
		if f.minor, err = fit.Minor(f.kubernetes); err != nil {
			return fmt.Errorf("--kubernetes: %w", err)
		}
	}

	if f.snapshots, err = filesOfNodes("snapshot", f.named.snapshots); err != nil {
		return err
	}

	if f.partitions, err = filesOfNodes("partitions", f.named.partitions); err != nil {
		return err
	}

	return f.Check()
}

// checkChecked checks the flags beside --check, which reads running VMs.
func (f *fitFlags) checkChecked(cmd *cobra.Command) (err error) {
	name, isName := nameOf(f.checked, "resourceclaim", "resourceclaims", "resourceclaimtemplate",
		"resourceclaimtemplates")
	if !isName {
		return cli.Failed("name a claim, and its namespace with -n; kubectl get resourceclaims "+
			"lists them", fmt.Errorf("invalid --check %q", words.Abridge(f.checked)))
	}

	f.checked = name
	cmd.Flags().Visit(func(set *pflag.Flag) {
		isAllowed := slices.Contains([]string{"check", "file", "output", "output-file"}, set.Name)
		if cmd.LocalNonPersistentFlags().Lookup(set.Name) != nil && !isAllowed && err == nil {
			err = cli.Failed("leave out one of them",
				fmt.Errorf("--check cannot be combined with --%s", set.Name))
		}
	})

	return cmp.Or(err, f.Check())
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
	// A large cluster's objects are parsed once: half the default takes a sixth less memory, and
	// little more time.
	debug.SetGCPercent(50)
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
