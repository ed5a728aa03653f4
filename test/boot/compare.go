package boot

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
)

// Compared is what `explain --guest -o json` prints.
type Compared struct {
	Source  string
	Devices []struct {
		ID, Outcome string
		Differences []string
	}
	Notes  []string
	Status int `json:"-"` // of the program; 1 when something differs
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

// compare asks the program under test whether the guest with this snapshot has
// the devices of a domain where they were planned.
func compare(binary, dir string, domain, snapshot []byte, flags ...string) (*Compared, error) {
	if len(snapshot) == 0 {
		return nil, errors.New("the guest printed no snapshot")
	}

	file := filepath.Join(dir, "guest.txtar")
	if err := os.WriteFile(file, snapshot, 0o644); err != nil {
		return nil, err
	}

	out, err := ask(binary, domain,
		append([]string{
			"explain", "-o", "json", "--domain", "-", "--guest", file,
		}, flags...)...)

	c := &Compared{}
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() == 1 {
		c.Status, err = 1, nil
	}

	if err != nil {
		return nil, err
	}

	return c, json.Unmarshal(out, c)
}
