package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"hook-sidecar/pkg/cli"
	"hook-sidecar/pkg/cluster"
	"hook-sidecar/pkg/doctor"
	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/why"
)

// diagnosis is the output of why.
type diagnosis struct {
	SchemaVersion int `json:"schemaVersion"` // 1
	why.Report
	Installation []doctor.Result `json:"installation"` // of a VM that requests the hook, which did not place its devices: what is wrong in the cluster
	Unread       []string        `json:"unread"`       // what could not be read, with the rule that grants it
}

func (a *app) newWhy() *cobra.Command {
	var files []string
	var output cli.Output
	cmd := &cobra.Command{
		Use:   "why VM [flags]",
		Short: "Say why a VM with passthrough devices does not start",
		Long: `why reads what the cluster has about the start of a VM: the VM and its VMI, their events
and pods, and the logs of virt-launcher and of hooks. It names the cause, the message that
proves it, and what to do. docs/causes.md has all causes. It needs no hook; where the VM
requests one that did not place its devices, it also checks the cluster, as doctor does.
What you may not read is left out and named.

With -f it reads files instead: objects as kubectl get -o yaml prints them, and logs. It
prints no value of an environment variable and no cloud-init data.

Exit status:
  0  the VM runs
  1  it does not
  2  usage error or failure`,
		Example: `  kubectl hostdev why dgx -n ml
  kubectl hostdev why dgx -f bundle.yaml -f compute.log`,
		Args: oneVM,
	}
	formats := []string{cli.Text, cli.JSON, cli.YAML}
	output.AddAsKubectl(cmd, formats...)
	cmd.Flags().StringArrayVarP(&files, "file", "f", nil, "read this file instead of the cluster; may be repeated")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := output.Check(formats...); err != nil {
			return err
		}
		return a.why(cmd.Context(), args[0], files, output)
	}
	cmd.ValidArgsFunction = a.completeVMs
	return cmd
}

func (a *app) why(ctx context.Context, argument string, files []string, output cli.Output) error {
	var client *cluster.Client
	namespace, err := *a.config.Namespace, error(nil)
	if len(files) == 0 {
		client, namespace, err = a.connect()
	}
	if err != nil {
		return err
	}
	name, err := vmName(namespace, argument)
	if err != nil {
		return err
	}
	e := &why.Evidence{VM: why.VM{Namespace: name.Namespace, Name: name.Name}}
	d := diagnosis{SchemaVersion: 1, Installation: []doctor.Result{}, Unread: []string{}}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		e.Add("file "+file, data)
	}
	if client != nil {
		if err := a.collect(ctx, client, name, e, &d); err != nil {
			return err
		}
		if err := a.checkHook(ctx, client, name, e, &d); err != nil {
			d.Unread = append(d.Unread, reasons.Text(err))
		}
	}
	d.Report = e.Report()
	for _, text := range d.Unread {
		a.Say("warning: not read: %s", text)
	}
	err = a.WriteAs(output, d, func(b *bytes.Buffer) error {
		for _, line := range d.text() {
			b.WriteString(cli.Escaped(line) + "\n")
		}
		return nil
	})
	return cmp.Or(err, cli.Found(!d.Runs()))
}

// collect reads a VM from the cluster. It leaves out and names what the user may not read.
func (a *app) collect(ctx context.Context, client *cluster.Client, name types.NamespacedName, e *why.Evidence, d *diagnosis) error {
	defer a.Await(fmt.Sprintf("VM %s, at most %s (--timeout)", name, a.timeout))()
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	read := func(add func([]byte), q cluster.Query) error {
		data, err := client.Get(ctx, q)
		if err == nil {
			add(data)
		} else if !apierrors.IsNotFound(err) && !apierrors.IsBadRequest(err) { // that is a container without a log
			d.Unread = append(d.Unread, reasons.Text(err))
		}
		return err
	}
	add := func(data []byte) { e.Add("", data) }
	ofVM := read(add, cluster.Query{Group: "kubevirt.io", Resource: "virtualmachines", Namespace: name.Namespace, Name: name.Name})
	ofVMI := read(add, cluster.Query{Group: "kubevirt.io", Resource: "virtualmachineinstances", Namespace: name.Namespace, Name: name.Name})
	read(add, cluster.Query{Resource: "pods", Namespace: name.Namespace})
	read(add, cluster.Query{Resource: "events", Namespace: name.Namespace})
	for _, l := range e.Logs {
		addLog := func(data []byte) {
			e.AddLog(fmt.Sprintf("log of container %s of pod %s", l.Container, l.Pod), string(data))
		}
		err := read(addLog, cluster.Query{Resource: "pods", Namespace: name.Namespace, Name: l.Pod, Part: "log", Parameters: map[string]string{
			"container": l.Container, "previous": fmt.Sprint(l.Before), "tailLines": "5000", "limitBytes": "8000000",
		}})
		if apierrors.IsForbidden(err) {
			break // so are the others
		}
	}
	if ofVM != nil && ofVMI != nil && e.IsEmpty() {
		_, err := client.Instance(ctx, name)
		return err // says what there is
	}
	if causes := e.Report().Causes; len(causes) > 0 && causes[0].Name == why.NoNode {
		read(add, cluster.Query{Resource: "nodes"})
		read(add, cluster.Query{Resource: "pods"})
	}
	return nil
}

// checkHook checks the cluster for a VM that requests the hook, unless it runs as the hook plans.
func (a *app) checkHook(ctx context.Context, client *cluster.Client, name types.NamespacedName, e *why.Evidence, d *diagnosis) error {
	if !env.RequestsHook(e.Labels, e.Annotations) {
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
	report, err := a.installation(ctx, client)
	d.Installation = append(d.Installation, report.Problems()...)
	return err
}

// text returns the lines that a user reads, the cause first.
func (d diagnosis) text() []string {
	vm, state := "VM "+strings.TrimPrefix(d.Namespace+"/"+d.Name, "/"), "does not start"
	if d.Runs() {
		state = "runs"
	}
	var lines []string
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for i, f := range d.Causes {
		if i > 0 {
			say("before:  %s, %s", f.Name, f.Line.Where())
			continue
		}
		say("%s %s: %s", vm, state, f.What)
		say("message: %s", f.Line.Text)
		say("from:    %s", f.Line.Where())
		for _, share := range f.Shares {
			say("nodes:   %s", share)
		}
		say("to do:   %s", f.Remedy)
		if f.Check != "" {
			say("doctor:  %s%s", cli.Page("docs/doctor.md#"), f.Check)
		}
		say("more:    %s%s, %s", cli.Page("docs/causes.md#"), f.Name, f.Seen[0])
	}
	switch {
	case len(d.Causes) > 0:
	case d.Runs():
		say("%s runs on node %s; kubectl hostdev explain %s shows where its devices are", vm, d.Node, d.Name)
	case d.Stopped && d.Phase == "":
		say("%s is stopped, and nothing reports a failed start; virtctl start %s starts it", vm, d.Name)
	default:
		say("%s does not run (%s), and no known cause is in what was read. Its last errors:", vm, cmp.Or(d.Phase, "no VMI was read"))
		for _, line := range d.Errors {
			say("  %s (%s)", line.Text, line.Where())
		}
		say("To report it, attach what these print, without what is secret in it:")
		say("  kubectl get vm,vmi,pod,event -o yaml; kubectl logs POD -c compute")
	}
	for _, result := range d.Installation {
		say("hook:    %s", result)
	}
	return lines
}
