package collect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/pkg/tools/cluster"
	"hook-sidecar/pkg/tools/cluster/archive"
	"hook-sidecar/pkg/tools/cluster/provider"
	"hook-sidecar/pkg/tools/cluster/redact"
)

// Limits of a log: of its last lines, and of bytes. Of what makes or offers devices the end says what
// fails.
const (
	lastLines      = 100_000
	maxLog         = 64 << 20
	providersLines = 500
	maxProviders   = 1 << 20
)

// maxProviderLogs limits the logs of what makes or offers devices. Those of pods that do not run come
// first.
const maxProviderLogs = 64

// console is the container that has what the guest prints on its serial console (KubeVirt
// pkg/virt-controller/services/template.go). That is the guest's, and holds whatever cloud-init
// prints of passwords and keys.
const console = "guest-console-log"

// isComponent reports whether a pod is of KubeVirt and logs about VMs.
func isComponent(pod *corev1.Pod) bool {
	app := pod.Labels["kubevirt.io"]
	return app == "virt-handler" || app == "virt-controller"
}

// podLog is a log of a pod: of one of its containers, now or before its restart.
type podLog struct {
	pod       *corev1.Pod
	container string
	before    bool // its restart

	isProviders bool // the pod makes or offers devices
}

// logs reads the logs of the VMs' pods, and what KubeVirt logs about the VMs, some at a time.
func (c *Collector) logs(ctx context.Context) {
	var group errgroup.Group
	group.SetLimit(concurrency)
	for _, pod := range c.pods {
		if isComponent(pod) && !c.isNear(pod) {
			continue
		}
		for _, log := range logsOf(pod) {
			group.Go(func() error {
				c.readLog(ctx, log)
				return nil
			})
		}
	}

	for _, log := range c.providerLogs() {
		group.Go(func() error {
			c.readLog(ctx, log)
			return nil
		})
	}

	group.Wait()
}

// providerLogs returns the logs of what makes or offers devices on the VMs' nodes, or on all while a VM
// waits for a node; those of pods that are not ready come first. What is more than the limit is a gap.
func (c *Collector) providerLogs() (all []podLog) {
	isWaiting := slices.ContainsFunc(c.pods, func(p *corev1.Pod) bool {
		return !isComponent(p) && p.Spec.NodeName == ""
	})

	pods := slices.Clone(c.providers)
	for _, pod := range c.pods { // virt-handler's near a VM is read with the logs about the VMs
		if pod.Labels["kubevirt.io"] == "virt-handler" && !c.isNear(pod) {
			pods = append(pods, pod)
		}
	}

	for _, pod := range pods {
		if !isWaiting && !c.isNear(pod) {
			continue
		}
		for _, log := range logsOf(pod) {
			log.isProviders = true
			all = append(all, log)
		}
	}

	slices.SortStableFunc(all, func(x, y podLog) int { return cmp.Compare(x.order(), y.order()) })
	if len(all) > maxProviderLogs {
		c.gap("logs of device plugins and drivers", fmt.Errorf("there are %d, and the first %d were read",
			len(all), maxProviderLogs))
		all = all[:maxProviderLogs]
	}

	return all
}

// order returns 0 for a log of a pod that is not ready, which says more than another's.
func (l podLog) order() int {
	isReady := func(s corev1.ContainerStatus) bool { return s.Ready }
	if all := l.pod.Status.ContainerStatuses; len(all) > 0 && !slices.ContainsFunc(all, isReady) ||
		l.before {
		return 0
	}
	return 1
}

// isNear reports whether a component may log about one of the VMs: virt-handler does about those of
// its node.
func (c *Collector) isNear(component *corev1.Pod) bool {
	node := component.Spec.NodeName
	isController := component.Labels["kubevirt.io"] == "virt-controller"
	return isController || slices.ContainsFunc(c.pods, func(p *corev1.Pod) bool {
		return !isComponent(p) && node != "" && p.Spec.NodeName == node
	})
}

