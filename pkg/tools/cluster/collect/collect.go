// Package collect makes one archive of what a cluster has about VMs: objects (objects.go, related.go),
// logs (logs.go), and what libvirt and the node's sysfs say in their pods (collect.go). Whatever it
// reads goes through package redact before it is kept. What cannot be read is a gap of the
// archive, and loses nothing else.
package collect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/tools/cluster"
	"hook-sidecar/pkg/tools/cluster/archive"
	"hook-sidecar/pkg/tools/cluster/redact"
)

// concurrency is how many logs are read at a time, and in how many pods commands run.
const concurrency = 8

// Collector collects an archive.
type Collector struct {
	Client   *cluster.Client
	Tool     string       // and its version
	Progress func(string) // shows what is read next

	mu      sync.Mutex
	archive archive.Archive
	vms     []cluster.Instance
	volumes map[string][]string // names of their volumes, by namespace
	pods    []*corev1.Pod       // of the VMs, and KubeVirt's
	// pods that make or offer devices: device plugins, drivers and their operators
	providers []*corev1.Pod
}

// Collect collects what there is about VMs. It fails if one of them does not exist.
func (c *Collector) Collect(
	ctx context.Context, names ...types.NamespacedName,
) (*archive.Archive, error) {
	c.archive.Index = archive.Index{
		SchemaVersion: 1, Time: time.Now().UTC().Truncate(time.Second), Tool: c.Tool,
		VMs: []string{}, Versions: map[string]string{}, Removed: []archive.Removal{},
		Unread: []archive.Gap{},
	}
	c.volumes = map[string][]string{}

	for _, name := range names {
		c.progress(fmt.Sprintf("VM %s", name))
		if err := c.vm(ctx, name); err != nil {
			return nil, err
		}
	}

	c.clusterObjects(ctx)
	c.relatedObjects(ctx)

	// Only now the pods are known. What is in them and what they log is read at the same time.
	var group errgroup.Group
	group.Go(func() error { c.contents(ctx); return nil })
	group.Go(func() error { c.logs(ctx); return nil })
	group.Wait()

	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("interrupted: %w", err)
	}

	slices.SortFunc(c.archive.Unread, func(x, y archive.Gap) int {
		return strings.Compare(x.What, y.What)
	})

	slices.SortFunc(c.archive.Removed, func(x, y archive.Removal) int {
		return cmp.Or(strings.Compare(x.File, y.File), strings.Compare(x.What, y.What))
	})

	return &c.archive, nil
}

// progress shows what is read next.
func (c *Collector) progress(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Progress(text)
}

// vm reads a VM and its VMI.
func (c *Collector) vm(ctx context.Context, name types.NamespacedName) error {
	in := cluster.Instance{}
	missing := 0
	for _, resource := range []string{cluster.VMs, cluster.VMIs} {
		data, err := c.Client.Get(ctx, cluster.Object(resource, name))
		switch {
		case err == nil && resource == cluster.VMIs:
			in = cluster.ParseInstance(data)
			fallthrough

		case err == nil:
			names := kubevirt.ParseObject(data).VolumeNames()
			c.volumes[name.Namespace] = append(c.volumes[name.Namespace], names...)
			c.keepObjects(resource, listOf(data))
		case apierrors.IsNotFound(err):
			missing++
		case apierrors.IsForbidden(err):
			c.gap(archive.Objects(name.Namespace, resource), err)
		default:
			return err
		}
	}

	if missing == 2 {
		_, err := c.Client.Instance(ctx, name)
		return err // says what there is
	}

	if in.VMI == nil {
		in = cluster.Named(name)
	}

	c.archive.VMs = append(c.archive.VMs, name.String())
	c.vms = append(c.vms, in)
	return nil
}

