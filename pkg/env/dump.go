package env

import (
	"bytes"
	"encoding/base64"
	"errors"
)

// dumpMarker stands before the domain in virt-launcher's log at verbosity 2
// (KubeVirt pkg/virt-launcher/virtwrap/util/libvirt_helper.go).
const dumpMarker = "Base64 dump "

// ErrCutOff says that a dump of a domain is not whole.
var ErrCutOff = errors.New("the base64 dump of the domain is cut off or damaged")

// FindDomain is the domain in what a user has: XML as it is, or the last
// base64 dump of a domain in lines of virt-launcher's log, which ends with
// </domain> as KubeVirt writes it. The error is ErrCutOff where it is not whole.
func FindDomain(data []byte) ([]byte, error) {
	if text := bytes.TrimPrefix(data, []byte("\ufeff")); bytes.HasPrefix(bytes.TrimSpace(text), []byte("<")) {
		return data, nil
	}
	at := bytes.LastIndex(data, []byte(dumpMarker))
	if at < 0 {
		return nil, errors.New("neither XML nor a virt-launcher log with a base64 dump of a domain")
	}
	dump := data[at+len(dumpMarker):]
	if end := bytes.IndexFunc(dump, notBase64); end >= 0 {
		dump = dump[:end]
	}
	xml, err := base64.StdEncoding.AppendDecode(nil, dump)
	if err != nil || !bytes.HasSuffix(bytes.TrimSpace(xml), []byte("</domain>")) {
		return nil, ErrCutOff
	}
	return xml, nil
}

func notBase64(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '+', r == '/', r == '=':
		return false
	}
	return true
}
