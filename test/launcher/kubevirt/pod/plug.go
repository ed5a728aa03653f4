//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// hotplug is a device for a running VM.
type hotplug struct {
	XML   string // the hostdev
	After string // what the guest prints when it waits for it
}

// plug attaches the device as KubeVirt's hotplug of host devices does (KubeVirt
// virtwrap/device/hostdevice/hotplug.go: virDomainAttachDeviceFlags with live and
// config), and keeps the domain of the time after.
func (p *pod) plug() {
	err := until(readyAfter, func() error {
		text, err := os.ReadFile(p.console())
		if err == nil && !bytes.Contains(text, []byte(p.Plug.After)) {
			err = fmt.Errorf("the guest has not printed %q", p.Plug.After)
		}
		return err
	})
	file := filepath.Join(out, "plug.xml")
	if err == nil {
		err = os.WriteFile(file, []byte(p.Plug.XML), 0o644)
	}
	domain := p.vmi.Namespace + "_" + p.vmi.Name
	var text []byte
	if err == nil {
		_, err = virsh("attach-device", domain, file, "--live", "--config")
		p.took("plugged")
	}
	if err == nil {
		text, err = virsh("dumpxml", domain)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(out, "plugged.xml"), text, 0o644)
	}
	if err != nil {
		p.result.Plugged = err.Error()
	}
}
