//go:build linux

// Command pod runs a virt-launcher pod as /lab/pod.json describes it: the volumes
// and the network that the kubelet and virt-handler prepare, the containers, and a
// stand-in for virt-handler that has KubeVirt's own client and server. What happened
// is in /lab/out. hook-sidecar/test/launcher starts it.
//
//	pod here ROOT LAYER LAB   in new namespaces of this machine
//	pod in LAB                in new namespaces of a machine whose root is the pod's
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const (
	lab = "/lab"
	out = lab + "/out"
	// user is virt-launcher's (KubeVirt pkg/util/util.go, NonRootUID).
	user = 107
)

// config is the content of pod.json.
type config struct {
	VMI    json.RawMessage // as virt-controller leaves it
	Hook   []string        // flags of the hook sidecar; null for none
	Second []string        // flags of a hook sidecar after it; null for none
	Plugin []string        // flags of the plugin's sidecar; null for none
	// where the list has another Plugin: before that one, after it, "" for nowhere
	Other   string
	Target  bool     // of a migration: the VM is prepared and not started
	Env     []string // of the launcher's container
	Network string   // /etc/podinfo/network-info, "" for none
	Cells   bool     // pass the node's NUMA cells
	Aware   bool     // feature gate PCINUMAAwareTopology
	Syncs   int      // how often virt-handler tries to start the VM
	Boots   bool     // wait until the guest ends by itself
	Plug    *hotplug // what the VMI becomes while it runs
	Ask     []string // a command for the launcher's container, whose output is answer.txt
	Fault   fault
}

// result is the content of result.json; other files in /lab/out have the rest.
type result struct {
	Syncs    []string       // the error of each try, "" for none
	Shutdown bool           // the launcher called Shutdown of its hooks
	Ends     map[string]int // exit status of each container; 128 and the signal
	Running  []string       // containers that had to be stopped
	Left     []string       // files of the sockets' directories after the end
	Plugged  string         // error of Plug
}

func main() {
	err := errors.New("usage: pod here ROOT LAYER LAB | pod in LAB")
	switch {
	case len(os.Args) == 5 && os.Args[1] == "here":
		if err = enter(os.Args[2], os.Args[3], os.Args[4]); err == nil {
			err = run()
		}
	case len(os.Args) == 3 && os.Args[1] == "in":
		if err = enterNode(os.Args[2]); err == nil {
			err = run()
		}
	}

	if err != nil {
		fmt.Println("POD-ERROR", err)
		os.Exit(1)
	}

	fmt.Println("POD-END")
}

func run() error {
	data, err := os.ReadFile(filepath.Join(lab, "pod.json"))
	if err != nil {
		return err
	}

	p := &pod{began: time.Now(), result: result{Ends: map[string]int{}}}
	if err := json.Unmarshal(data, &p.config); err != nil {
		return fmt.Errorf("read pod.json: %w", err)
	}

	if err := errors.Join(p.play(), p.end()); err != nil {
		return err
	}

	if data, err = json.MarshalIndent(p.result, "", "\t"); err != nil {
		return err
	}

	return os.WriteFile(filepath.Join(out, "result.json"), data, 0o644)
}
