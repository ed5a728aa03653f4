package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"kubevirt.io/api/core"

	"hook-sidecar/pkg/archive"
	"hook-sidecar/pkg/cli"
	"hook-sidecar/pkg/cluster"
	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/why"
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

With -f it reads files instead: an archive of collect, of whose only VM it needs no name;
or objects as kubectl get -o yaml prints them, its tables of VMs, VMIs and events, what it
describes, and logs; also packed by gzip or in a tar archive or a directory. It prints no
value of a variable, a header or a token, and no cloud-init data.

Exit status:
  0  the VM runs
  1  it does not
  2  usage error or failure`,
		Example: `  kubectl hostdev why dgx -n ml
  kubectl hostdev why -f hostdev-dgx.tar.gz
  kubectl hostdev why dgx -f bundle.yaml -f compute.log`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && len(files) > 0 {
				return nil
			}
			return oneVM(cmd, args)
		},
	}

	output.AddAsKubectl(cmd, cli.Text, cli.JSON, cli.YAML)
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
	namespace := *a.config.Namespace
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
	return cmp.Or(err, cli.Found(!r.Runs() || r.State.Name == "paused"))
}

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

// askedVM returns the VM that a user asks for: the argument's or, without one, the only one of
// the archives.
func askedVM(
	namespace string, arguments []string, inputs []archive.Input,
) (name types.NamespacedName, err error) {
	if len(arguments) > 0 {
		return vmName(namespace, arguments[0])
	}

	var vms []string
	for _, in := range inputs {
		if in.Collected != nil {
			vms = append(vms, in.Collected.VMs...)
		}
	}

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
			errors.New("the files have no archive of a VM, which names it"))
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
	read := func(q cluster.Query) error {
		data, err := client.Get(ctx, q)
		switch {
		case err == nil && q.Part == "log":
			e.AddLog(fmt.Sprintf("log of container %s of pod %s", q.Parameters["container"],
				q.Name), string(data))

		case err == nil:
			e.Add("", data)
		case !apierrors.IsNotFound(err) && !apierrors.IsBadRequest(err):
			// that is a container without a log
			e.Unread = append(e.Unread, reasons.Text(err))
		}

		return err
	}

	ofVM := read(cluster.Query{
		Group:     core.GroupName,
		Resource:  "virtualmachines",
		Namespace: name.Namespace,
		Name:      name.Name,
	})
	if isUnreachable(ofVM) {
		_, err := client.Instance(ctx, name)
		return err
	}

	ofVMI := read(cluster.Query{
		Group:     core.GroupName,
		Resource:  "virtualmachineinstances",
		Namespace: name.Namespace,
		Name:      name.Name,
	})

	read(cluster.Query{Resource: "pods", Namespace: name.Namespace})
	read(cluster.Query{Resource: "events", Namespace: name.Namespace})

	for _, l := range e.Logs {
		parameters := map[string]string{
			"container":  l.Container,
			"previous":   fmt.Sprint(l.Before),
			"tailLines":  "5000",
			"limitBytes": "8000000",
		}

		err := read(cluster.Query{
			Resource:   "pods",
			Namespace:  name.Namespace,
			Name:       l.Pod,
			Part:       "log",
			Parameters: parameters,
		})
		if apierrors.IsForbidden(err) {
			break // so are the others
		}
	}

	r := e.Diagnose()
	if ofVMI != nil && r.State.Name == "unknown" &&
		len(r.Causes)+len(r.History)+len(r.Errors) == 0 {
		_, err := client.Instance(ctx, name)
		return err // says what there is
	}

	if len(r.Causes) > 0 && r.Causes[0].Name == "no-node" { // who has what it lacks
		read(cluster.Query{Resource: "nodes"})
		read(cluster.Query{Resource: "pods"})
	}

	if err := a.checkHook(ctx, client, name, e); err != nil {
		e.Unread = append(e.Unread, reasons.Text(err))
	}

	return nil
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

// writeAnswer writes a report as text: the VM's state, the cause, what proves it, what to do.
func writeAnswer(b *bytes.Buffer, r why.Report) error {
	say := func(format string, args ...any) {
		fmt.Fprintln(b, words.Printable(fmt.Sprintf(format, args...)))
	}

	vm := "VM " + strings.TrimPrefix(r.Namespace+"/"+r.Name, "/")
	isWell := r.Runs() && r.State.Name != "paused" && len(r.Causes) == 0
	switch {
	case r.State.Name == "unknown" && r.Started != nil && len(r.Causes) == 0:
		say("%s %s; it started (%s), and nothing that was read says that it ended", vm,
			r.State.Text, r.Started.Where())

	case r.State.Name == "running" && isWell:
		say("%s %s; kubectl hostdev explain %s shows where its devices are", vm, r.State.Text,
			r.Name)

	default:
		say("%s %s", vm, r.State.Text)
	}

	switch {
	case len(r.Causes) > 0:
		writeCause(say, r)
	case r.State.ToDo != "":
		say("to do:   %s", r.State.ToDo)
	case !isWell && r.State.Name != "migrating":
		writeUnknown(say, r)
	}

	for _, note := range r.State.Notes {
		say("note:    %s", note)
	}

	for _, f := range r.History {
		if f.Past == nil {
			say("past:    %s, %s", f.Name, f.Line.Where())
		} else {
			say("past:    %s, %s; later %s", f.Name, f.Line.Where(), f.Past.Where())
		}
	}

	for _, problem := range r.Installation {
		say("hook:    %s", problem)
	}

	if len(r.Files) > 0 {
		say("read:    %s", strings.Join(r.Files, ", "))
	}

	return nil
}

// writeCause writes the first cause, and names the others.
func writeCause(say func(string, ...any), r why.Report) {
	f := r.Causes[0]
	if f.Stage == why.StageMigrate {
		f.What = "a migration fails: " + f.What
	}

	say("cause:   %s", f.What)
	say("message: %s", f.Line.Text)
	say("from:    %s", f.Line.Where())
	for _, share := range f.Shares {
		say("nodes:   %s", share)
	}

	say("to do:   %s", f.Remedy)
	if f.Check != "" {
		say("doctor:  %s%s", reasons.Page("docs/doctor.md#"), f.Check)
	}

	say("more:    %s%s, %s", reasons.Page("docs/causes.md#"), f.Name, f.Seen[0])
	for _, before := range r.Causes[1:] {
		say("before:  %s, %s", before.Name, before.Line.Where())
	}
}

// writeUnknown writes the last errors of a VM that does not run for no known cause.
func writeUnknown(say func(string, ...any), r why.Report) {
	say("cause:   none that is known is in what was read")
	for _, line := range r.Errors {
		say("error:   %s (%s)", line.Text, line.Where())
	}

	say("To report it, attach what this writes: kubectl hostdev collect %s", r.Name)
}
