package kubevirt

import (
	"bytes"
	"encoding/base64"
	"errors"

	"hook-sidecar/pkg/words/gzipped"
)

// dumpMarker precedes the domain in virt-launcher's log at verbosity 2
// (KubeVirt pkg/virt-launcher/virtwrap/util/libvirt_helper.go).
const dumpMarker = "Base64 dump "

const base64Alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="

// ErrCutOff is the error of an incomplete dump of a domain.
var ErrCutOff = errors.New("the base64 dump of the domain is truncated or damaged")

// FoundDomain is a domain in a user's file.
type FoundDomain struct {
	XML   []byte
	Dumps int // in virt-launcher's log, XML being the last; 0 if the file is not a log
}

// FindDomain returns the domain from a user's file: XML, base64 of XML or of XML compressed
// by gzip, or the last such dump in virt-launcher's log. The error is ErrCutOff when the
// dump is incomplete. A domain of more than limit bytes is an error.
func FindDomain(data []byte, limit int) (FoundDomain, error) {
	if isXML(data) {
		return FoundDomain{XML: data}, nil
	}

	if bare := bytes.Join(bytes.Fields(data), nil); isBase64(bare) {
		xml, err := decodeDump(bare, limit)
		return FoundDomain{XML: xml}, err
	}

	at := bytes.LastIndex(data, []byte(dumpMarker))
	if at < 0 {
		return FoundDomain{},
			errors.New("neither XML nor a virt-launcher log with a base64 dump of a domain, nor " +
				"such a dump")
	}

	dump := data[at+len(dumpMarker):]
	dump = dump[:len(dump)-len(bytes.TrimLeft(dump, base64Alphabet))]
	xml, err := decodeDump(dump, limit)
	return FoundDomain{XML: xml, Dumps: bytes.Count(data, []byte(dumpMarker))}, err
}

func isXML(data []byte) bool {
	text := bytes.TrimPrefix(data, []byte("\ufeff"))
	return bytes.HasPrefix(bytes.TrimSpace(text), []byte("<"))
}

// isBase64 reports whether data is base64 that begins like that of XML or of gzip.
func isBase64(data []byte) bool {
	// of "<" and of gzip's first two bytes
	isDump := bytes.HasPrefix(data, []byte("P")) || bytes.HasPrefix(data, []byte("H4s"))
	return isDump && len(bytes.Trim(data, base64Alphabet)) == 0
}

func decodeDump(dump []byte, limit int) ([]byte, error) {
	xml, err := base64.StdEncoding.AppendDecode(nil, dump)
	if err != nil {
		return nil, ErrCutOff
	}

	if xml, err = gzipped.Decompress(xml, limit); err != nil {
		return nil, err
	}
	if !isXML(xml) || !bytes.HasSuffix(bytes.TrimSpace(xml), []byte("</domain>")) {
		return nil, ErrCutOff
	}

	return xml, nil
}
