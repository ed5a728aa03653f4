//go:build linux

package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"libvirt.org/go/libvirtxml"
	"sigs.k8s.io/yaml"

	v1 "kubevirt.io/api/core/v1"
	cmdv1 "kubevirt.io/kubevirt/pkg/handler-launcher-com/cmd/v1"
	cmdclient "kubevirt.io/kubevirt/pkg/virt-handler/cmd-client"
	notifyserver "kubevirt.io/kubevirt/pkg/virt-handler/notify-server"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/api"
)

const libvirt = "qemu+unix:///session?socket=/var/run/libvirt/virtqemud-sock"

// handle does what virt-handler does to the launcher, until the VM is gone.
func (p *pod) handle() error {
	ended := make(chan struct{})
	if err := p.listen(ended); err != nil {
		return err
	}

	client, err := p.connect()
	if err != nil {
		return err
	}

	defer client.Close()
	options, err := p.options()
	if err != nil {
		return err
	}

	running := p.sync(client, options)
	if err := errors.Join(p.dump(running), p.ask()); err != nil {
		return err
	}

	if !running {
		p.took("not running")
		return p.delete(client)
	}

	if p.Plug != nil {
		if err := p.plug(client); err != nil {
			p.result.Plugged = err.Error()
		}
	}

	if p.Fault.At == "running" {
		return p.breakRunning(client)
	}

	if p.Boots {
		if err := p.wait(ended); err != nil {
			return err
		}
	} else if err := errors.Join(p.seen(), client.KillVirtualMachine(p.vmi)); err != nil {
		return err
	}

	return p.untilGone(func() error { return client.DeleteDomain(p.vmi) })
}

// untilGone does something to the launcher, which may end meanwhile.
func (p *pod) untilGone(do func() error) error {
	return until(endsWithin, func() error {
		if p.container("compute").ended(0) {
			return nil
		}
		return do()
	})
}

// delete deletes a VMI that never ran: the kubelet stops the pod, and virt-handler lets
// the launcher delete the domain, if there is one.
func (p *pod) delete(client cmdclient.LauncherClient) error {
	if err := p.container("compute").signal(syscall.SIGTERM); err != nil {
		return err
	}
	return p.untilGone(func() error {
		if err := logged("Waiting on final notifications"); err != nil {
			return err
		}
		return client.DeleteDomain(p.vmi)
	})
}

// breakRunning causes the fault while the VM runs, and ends what is left.
func (p *pod) breakRunning(client cmdclient.LauncherClient) error {
	if err := p.seen(); err != nil {
		return err
	}

	if _, err := p.spoil(nil); err != nil {
		return err
	}
	return p.untilGone(func() error {
		if err := client.KillVirtualMachine(p.vmi); err != nil {
			return err
		}
		return client.DeleteDomain(p.vmi)
	})
}

// seen waits until the launcher knows QEMU's process: one that is gone before keeps
// the launcher for --qemu-timeout (KubeVirt pkg/virt-launcher/monitor.go, refresh).
func (p *pod) seen() error {
	return until(endsWithin, func() error { return logged("Found PID for") })
}

// logged reports whether the launcher's log has a text.
func logged(text string) error {
	log, err := os.ReadFile(filepath.Join(out, "compute.log"))
	if err == nil && !bytes.Contains(log, []byte(text)) {
		err = fmt.Errorf("virt-launcher has not logged %q", text)
	}
	return err
}

// wait waits for the end of the guest, and prints how far it is: a machine that is
// silent hangs, and so does a guest.
func (p *pod) wait(ended <-chan struct{}) error {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	const silence = 2 * time.Minute
	size := int64(0)
	for printed := time.Now(); time.Since(printed) < silence; {
		select {
		case <-ended:
			p.took("guest ended")
			return nil

		case <-p.container("compute").done:
			return nil
		case <-tick.C:
			if info, err := os.Stat(p.console()); err == nil && info.Size() > size {
				size, printed = info.Size(), time.Now()
			}
			fmt.Println("POD the guest has printed", size, "bytes")
		}
	}

	p.printRegisters()
	fmt.Println("HOST-HUNG the guest does not end")
	return errors.New("the guest does not end")
}

