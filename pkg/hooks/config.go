package hooks

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

const (
	// DefaultMaxMessage is the size in bytes of the largest request: a domain
	// of 8 MiB with its VMI. gRPC's own default of 4 MiB would refuse it.
	DefaultMaxMessage = 16 << 20

	// DefaultGrace is how long a call that is under way at the end may still
	// take. It stays below the 30 s that a kubelet waits by default between
	// SIGTERM and SIGKILL.
	DefaultGrace = 10 * time.Second

	// DefaultPatience is how long a client may take to send a request, or to
	// receive its answer, while other calls wait. virt-launcher waits a minute
	// for an answer, and for a plugin's 30 s.
	DefaultPatience = 5 * time.Second
)

// Config says what a Server serves and where.
type Config struct {
	Mutator Mutator
	Logger  *slog.Logger // nil: no log

	// Versions are the versions of the Callbacks service to serve and to
	// announce, in this order; empty: Versions().
	Versions []string

	// HookSocket is the full path of the socket for the Info and Callbacks
	// services; empty: they are not served. Its folder has to exist.
	HookSocket string
	// PluginSocket is the full path of the socket for structured plugins;
	// empty: they are not served. Its folder is made when it is absent.
	PluginSocket string

	MaxMessage int           // bytes; 0: DefaultMaxMessage
	Grace      time.Duration // 0: DefaultGrace
	Patience   time.Duration // 0: DefaultPatience
}

// withDefaults returns the configuration with every empty field filled.
func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if len(c.Versions) == 0 {
		c.Versions = Versions()
	}
	if c.MaxMessage == 0 {
		c.MaxMessage = DefaultMaxMessage
	}
	if c.Grace == 0 {
		c.Grace = DefaultGrace
	}
	if c.Patience == 0 {
		c.Patience = DefaultPatience
	}
	return c
}

// check reports what cannot be served.
func (c Config) check() error {
	if c.Mutator == nil {
		return errors.New("serve hooks: no mutator")
	}
	if c.HookSocket == "" && c.PluginSocket == "" {
		return errors.New("serve hooks: neither a hook socket nor a plugin socket is named")
	}
	if c.HookSocket == c.PluginSocket {
		return fmt.Errorf("serve hooks: %s is named as hook socket and as plugin socket", c.HookSocket)
	}
	// gRPC ends the process when a service is registered twice, so a version
	// that is named twice has to be found here.
	for i, version := range c.Versions {
		if !slices.Contains(Versions(), version) {
			return fmt.Errorf("serve hooks: unknown version %q, want one of %q", version, Versions())
		}
		if slices.Contains(c.Versions[:i], version) {
			return fmt.Errorf("serve hooks: version %q is named twice", version)
		}
	}
	return nil
}
