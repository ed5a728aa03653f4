package oracle

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// QEMUArguments is the command line with which libvirt would start a domain,
// without the program's name and environment. Nothing is defined or started. It
// needs <driver name='vfio'/> in PCI hostdevs, and a domain without NICs: for them
// libvirt makes tap devices, which needs root.
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

// shellWords splits what libvirt has quoted for a shell: with single quotes, and
// with a backslash before a quote or a newline.
func shellWords(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord, quoted, escaped := false, false, false
	for _, r := range line {
		switch {
		case escaped:
			escaped = false
			if r != '\n' {
				word.WriteRune(r)
				inWord = true
			}
		case r == '\'':
			quoted, inWord = !quoted, true
		case quoted:
			word.WriteRune(r)
		case r == '\\':
			escaped = true
		case r == ' ' || r == '\n':
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	if quoted || escaped {
		return nil, errors.New("domxml-to-native: a quote is not closed")
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}