// logsOf returns the logs that a pod has.
func logsOf(pod *corev1.Pod) (all []podLog) {
	status := pod.Status
	for _, s := range slices.Concat(status.InitContainerStatuses, status.ContainerStatuses) {
		if s.Name == console {
			continue
		}

		if s.State.Running != nil || s.State.Terminated != nil {
			all = append(all, podLog{pod: pod, container: s.Name})
		}

		// The log from before a restart is kept by the kubelet, and has what made the container
		// end.
		if s.LastTerminationState.Terminated != nil {
			all = append(all, podLog{pod: pod, container: s.Name, before: true})
		}
	}

	return all
}

// readLog reads a log. A container that never ran has none.
func (c *Collector) readLog(ctx context.Context, log podLog) {
	name := archive.OfPod(log.pod.Namespace, log.pod.Name, archive.LogOf(log.container, log.before))
	c.progress("log of " + log.pod.Name + ", " + log.container)
	lines, limit := lastLines, maxLog
	if log.isProviders {
		lines, limit = providersLines, maxProviders
	}

	data, err := c.Client.Get(ctx, cluster.Query{
		Resource: "pods", Namespace: log.pod.Namespace, Name: log.pod.Name, Part: "log",
		Parameters: map[string]string{
			"container": log.container, "previous": fmt.Sprint(log.before),
			"tailLines": fmt.Sprint(lines), "limitBytes": fmt.Sprint(limit),
		},
	})

	switch {
	case apierrors.IsNotFound(err) || apierrors.IsBadRequest(err):
		return
	case apierrors.IsForbidden(err) && log.isProviders: // so are the others of its namespace
		c.gapOnce(archive.Objects(log.pod.Namespace, "pods/log"), err)
		return
	case err != nil:
		c.gap(name, err)
		return

	case len(data) >= limit:
		c.gap(name, fmt.Errorf("it has more than %d bytes: its end is missing", limit))
	}

	text := string(data)
	if isComponent(log.pod) {
		text = c.aboutVMs(text)
	}

	if text == "" {
		return
	}

	safe, removed := redact.Log(text)
	c.keep(name, []byte(safe), removed)
}

// aboutVMs returns the lines of a component's log that name one of the VMs.
func (c *Collector) aboutVMs(text string) string {
	var names []string
	for _, vm := range c.vms {
		names = append(names, vm.Namespace+"/"+vm.Name, kubevirt.DomainName(vm.NamespacedName))
		if vm.UID != "" {
			names = append(names, string(vm.UID))
		}
	}

	for _, pod := range c.pods {
		if !isComponent(pod) {
			names = append(names, pod.Name)
		}
	}

	var b strings.Builder
	for line := range strings.Lines(text) {
		isIn := func(name string) bool { return namesWhole(line, name) }
		if slices.ContainsFunc(names, isIn) || c.isEntryOfVM(line) || isOfDevices(line) {
			b.WriteString(line)
		}
	}

	return b.String()
}

// isOfDevices reports whether a line of virt-handler is an error about what it offers on its node, which
// is about each VM that waits for it. One that names a VM is about that.
func isOfDevices(line string) bool {
	return strings.Contains(line, `"level":"error"`) && !strings.Contains(line, `"name":`) &&
		provider.IsAboutOffers(line)
}

// isEntryOfVM reports whether an entry of a log has a VM's name and namespace.
func (c *Collector) isEntryOfVM(line string) bool {
	return slices.ContainsFunc(c.vms, func(vm cluster.Instance) bool {
		return strings.Contains(line, `"name":"`+vm.Name+`"`) &&
			strings.Contains(line, `"namespace":"`+vm.Namespace+`"`)
	})
}

// namesWhole reports whether a line has a name, and not as a part of another's.
func namesWhole(line, name string) bool {
	for rest := line; ; {
		before, after, found := strings.Cut(rest, name)
		if !found {
			return false
		}
		if !endsName(before) && !beginsName(after) {
			return true
		}

		rest = after
	}
}

const nameCharacters = "abcdefghijklmnopqrstuvwxyz0123456789-."

func endsName(text string) bool {
	return text != "" && strings.Contains(nameCharacters, text[len(text)-1:])
}

// beginsName reports whether a name goes on in a text. A sentence may end after it.
func beginsName(text string) bool {
	text = strings.TrimPrefix(text, ".")
	return text != "" && strings.Contains(nameCharacters[:len(nameCharacters)-1], text[:1])
}
