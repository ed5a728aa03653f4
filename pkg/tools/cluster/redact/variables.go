package redact

import (
	"strings"

	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/words/lazyregexp"
)

// devices are the values that device plugins set: PCI addresses and UUIDs.
var devices = lazyregexp.New(`^[0-9a-fA-F:., -]*$`)

// Variables returns, of an environment, the variables with which device plugins name devices. Of
// the others it keeps the names.
func Variables(environ []string) (kept []string, removed Removed) {
	removed = Removed{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		isPlugin := strings.HasPrefix(name, env.PCIResourcePrefix) ||
			strings.HasPrefix(name, env.MDEVResourcePrefix)
		if isPlugin && devices.MatchString(value) {
			kept = append(kept, entry)
			continue
		}

		kept = append(kept, name+"="+Mark)
		removed[Values]++
	}

	return kept, removed
}