// printRegisters prints where the guest hangs: HLT=1 shows that it waits for an interrupt, and
// with nokaslr RIP is an address of its kernel as it was linked.
func (p *pod) printRegisters() {
	text, err := virsh("qemu-monitor-command", "--hmp", api.VMINamespaceKeyFunc(p.vmi),
		"info registers -a")
	if err != nil {
		fmt.Println("POD no registers:", err)
		return
	}

	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "RIP=") || strings.HasPrefix(line, "CPU#") {
			fmt.Print("POD the guest hangs at ", line)
		}
	}
}

// listen serves the launcher's notifications, and closes the channel when the domain
// that ran has stopped.
func (p *pod) listen(ended chan<- struct{}) error {
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	if err := store.Add(p.vmi); err != nil {
		return err
	}

	events := make(chan watch.Event, 100)
	go func() {
		if err := notifyserver.RunServer(share, make(chan struct{}), events,
			record.NewFakeRecorder(100), store); err != nil {
			fmt.Println("POD notify server:", err)
		}
	}()

	go func() {
		ran, over := false, false
		for event := range events {
			domain, ok := event.Object.(*api.Domain)
			if !ok {
				continue
			}

			fmt.Println("POD the domain is", domain.Status.Status, domain.Status.Reason)
			ran = ran || domain.Status.Status == api.Running
			if ran && domain.Status.Status == api.Shutoff && !over {
				over = true
				close(ended)
			}
		}
	}()

	// virt-handler forwards a pipe of the launcher's user.
	return until(endsWithin, func() error {
		return os.Chmod(filepath.Join(share, "domain-notify.sock"), 0o666)
	})
}

func until(patience time.Duration, done func() error) error {
	var err error
	for began := time.Now(); time.Since(began) < patience; time.Sleep(50 * time.Millisecond) {
		if err = done(); err == nil {
			return nil
		}
	}

	return err
}

func (p *pod) connect() (client cmdclient.LauncherClient, err error) {
	cmdclient.SetBaseDir(share)
	socket := cmdclient.SocketOnGuest()
	err = until(readyAfter, func() error {
		if p.container("compute").ended(0) {
			return nil
		}

		if _, err := os.Stat(socket); err != nil {
			return err
		}

		client, err = cmdclient.NewClient(socket)
		return err
	})

	if err == nil && client == nil {
		// It gives a hook one second to answer Info, and panics (KubeVirt
		// pkg/hooks/manager.go, processSideCarSocket), and libvirt 10 s. An emulated
		// machine can be slower.
		fmt.Println("HOST-HUNG virt-launcher has ended")
		err = errors.New("it has ended")
	}

	if err != nil {
		return nil, fmt.Errorf("connect to virt-launcher: %w", err)
	}

	p.took("launcher ready")
	return client, nil
}

// options returns virt-handler's options (KubeVirt pkg/virt-handler/options.go).
func (p *pod) options() (*cmdv1.VirtualMachineOptions, error) {
	o := &cmdv1.VirtualMachineOptions{
		MemBalloonStatsPeriod:     10,
		Topology:                  &cmdv1.Topology{},
		InterfaceDomainAttachment: map[string]string{},
		ClusterConfig: &cmdv1.ClusterConfig{
			PCINUMAAwareTopologyEnabled: p.Aware, BochsDisplayForEFIGuests: true,
		},
		VirtualMachineSMBios: &cmdv1.SMBios{
			Family: "KubeVirt", Product: "None", Manufacturer: "KubeVirt", Version: "v1.9.0",
		},
	}

	for _, i := range p.vmi.Spec.Domain.Devices.Interfaces {
		if i.Masquerade != nil {
			o.InterfaceDomainAttachment[i.Name] = string(v1.Tap)
		}
	}

	list, err := p.plugins()
	if err != nil {
		return nil, err
	}

	o.PluginsJson = list
	if p.Cells {
		o.Topology, err = topology()
	}

	return o, err
}

// unrelated is a Plugin that has nothing to do with devices.
const unrelated = `{"metadata": {"name": "unrelated"}, "spec": {"domainHooks": [{"cel": ` +
	`{"expression": "Domain{Title: \"one of many\"}"}}]}}`

