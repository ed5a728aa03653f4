//go:build !linux

package host

import "errors"

// descriptor makes reading sysfs fast on Linux. Elsewhere directories are read step by
// step.
type descriptor int

func openDescriptor(string) (descriptor, error)     { return 0, errors.ErrUnsupported }
func (descriptor) dir(string) (descriptor, error)   { return 0, errors.ErrUnsupported }
func (descriptor) file(string) (descriptor, error)  { return 0, errors.ErrUnsupported }
func (descriptor) read([]byte) (int, error)         { return 0, errors.ErrUnsupported }
func (descriptor) link(string, []byte) (int, error) { return 0, errors.ErrUnsupported }
func (descriptor) entry(string) (entry, error)      { return entry{}, errors.ErrUnsupported }
func (descriptor) list() ([]string, error)          { return nil, errors.ErrUnsupported }
func (descriptor) close() error                     { return nil }
