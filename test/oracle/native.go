package oracle

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// QEMUArguments returns the command line with which libvirt would start a domain, without the
// program's name and environment. Nothing is defined or started. It needs <driver name='vfio'/> in
// PCI hostdevs, and a domain without NICs: for them libvirt makes tap devices, which needs root.
func (l *Libvirt) QEMUArguments(domain []byte) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	file := filepath.Join(l.dir, "native.xml")
	if err := os.WriteFile(file, domain, 0o644); err != nil {
		return nil, err
	}

	out, err := l.virsh("domxml-to-native qemu-argv --xml " + quote(l.inside(file)))
	if err != nil {
		return nil, err
	}

	words, err := shellWords(string(out))
	if err != nil {
		return nil, err
	}

	// The environment comes first, as NAME=VALUE, then the program.
	for i, word := range words {
		if strings.HasPrefix(word, "-") && i > 0 {
			return words[i:], nil
		}
	}

	return nil, fmt.Errorf("domxml-to-native: no option in %d words", len(words))
}

// shellWords splits what libvirt has quoted for a shell, with a shell. It reads the line
// as a script, which may be longer than an argument.
func shellWords(line string) ([]string, error) {
	shell := exec.Command("sh")
	shell.Stdin = strings.NewReader("printf '%s\\0' " + line)
	out, err := shell.Output()
	if err != nil {
		return nil, fmt.Errorf("domxml-to-native: %w", err)
	}

	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"), nil
}
