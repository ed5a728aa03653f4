package boot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Compared is what `explain --guest --format json` says.
type Compared struct {
	Source  string
	Devices []struct {
		ID, Outcome string
		Differences []string
	}
	Status int `json:"-"` // of the program
}

// Outcomes counts the devices of an outcome.
func (c *Compared) Outcomes(outcome string) int {
	n := 0
	for _, d := range c.Devices {
		if d.Outcome == outcome {
			n++
		}
	}
	return n
}

// compare asks the program under test whether the guest whose snapshot this is
// sees the devices of a domain as planned.
func compare(binary, dir string, domain, snapshot []byte, flags ...string) (*Compared, error) {
	if len(snapshot) == 0 {
		return nil, errors.New("the guest gave no snapshot")
	}
	file := filepath.Join(dir, "guest.txtar")
	if err := os.WriteFile(file, snapshot, 0o644); err != nil {
		return nil, err
	}
	command := exec.Command(binary, append([]string{"explain", "--format", "json", "--domain", "-", "--guest", file}, flags...)...)
	command.Stdin = bytes.NewReader(domain)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	// 1 says that something differs.
	if err != nil && command.ProcessState.ExitCode() != 1 {
		return nil, fmt.Errorf("explain --guest: %w: %s", err, stderr.String())
	}
	c := &Compared{Status: command.ProcessState.ExitCode()}
	return c, json.Unmarshal(out, c)
}
