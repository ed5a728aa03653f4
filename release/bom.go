package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

// writeBOM writes beside a program its bill of materials (CycloneDX 1.6): the
// modules that the linker recorded in it, and Go's own library.
func writeBOM(program string, at commit) (err error) {
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	name := filepath.Base(program)
	bom := cyclonedx.NewBOM()
	bom.SpecVersion = cyclonedx.SpecVersion1_6
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: at.time.Format(time.RFC3339),
		Component: &cyclonedx.Component{
			BOMRef: name, Type: cyclonedx.ComponentTypeApplication, Name: name, Version: at.tag,
			Hashes: &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
		},
	}
	components := []cyclonedx.Component{library("stdlib", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		components = append(components, library(module.Path, module.Version))
	}
	bom.Components = &components
	file, err := os.Create(program + ".cdx.json")
	if err != nil {
		return err
	}
	defer func() {
		if closed := file.Close(); err == nil {
			err = closed
		}
	}()
	encoder := cyclonedx.NewBOMEncoder(file, cyclonedx.BOMFileFormatJSON).SetPretty(true)
	if err := encoder.EncodeVersion(bom, bom.SpecVersion); err != nil {
		return fmt.Errorf("bill of materials of %s: %w", name, err)
	}
	return nil
}

// library is a module, by the name that scanners look it up with (package-url's
// purl-spec, type golang; a + is percent-encoded).
func library(path, version string) cyclonedx.Component {
	purl := strings.ReplaceAll("pkg:golang/"+path+"@"+version, "+", "%2B")
	return cyclonedx.Component{BOMRef: purl, Type: cyclonedx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: purl}
}
