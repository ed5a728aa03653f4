package cloudinit

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// ReadReport reads what the image's program report has written to the second serial
// port, by name. OVMF writes to that port before.
func ReadReport(text string) (map[string]string, error) {
	const heading = "== "
	begin := strings.Index(text, heading)
	if begin < 0 {
		return nil, errors.New("the guest reports nothing")
	}

	shown, name := map[string]string{}, ""
	for line := range strings.Lines(text[begin:]) {
		line = strings.TrimRight(line, "\r\n")
		if next, isName := strings.CutPrefix(line, heading); isName {
			name = next
			continue
		}

		data, err := base64.StdEncoding.DecodeString(line)
		if err != nil {
			return nil, fmt.Errorf("report of %s: %w", name, err)
		}

		shown[name] += string(data)
	}

	if name != "end" {
		return nil, fmt.Errorf("the report ends after %q", name)
	}

	return shown, nil
}
