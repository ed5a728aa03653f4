package env

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
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
	Dumps int // in virt-launcher's log, of which XML is the last; 0 for a file that is no log
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

	if xml, err = Decompress(xml, limit); err != nil {
		return nil, err
	}
	if !isXML(xml) || !bytes.HasSuffix(bytes.TrimSpace(xml), []byte("</domain>")) {
		return nil, ErrCutOff
	}

	return xml, nil
}

// Decompress returns data that gzip has compressed as it was before, and other data as it
// is. More than limit bytes are an error, before they take memory.
func Decompress(data []byte, limit int) ([]byte, error) {
	if bytes.HasPrefix(data, []byte("\x1f\x8b")) { // RFC 1952, 2.3.1
		r, err := gzip.NewReader(bytes.NewReader(data))
		if err == nil {
			data, err = io.ReadAll(io.LimitReader(r, int64(limit)+1))
		}

		if err != nil {
			return nil, fmt.Errorf("decompress gzip: %w", err)
		}
	}

	if len(data) > limit {
		return nil, fmt.Errorf("more than %d bytes", limit)
	}
	return data, nil
}