// plugins returns the Plugins of the cluster as a list in JSON, nil for none.
func (p *pod) plugins() ([]byte, error) {
	var list [][]byte
	if p.Plugin != nil {
		text, err := os.ReadFile(filepath.Join(lab, "plugin.yaml"))
		if err == nil {
			text, err = yaml.YAMLToJSON(text)
		}

		if err != nil {
			return nil, err
		}

		list = append(list, text)
	}

	switch p.Other {
	case "before":
		list = slices.Insert(list, 0, []byte(unrelated))
	case "after":
		list = append(list, []byte(unrelated))
	}

	if list == nil {
		return nil, nil
	}

	return slices.Concat([]byte("["), bytes.Join(list, []byte(",")), []byte("]")), nil
}

// topology returns the node's cells, as virt-handler reads them from the node labeller's
// capabilities: the cells of the file, else those that the pod's own libvirt reports.
func topology() (*cmdv1.Topology, error) {
	text, err := os.ReadFile(filepath.Join(lab, "capabilities.xml"))
	if errors.Is(err, os.ErrNotExist) {
		text, err = virsh("capabilities")
	}

	if err != nil {
		return nil, err
	}

	caps := &libvirtxml.Caps{}
	if err := xml.Unmarshal(text, caps); err != nil {
		return nil, err
	}

	t := &cmdv1.Topology{}
	for _, cell := range caps.Host.NUMA.Cells.Cells {
		c := &cmdv1.Cell{Id: uint32(cell.ID)}
		if cell.Memory != nil {
			c.Memory = &cmdv1.Memory{Amount: cell.Memory.Size, Unit: cell.Memory.Unit}
		}

		for _, p := range cell.PageInfo {
			c.Pages = append(c.Pages, &cmdv1.Pages{
				Count: p.Count, Unit: p.Unit, Size: uint32(p.Size),
			})
		}

		if cell.Distances != nil {
			for _, s := range cell.Distances.Siblings {
				c.Distances = append(c.Distances, &cmdv1.Sibling{
					Id: uint32(s.ID), Value: uint64(s.Value),
				})
			}
		}

		for _, cpu := range cell.CPUS.CPUs {
			one := &cmdv1.CPU{Id: uint32(cpu.ID)}
			for s := range strings.SplitSeq(cpu.Siblings, ",") {
				if n, err := strconv.ParseUint(s, 10, 32); err == nil {
					one.Siblings = append(one.Siblings, uint32(n))
				}
			}

			c.Cpus = append(c.Cpus, one)
		}

		t.NumaCells = append(t.NumaCells, c)
	}

	return t, nil
}

// impatient begins the error of a try that took virt-handler's client too long (20 s).
// The launcher goes on meanwhile, and virt-handler tries again.
const impatient = "unknown error encountered sending command SyncVMI: rpc error: code = " +
	"DeadlineExceeded"

// sync asks the launcher for the VM as often as the configuration says, not counting
// tries that only take too long, and reports whether it runs.
func (p *pod) sync(client cmdclient.LauncherClient, options *cmdv1.VirtualMachineOptions) bool {
	start := client.SyncVirtualMachine
	if p.Target {
		start = client.SyncMigrationTarget
	}

	for began := time.Now(); len(p.result.Syncs) < p.Syncs &&
		time.Since(began) < readyAfter; time.Sleep(time.Second) {
		err := start(p.vmi, options)
		p.took("sync")
		if err == nil {
			p.result.Syncs = append(p.result.Syncs, "")
			p.vmi.Status.Phase = v1.Running
			return !p.Target
		}

		fmt.Println("POD sync:", err)
		if !strings.HasPrefix(err.Error(), impatient) {
			p.result.Syncs = append(p.result.Syncs, err.Error())
		}
	}

	return false
}

// dump keeps the domain that libvirt holds, if there is one and a libvirt.
func (p *pod) dump(running bool) error {
	text, err := virsh("dumpxml", "--inactive", api.VMINamespaceKeyFunc(p.vmi))
	switch {
	case err == nil:
		return os.WriteFile(filepath.Join(out, "defined.xml"), text, 0o644)
	case running:
		return err
	}

	return nil
}

func virsh(args ...string) ([]byte, error) {
	text, err := exec.Command("/usr/bin/virsh",
		append([]string{"-q", "-c", libvirt}, args...)...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("virsh %s: %w: %s", args[0], err, exit.Stderr)
	}

	return text, err
}
