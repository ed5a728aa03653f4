//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"google.golang.org/grpc"

	"kubevirt.io/kubevirt/pkg/hooks"
	"kubevirt.io/kubevirt/pkg/hooks/info"
	"kubevirt.io/kubevirt/pkg/hooks/v1alpha3"
)

// fault is what goes wrong: in a call before the hook is asked (input), after it has
// answered (answer), or while the VM runs (running).
type fault struct {
	Call int
	At   string // input, answer or running; "" for no fault
	// Do is shift (move the last placed port by one slot), restart-plugin, or kill- and a
	// program: virt-launcher, virt-launcher-monitor, libvirtd, hook-sidecar.
	Do string
}

// witness is a hook sidecar that keeps what virt-launcher sends, and has the fault.
type witness struct {
	pod       *pod
	container string
	keeps     string // input or answer

	mu    sync.Mutex
	calls int
	shut  bool
}

func (w *witness) serve() error {
	dir := filepath.Join(hooks.HookSocketsSharedDirectory, w.container)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}

	listener, err := net.Listen("unix", filepath.Join(dir, "witness-"+w.keeps+".sock"))
	if err != nil {
		return err
	}

	server := grpc.NewServer()
	info.RegisterInfoServer(server, w)
	v1alpha3.RegisterCallbacksServer(server, w)
	go server.Serve(listener)
	return own(hooks.HookSocketsSharedDirectory)
}

func (w *witness) Info(context.Context, *info.InfoParams) (*info.InfoResult, error) {
	return &info.InfoResult{Name: w.container, Versions: []string{
		v1alpha3.Version,
	}, HookPoints: []*info.HookPoint{
		{Name: info.OnDefineDomainHookPointName}, {Name: info.ShutdownHookPointName},
	}}, nil
}

func (w *witness) OnDefineDomain(
	_ context.Context, p *v1alpha3.OnDefineDomainParams,
) (*v1alpha3.OnDefineDomainResult, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	name := filepath.Join(out, fmt.Sprint(w.keeps, w.calls))
	if err := errors.Join(os.WriteFile(name+".xml", p.DomainXML, 0o644),
		os.WriteFile(name+".vmi.json", p.Vmi, 0o644)); err != nil {
		return nil, err
	}

	domain := p.DomainXML
	if f := w.pod.Fault; f.Call == w.calls && f.At == w.keeps {
		w.pod.took(fmt.Sprintf("%s %d: %s", f.At, f.Call, f.Do))
		var err error
		if domain, err = w.pod.spoil(domain); err != nil {
			return nil, err
		}
	}

	return &v1alpha3.OnDefineDomainResult{DomainXML: domain}, nil
}

func (w *witness) PreCloudInitIso(
	_ context.Context, p *v1alpha3.PreCloudInitIsoParams,
) (*v1alpha3.PreCloudInitIsoResult, error) {
	return &v1alpha3.PreCloudInitIsoResult{CloudInitData: p.CloudInitData}, nil
}

func (w *witness) Shutdown(
	context.Context, *v1alpha3.ShutdownParams,
) (*v1alpha3.ShutdownResult, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shut = true
	return &v1alpha3.ShutdownResult{}, nil
}

func (w *witness) wasShutDown() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.shut
}

// spoil lets the fault happen.
func (p *pod) spoil(domain []byte) ([]byte, error) {
	switch do := p.Fault.Do; do {
	case "shift":
		return shift(domain)
	case "restart-plugin":
		old := p.container("plugin")
		if err := old.signal(syscall.SIGKILL); err != nil {
			return nil, err
		}
		<-old.done
		p.containers = slices.DeleteFunc(p.containers, func(c *container) bool { return c == old })
		return domain, p.startPlugin()

	default:
		return domain, kill(do[len("kill-"):])
	}
}

// slot is the slot of an address that is not on the root bus, in a controller.
var slot = regexp.MustCompile(
	`<address [^>]*bus=["']0x(?:0[1-9a-f]|[1-9a-f].)["'] slot=["']0x([0-9a-f]+)`)

// shift moves the last port that the hook has placed by one slot.
func shift(domain []byte) ([]byte, error) {
	parts := strings.Split(string(domain), "<controller ")
	for i := len(parts) - 1; i > 0; i-- {
		controller, _, _ := strings.Cut(parts[i], "</controller>")
		at := slot.FindStringSubmatchIndex(controller)
		if at == nil || !strings.Contains(controller, "-port") {
			continue
		}

		number, err := strconv.ParseUint(controller[at[2]:at[3]], 16, 8)
		if err != nil {
			return nil, err
		}

		parts[i] = fmt.Sprintf("%s%02x%s", parts[i][:at[2]], number+1, parts[i][at[3]:])
		return []byte(strings.Join(parts, "<controller ")), nil
	}

	return nil, errors.New("witness: no placed port to move")
}
