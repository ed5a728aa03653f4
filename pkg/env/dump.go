package env

import (
	"bytes"
	"encoding/base64"
	"errors"
)

// dumpMarker precedes the domain in virt-launcher's log at verbosity 2
// (KubeVirt pkg/virt-launcher/virtwrap/util/libvirt_helper.go).
const dumpMarker = "Base64 dump "

const base64Alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="

// ErrCutOff says that a dump of a domain is incomplete.
var ErrCutOff = errors.New("the base64 dump of the domain is truncated or damaged")

// FindDomain returns the domain from a user's file: XML as it is, or the last
// base64 dump of a domain in virt-launcher's log. The error is ErrCutOff when the
// dump is incomplete.
func FindDomain(data []byte) ([]byte, error) {
	if text := bytes.TrimPrefix(data, []byte("\ufeff")); bytes.HasPrefix(bytes.TrimSpace(text), []byte("<")) {
		return data, nil
	}
	at := bytes.LastIndex(data, []byte(dumpMarker))
	if at < 0 {
		return nil, errors.New("neither XML nor a virt-launcher log with a base64 dump of a domain")
	}
	dump := data[at+len(dumpMarker):]
	dump = dump[:len(dump)-len(bytes.TrimLeft(dump, base64Alphabet))]
	xml, err := base64.StdEncoding.AppendDecode(nil, dump)
	if err != nil || !bytes.HasSuffix(bytes.TrimSpace(xml), []byte("</domain>")) {
		return nil, ErrCutOff
	}
	return xml, nil
}