// contents reads what is in the pods of the VMs, several at a time.
func (c *Collector) contents(ctx context.Context) {
	var group errgroup.Group
	group.SetLimit(concurrency)
	defer group.Wait()

	for _, in := range c.vms {
		isRead := false
		for _, pod := range c.pods {
			if !cluster.IsLauncherOf(pod, in) || !cluster.HasLibvirt(pod) {
				continue
			}

			group.Go(func() error {
				c.progress(fmt.Sprintf("libvirt and the node's devices in pod %s", pod.Name))
				c.content(ctx, in, pod)
				return nil
			})
			isRead = true
		}

		if !isRead {
			c.gap(in.Namespace+": "+archive.DomainName,
				fmt.Errorf("VM %s has no pod in which libvirt runs: neither its domain nor its "+
					"node's devices were read", in.NamespacedName))
		}
	}
}

// versions are what virsh says of versions (libvirt tools/virsh-host.c, cmdVersion).
var versions = []string{"Using library", "Running hypervisor"}

// content reads what is in a pod.
func (c *Collector) content(ctx context.Context, in cluster.Instance, pod *corev1.Pod) {
	content := c.Client.Content(ctx, in, pod)
	nameOf := func(file string) string { return archive.OfPod(pod.Namespace, pod.Name, file) }

	if name := nameOf(archive.DomainName); content.DomainErr == nil {
		xml, removed := redact.Domain(string(content.Domain))
		c.keep(name, []byte(xml), removed)
	} else {
		c.gap(name, content.DomainErr)
	}

	if name := nameOf(content.SeenIn); content.NodeErr == nil {
		c.keep(name, content.Node, nil)
	} else {
		c.gap(name, content.NodeErr)
	}

	if name := nameOf(archive.VariablesName); content.EnvironErr == nil {
		variables, removed := redact.Variables(content.Environ)
		c.keep(name, []byte(strings.Join(variables, "\n")+"\n"), removed)
	} else {
		c.gap(name, content.EnvironErr)
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	// Pods are read in no order. Where their versions differ, all are kept.
	for line := range strings.Lines(string(content.Versions)) {
		name, version, isPair := strings.Cut(strings.TrimSpace(line), ": ")
		if isPair && slices.Contains(versions, name) {
			c.archive.Versions[name] = joined(c.archive.Versions[name], redact.Text(version))
		}
	}
}

// joined adds a version to a list in order, which may be empty.
func joined(list, version string) string {
	all := []string{version}
	if list != "" {
		all = append(all, strings.Split(list, ", ")...)
	}

	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", ")
}

// keep adds a file.
func (c *Collector) keep(name string, data []byte, removed redact.Removed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.archive.Files = append(c.archive.Files, archive.File{Name: name, Data: data})
	c.removed(name, removed)
}

// removed notes what was removed from a file.
func (c *Collector) removed(name string, removed redact.Removed) {
	for _, rule := range removed.Rules() {
		removal := archive.Removal{File: name, What: string(rule), Count: removed[rule]}
		c.archive.Removed = append(c.archive.Removed, removal)
	}
}

// gap notes what could not be read.
func (c *Collector) gap(what string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.archive.Unread = append(c.archive.Unread, gapOf(what, err))
}

// gapOnce notes what could not be read, unless it is noted: a right that one object lacks, the others
// lack, too.
func (c *Collector) gapOnce(what string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	isSame := func(g archive.Gap) bool { return g.What == what }
	if !slices.ContainsFunc(c.archive.Unread, isSame) {
		c.archive.Unread = append(c.archive.Unread, gapOf(what, err))
	}
}

// gapOf returns what could not be read, and why.
func gapOf(what string, err error) archive.Gap {
	if errors.Is(err, context.DeadlineExceeded) {
		err = reasons.WithHint("try again, or give it longer with --timeout", err)
	}
	return archive.Gap{What: what, Why: redact.Text(reasons.Text(err))}
}

// decode decodes JSON, whose numbers stay as they are.
func decode(data []byte, into any) error {
	decoder := json.NewDecoder(strings.NewReader(string(data)))
	decoder.UseNumber()
	return decoder.Decode(into)
}
