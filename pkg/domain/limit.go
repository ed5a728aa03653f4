package domain

import (
	"bytes"
	"fmt"
)

// Limit limits domains, for a process with little memory and a caller that receives no large
// results. 0 means no limit.
type Limit struct {
	Bytes int // of a domain
	// Signs limits the number of < and =, and so of elements and attributes: an element takes
	// some fifty times the memory of its shortest form.
	Signs    int
	Hostdevs int // all their pairs are compared
	Result   int // bytes of a changed domain
}

// Check returns an error for a domain over the limit, without parsing it.
func (l Limit) Check(domain []byte) error {
	if l.Bytes > 0 && len(domain) > l.Bytes {
		return fmt.Errorf("the domain has %d bytes, the limit is %d", len(domain), l.Bytes)
	}

	count := func(text string) int { return bytes.Count(domain, []byte(text)) }
	if signs := count("<") + count("="); l.Signs > 0 && signs > l.Signs {
		return fmt.Errorf("the domain has %d of the signs < and =, the limit is %d", signs, l.Signs)
	}

	if hostdevs := count("<hostdev"); l.Hostdevs > 0 && hostdevs > l.Hostdevs {
		return fmt.Errorf("the domain has %d hostdevs, the limit is %d", hostdevs, l.Hostdevs)
	}

	return nil
}

// CheckResult returns an error for a domain that grew larger than the caller can receive.
func (l Limit) CheckResult(domain, changed []byte) error {
	if l.Result == 0 || len(changed) <= l.Result || len(domain) > l.Result {
		return nil
	}
	return fmt.Errorf("the changed domain has %d bytes, virt-launcher can receive %d", len(changed),
		l.Result)
}
