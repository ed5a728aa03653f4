//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	v1 "kubevirt.io/api/core/v1"
	cmdclient "kubevirt.io/kubevirt/pkg/virt-handler/cmd-client"
)

// hotplug is a VMI with one more SR-IOV NIC than the running VM has.
type hotplug struct {
	VMI   json.RawMessage
	After string // what the guest prints when it waits for the device
}

// plug lets the launcher attach the NIC as virt-handler does, and keeps the domain.
func (p *pod) plug(client cmdclient.LauncherClient) error {
	vmi := &v1.VirtualMachineInstance{}
	if err := json.Unmarshal(p.Plug.VMI, vmi); err != nil {
		return err
	}

	err := until(readyAfter, func() error {
		text, err := os.ReadFile(p.console())
		if err == nil && !bytes.Contains(text, []byte(p.Plug.After)) {
			err = fmt.Errorf("the guest has not printed %q", p.Plug.After)
		}
		return err
	})
	if err != nil {
		return err
	}

	before, err := p.hostdevs()
	if err != nil {
		return err
	}

	if err := client.HotplugHostDevices(vmi); err != nil {
		return err
	}

	// The launcher answers at once and attaches later.
	err = until(endsWithin, func() error {
		now, err := p.hostdevs()
		if err == nil &&
			bytes.Count(now, []byte("<hostdev")) == bytes.Count(before, []byte("<hostdev")) {
			err = errors.New("no device is attached")
		}

		return err
	})

	p.took("plugged")
	return err
}

// hostdevs returns the running domain, which is kept too.
func (p *pod) hostdevs() ([]byte, error) {
	text, err := virsh("dumpxml", p.vmi.Namespace+"_"+p.vmi.Name)
	return text, errors.Join(err, os.WriteFile(filepath.Join(out, "plugged.xml"), text, 0o644))
}
