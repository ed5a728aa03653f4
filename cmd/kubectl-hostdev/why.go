package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/tools/cli"
	"hook-sidecar/pkg/tools/cluster"
	"hook-sidecar/pkg/tools/cluster/archive"
	"hook-sidecar/pkg/tools/cluster/why"
	"hook-sidecar/pkg/words"
)

func (a *app) newWhy() *cobra.Command {
	var files, guestFiles []string
	var output cli.Output
	cmd := &cobra.Command{
		Use:   "why [VM] [flags]",
		Short: "Say why a VM with passthrough devices does not start",
		Long: `why says what state a VM is in, names the cause of a failed start or migration, with or
without a hook in the cluster, the message that proves it, and what to do. It reads the VM,
its VMI, events, pods and logs, and names what you may not read. Where the VM requests the
hook, which did not place its devices, it also checks the cluster as doctor does. All causes:
` + reasons.Page("docs/causes.md") + `

With -f it reads files instead, of whose only VM it needs no name: an archive of collect;
or objects as kubectl get -o yaml prints them, its tables of VMs, VMIs and events, what it
describes, logs, the node's dmesg, and the domain; also packed by gzip or in a tar archive
or a directory. It says what it found in each file. It prints no value of a variable, a
header or a token, and no cloud-init data.

Exit status:
  0  the VM runs
  1  it does not, is paused, or should end and does not
  2  usage error or failure
  3  it does not run, and no cause is known`,
		Example: `  kubectl hostdev why dgx -n ml
  kubectl hostdev why -f hostdev-ml_dgx.tar.gz
  kubectl hostdev why dgx -f bundle.yaml -f compute.log`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && len(files) > 0 {
				return nil
			}
			return oneVM(cmd, args)
		},
	}

	output.Add(cmd, cli.Text, cli.JSON, cli.YAML)
	cmd.Flags().StringArrayVarP(&files, "file", "f", nil,
		"read this file instead of the cluster; may be repeated")
	cmd.Flags().StringArrayVar(&guestFiles, "guest-file", nil,
		"what the guest's dmesg or nvidia-smi prints; may be repeated")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := output.Check(); err != nil {
			return err
		}
		return a.why(cmd.Context(), args, files, guestFiles, output)
	}

	cmd.ValidArgsFunction = a.completeVMs
	return cmd
}

func (a *app) why(
	ctx context.Context, arguments, files, guestFiles []string, output cli.Output,
) error {
	var inputs []archive.Input
	err := untilDone(ctx, func() (err error) {
		inputs, err = a.readInputs(files, cli.MaxInput)
		return err
	})
	if err != nil {
		return err
	}

	var client *cluster.Client
	namespace := a.config.namespace()
	if len(files) == 0 {
		client, namespace, err = a.connect()
	}

	unread := []string{}
	if err != nil && client == nil && len(guestFiles) > 0 { // these say something without a cluster
		unread, err = []string{"the cluster: " + reasons.Text(err)}, nil
	}

	name, nameErr := askedVM(namespace, arguments, inputs)
	if err = cmp.Or(err, nameErr); err != nil {
		return err
	}

	e := &why.Evidence{
		Report: why.Report{
			Namespace:    name.Namespace,
			Name:         name.Name,
			Installation: []string{},
			Unread:       unread,
		},
	}

	if err = a.readEvidence(ctx, client, inputs, guestFiles, e); err != nil {
		return err
	}

	r := e.Diagnose()
	for i := range r.Causes {
		r.Causes[i].Remedy = strings.ReplaceAll(r.Causes[i].Remedy, "docs/", reasons.Page("docs/"))
	}

	for _, text := range r.Unread {
		a.Say("warning: not read: %s", text)
	}

	err = a.WriteAs(output, r, func(b *bytes.Buffer) error { return writeAnswer(b, r) })
	return cmp.Or(err, found(r))
}

// found returns the error that says by the exit status what was found.
func found(r why.Report) error {
	if r.IsUnknown() {
		return cli.ErrUnknown
	}
	return cli.Found(r.Fails())
}

// askedVM returns the VM that a user asks for: the argument's or, without one, the only one of
// the files.
func askedVM(
	namespace string, arguments []string, inputs []archive.Input,
) (name types.NamespacedName, err error) {
	if len(arguments) > 0 {
		return vmName(namespace, arguments[0])
	}

	vms := why.VMsOf(inputs)

	slices.Sort(vms)
	vms = slices.Compact(vms)
	isOther := func(vm string) bool { return !strings.HasPrefix(vm, namespace+"/") }
	found := vms
	if namespace != "" {
		found = slices.DeleteFunc(slices.Clone(vms), isOther)
	}

	const shown = 10
	switch all := words.FirstOf(vms, shown, ", "); {
	case len(vms) == 0:
		return name, cli.Failed("name a VM, as in why dgx -f FILE",
			errors.New("the files have no VM, VMI or archive, which names it"))
	case len(found) == 0:
		return name, fmt.Errorf("the files have no VM of namespace %s; they have %s", namespace,
			all)
	case len(found) > 1:
		return name, cli.Failed("name one of them, and its namespace with -n",
			fmt.Errorf("the files have several VMs: %s", all))
	}

	name.Namespace, name.Name, _ = strings.Cut(found[0], "/")
	return name, nil
}
