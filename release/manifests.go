package main

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// placeholder is the repository that the manifests name; there the image's tag
// is v1, and the image for KubeVirt's sidecar-shim is called -shim.
const placeholder = "registry.example.com/hook-sidecar"

// writeManifests writes the manifests into a folder, with a release's image:
// what kustomize makes of each folder that has a kustomization, and the other
// files as they are. The folder becomes part of the name, for a release has no
// folders: annotation/vm.yaml is annotation-vm.yaml, and overlays/mirror is
// plugin-mirror.yaml.
func writeManifests(from, dir, repository, tag string) error {
	disk := filesys.MakeFsInMemory()
	images := strings.NewReplacer(placeholder+":v1", repository+":"+tag, placeholder+"-shim:v1", repository+"-shim:"+tag)
	var files, folders []string
	err := fs.WalkDir(os.DirFS(from), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(from, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		if path.Base(name) == "kustomization.yaml" {
			folders = append(folders, path.Dir(name))
		} else {
			files = append(files, name)
		}
		return disk.WriteFile("/"+name, []byte(images.Replace(string(text))))
	})
	if err != nil {
		return err
	}
	for _, folder := range folders {
		built, parts, err := kustomize(disk, folder)
		if err != nil {
			return fmt.Errorf("kustomize build manifests/%s: %w", folder, err)
		}
		// A part of a kustomization is no file of its own.
		files = slices.DeleteFunc(files, func(name string) bool { return slices.Contains(parts, name) })
		if err := writeNew(dir, flat(folder)+".yaml", built); err != nil {
			return err
		}
	}
	for _, name := range files {
		text, err := disk.ReadFile("/" + name)
		if err != nil {
			return err
		}
		if err := writeNew(dir, flat(name), text); err != nil {
			return err
		}
	}
	return nil
}

// kustomize is what a folder is built to, and what it is built of.
func kustomize(disk filesys.FileSystem, folder string) (built []byte, parts []string, err error) {
	text, err := disk.ReadFile("/" + path.Join(folder, "kustomization.yaml"))
	if err != nil {
		return nil, nil, err
	}
	var k types.Kustomization
	if err := k.Unmarshal(text); err != nil {
		return nil, nil, err
	}
	for _, resource := range k.Resources {
		parts = append(parts, path.Join(folder, resource))
	}
	objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(disk, "/"+folder)
	if err != nil {
		return nil, nil, err
	}
	built, err = objects.AsYaml()
	return built, parts, err
}

// flat is the name of a manifest, or of a folder that was built, in a release.
func flat(name string) string {
	name = strings.Replace(name, "overlays/", "plugin/", 1)
	name = strings.Replace(name, "kubevirt/kubevirt.yaml", "kubevirt.yaml", 1)
	return strings.ReplaceAll(name, "/", "-")
}

// writeNew writes a file that is not there yet, so that no two get one name.
func writeNew(dir, name string, content []byte) (err error) {
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		if closed := file.Close(); err == nil {
			err = closed
		}
	}()
	_, err = file.Write(content)
	return err
}
