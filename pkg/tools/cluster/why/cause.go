package why

import (
	_ "embed"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"
)

// table begins with what its columns are.
//
//go:embed causes.yaml
var table []byte

// Stage is a stage of a VM's start. A stage begins when the one before it is passed.
type Stage string

// The stages, in order. The last two are beside the others: no stage passes them.
const (
	StageCreate    Stage = "create"    // KubeVirt creates the VMI and its pod
	StageSchedule  Stage = "schedule"  // the scheduler finds a node
	StageContainer Stage = "container" // the kubelet starts the pod's containers
	StageHook      Stage = "hook"      // virt-launcher waits for the hooks
	StageStart     Stage = "start"     // libvirt starts the domain
	StageMigrate   Stage = "migrate"   // the domain moves to another node
	StageGuest     Stage = "guest"     // the guest finds its devices
	StageNode      Stage = "node"      // the node loses a device, also of a VM that runs
	StageStop      Stage = "stop"      // the VM has to end, and does not
)

// stages are the stages in order.
var stages = []Stage{
	StageCreate, StageSchedule, StageContainer, StageHook, StageStart, StageMigrate, StageGuest,
	StageNode, StageStop,
}

// Cause is a row of the table.
type Cause struct {
	Name string `json:"name"` // the heading in docs/causes.md
	What string `json:"what"` // what went wrong
	// that fails: create, schedule, container, hook, start, migrate, guest, node, stop
	Stage    Stage    `json:"stage"`
	Messages []string `json:"messages"` // that components print; "*" stands for any text
	Remedy   string   `json:"remedy"`   // what to do
	Check    string   `json:"check"`    // doctor's check about the same; "" without one
	// other causes, of which one has to be named for this one to count; absent without any
	Needs []string `json:"needs,omitempty"`
	// other causes, which follow from this one; absent without any
	Explains []string `json:"explains,omitempty"`
	// it counts only where nothing else is named; absent otherwise
	Class bool `json:"class,omitempty"`
	// a driver that has the device later in the same output ends it; absent otherwise
	Ends bool `json:"endsWithDriver,omitempty"`
	// addresses of threads that have the messages, or of code that prints them
	Seen []string `json:"seen"`
}

// Causes returns the table.
func Causes() []Cause {
	var all []Cause
	if err := yaml.UnmarshalStrict(table, &all); err != nil {
		panic("causes.yaml: " + err.Error()) // it is part of the program
	}
	return all
}

// find returns the place and the pattern of the first of the cause's messages in a text, or -1.
func (c Cause) find(text string) (at int, message string) {
	for _, message := range c.Messages {
		before, after, _ := strings.Cut(message, "*")
		if at := strings.Index(text, before); at >= 0 &&
			strings.Contains(text[at+len(before):], after) {
			return at, message
		}
	}

	return -1, ""
}

// index finds causes in a log of many megabytes: it looks for the first bytes of all messages at
// once, and only where it finds some for a message.
type index struct {
	causes []Cause
	starts *heads                   // of the messages
	byHead map[[headSize]byte][]int // causes by their messages' first bytes, in order
}

// causeIndex returns the index of the table.
var causeIndex = sync.OnceValue(func() *index { return newIndex(Causes()) })

// newIndex returns the index of causes, whose messages have headSize bytes or more.
func newIndex(causes []Cause) *index {
	x := &index{causes: causes, starts: newHeads(), byHead: map[[headSize]byte][]int{}}
	for i, c := range causes {
		for _, message := range c.Messages {
			x.starts.add(message, start(message))
			head := [headSize]byte([]byte(message))
			x.byHead[head] = append(x.byHead[head], i)
		}
	}

	return x
}

// start returns what a message begins with, up to a sign that is escaped where it is quoted.
func start(message string) string {
	if end := strings.IndexAny(message, `*"'\<>&/`); end >= 0 {
		return message[:end]
	}
	return message
}

// mayFind reports whether a text, as it is or quoted, has the start of a message.
func (x *index) mayFind(text string) bool { return x.starts.isIn(text) }

// find returns the first cause of the table that has a message in the text, or nil.
func (x *index) find(text string) *Cause {
	return x.findOf(text, func(Cause) bool { return true })
}

// findOf returns the first of the causes that fit that has a message in the text, or nil.
func (x *index) findOf(text string, fits func(Cause) bool) *Cause {
	first := len(x.causes)
	for at := 0; at+headSize <= len(text); at++ {
		if !x.starts.mayBegin(text, at) {
			continue
		}
		for _, i := range x.byHead[[headSize]byte([]byte(text[at:at+headSize]))] {
			if i >= first || !fits(x.causes[i]) {
				continue
			}
			if place, _ := x.causes[i].find(text[at:]); place >= 0 {
				first = i
			}
		}
	}

	if first == len(x.causes) {
		return nil
	}

	return &x.causes[first]
}
