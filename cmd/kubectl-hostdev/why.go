package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"hook-sidecar/pkg/cli"
	"hook-sidecar/pkg/cluster"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/why"
)

func (a *app) newWhy() *cobra.Command {
	var files []string
	cmd := &cobra.Command{
		Use:   "why VM [flags]",
		Short: "Say why a VM with passthrough devices does not start",
		Long: `why reads what the cluster has about the start of a VM: the VM and its VMI, their events
and pods, and the logs of virt-launcher and of hooks. It names the cause, the message that
proves it, and what to do. docs/causes.md has all causes. It needs no hook.

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
	cmd.Flags().StringArrayVarP(&files, "file", "f", nil, "read this file instead of the cluster; may be repeated")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return a.why(cmd.Context(), args[0], files) }
	cmd.ValidArgsFunction = a.completeVMs
	return cmd
}

func (a *app) why(ctx context.Context, argument string, files []string) error {
	read := func(e *why.Evidence) error { return readFiles(e, files) }
	namespace := *a.config.Namespace
	if len(files) == 0 {
		client, of, err := a.connect()
		if err != nil {
			return err
		}
		namespace, read = of, func(e *why.Evidence) error { return a.collect(ctx, client, e) }
	}
	name, err := vmName(namespace, argument)
	if err != nil {
		return err
	}
	e := &why.Evidence{Namespace: name.Namespace, Name: name.Name}
	if err := read(e); err != nil {
		return err
	}
	var b strings.Builder
	for _, line := range answer(e) {
		b.WriteString(topology.Printable(line) + "\n")
	}
	return cmp.Or(a.Write("", []byte(b.String())), cli.Found(e.Phase != "Running"))
}

func readFiles(e *why.Evidence, files []string) error {
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		e.Add("file "+file, data)
	}
	return nil
}

// collect reads a VM from the cluster. What cannot be read is left out and named.
func (a *app) collect(ctx context.Context, client *cluster.Client, e *why.Evidence) error {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	unread := map[string]error{} // by its hint: one for all logs
	add := func(data []byte) { e.Add("", data) }
	get := func(add func([]byte), q cluster.Query) (isThere bool) {
		data, err := client.Get(ctx, q)
		hint := reasons.HintOf(err)
		switch {
		case err == nil:
			add(data)
		case hint != "":
			unread[hint] = err
		case !apierrors.IsNotFound(err) && !apierrors.IsBadRequest(err): // that is a container without a log
			unread[""] = err
		}
		return err == nil
	}
	isVM := get(add, cluster.Query{Group: "kubevirt.io", Resource: "virtualmachines", Namespace: e.Namespace, Name: e.Name})
	isVMI := get(add, cluster.Query{Group: "kubevirt.io", Resource: "virtualmachineinstances", Namespace: e.Namespace, Name: e.Name})
	if !isVM && !isVMI {
		_, err := client.Instance(ctx, types.NamespacedName{Namespace: e.Namespace, Name: e.Name})
		return err // says what there is
	}
	get(add, cluster.Query{Resource: "pods", Namespace: e.Namespace})
	get(add, cluster.Query{Resource: "events", Namespace: e.Namespace})
	for _, l := range e.Logs {
		addLog := func(data []byte) {
			e.AddLog(fmt.Sprintf("log of container %s of pod %s", l.Container, l.Pod), string(data))
		}
		get(addLog, cluster.Query{Resource: "pods", Namespace: e.Namespace, Name: l.Pod, Part: "log", Parameters: map[string]string{
			"container": l.Container, "previous": fmt.Sprint(l.Before), "tailLines": "5000", "limitBytes": "8000000",
		}})
	}
	if found := e.Findings(); len(found) > 0 && found[0].Name == why.NoNode {
		get(add, cluster.Query{Resource: "nodes"})
		get(add, cluster.Query{Resource: "pods"})
	}
	for _, hint := range slices.Sorted(maps.Keys(unread)) {
		a.Say("warning: not read: %v", unread[hint])
		if hint != "" {
			a.Say("hint: %s", hint)
		}
	}
	return nil
}

// answer returns the lines that a user reads, the cause first.
func answer(e *why.Evidence) []string {
	vm := "VM " + strings.TrimPrefix(e.Namespace+"/"+e.Name, "/")
	found := e.Findings()
	switch {
	case len(found) > 0:
		return findings(vm, e.Phase, found)
	case e.Phase == "Running":
		return []string{fmt.Sprintf("%s runs on node %s; kubectl hostdev explain %s shows where its devices are", vm, e.Node, e.Name)}
	case e.IsStopped && e.Phase == "":
		return []string{fmt.Sprintf("%s is stopped, and nothing reports a failed start; virtctl start %s starts it", vm, e.Name)}
	}
	lines := []string{fmt.Sprintf("%s does not run (%s), and no known cause is in what was read. Its last errors:", vm, cmp.Or(e.Phase, "it has no VMI"))}
	for _, line := range e.Nearest(5) {
		lines = append(lines, "  "+line.Text+" ("+line.Where()+")")
	}
	if len(lines) == 1 {
		lines = append(lines, "  none")
	}
	return append(lines, "To report it, attach what these print, without what is secret in it:",
		"  kubectl get vm,vmi,pod,event -o yaml; kubectl logs POD -c compute")
}

// findings returns what there is about the first cause, and names the others.
func findings(vm, phase string, found []why.Finding) []string {
	f, state := found[0], "does not start"
	if phase == "Running" {
		state = "runs"
	}
	lines := []string{fmt.Sprintf("%s %s: %s", vm, state, f.What), "message: " + f.Line.Text, "from:    " + f.Line.Where()}
	for _, share := range f.Shares {
		lines = append(lines, "nodes:   "+share)
	}
	lines = append(lines, "to do:   "+f.Remedy)
	if f.Check != "" {
		lines = append(lines, "doctor:  "+cli.Page("docs/doctor.md#")+f.Check)
	}
	lines = append(lines, "more:    "+cli.Page("docs/causes.md#")+f.Name+", "+f.Seen[0])
	for _, before := range found[1:] {
		lines = append(lines, "before:  "+before.Name+", "+before.Line.Where())
	}
	return lines
}
