package oracle

import (
	"fmt"
	"os"
	"path/filepath"
)

// Start starts a domain and ends it at once. The error is libvirt's, with what QEMU says if it does
// not start.
func (l *Libvirt) Start(domain []byte) error {
	name, err := nameOf(domain)
	if err != nil {
		return fmt.Errorf("start domain: %w", err)
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	prepared, _ := prepare(domain, rulesOf(l.version))
	file := filepath.Join(l.dir, "start.xml")
	if err := os.WriteFile(file, prepared, 0o644); err != nil {
		return err
	}

	if _, err := l.virsh("create " + quote(l.inside(file))); err != nil {
		return err
	}

	_, err = l.virsh("destroy " + quote(name))
	return err
}
