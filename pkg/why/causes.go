// Package why names the cause of a VM that does not start. Objects of the API server and
// logs become the Evidence about one VM (objects.go), and the table (causes.yaml) says which
// of its lines name a cause (evidence.go). Objects and logs hold secrets: no value of an
// environment variable and no cloud-init data is in what the package returns.
package why

import (
	_ "embed"
	"strings"

	"sigs.k8s.io/yaml"
)

// table begins with what its columns are.
//
//go:embed causes.yaml
var table []byte

// Cause is a row of the table.
type Cause struct {
	Name     string   `json:"name"`     // the heading in docs/causes.md
	What     string   `json:"what"`     // what went wrong
	Messages []string `json:"messages"` // that components print; "*" stands for any text
	Remedy   string   `json:"remedy"`   // what to do
	Check    string   `json:"check"`    // doctor's check about the same; "" without one
	InGuest  bool     `json:"inGuest"`  // the VM runs, and its guest prints the messages
	Seen     []string `json:"seen"`     // addresses of threads that have the messages, or of code that prints them
}

// Causes returns the table.
func Causes() []Cause {
	var all []Cause
	if err := yaml.UnmarshalStrict(table, &all); err != nil {
		panic("causes.yaml: " + err.Error()) // it is part of the program
	}
	return all
}

// match returns where a text has one of the cause's messages, or -1.
func (c Cause) match(text string) int {
	for _, message := range c.Messages {
		before, after, _ := strings.Cut(message, "*")
		if at := strings.Index(text, before); at >= 0 && strings.Contains(text[at+len(before):], after) {
			return at
		}
	}
	return -1
}
