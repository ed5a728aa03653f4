package host

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"

	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// Snapshot holds the files of a sysfs tree that this program reads, from a fixed list. None
// of them has a serial number, a MAC address, the machine's UUID or its name. UUIDs of
// mediated devices are included, because they are names.
type Snapshot struct {
	Nodes, Functions, MDEVs int // the number of each

	files []txtar.File
}

// The files that a snapshot takes from each kind of directory, where they exist. config,
// which holds the serial number (PCI Express 5.0, 7.9.3), is represented by configSizeFile
// and listedFile.
const (
	nodesFiles    = "online has_cpu has_memory"
	nodeFiles     = "cpulist distance"
	functionFiles = "class vendor device subsystem_vendor subsystem_device revision" +
		" numa_node local_cpulist resource reset_method" +
		" current_link_speed current_link_width max_link_speed max_link_width" +
		" sriov_totalvfs sriov_numvfs"
	functionLinks = "driver iommu_group physfn"
	typeFiles     = "name device_api description available_instances"
	vgpuFiles     = "current_vgpu_type creatable_vgpu_types"
	mdevLinks     = "mdev_type iommu_group"
	groupFiles    = "type"
	iommuKinds    = "intel-iommu amd-iommu"
	iommuFiles    = "cap ecap features"
)

// TakeSnapshot reads a sysfs tree. A file that cannot be read is left out and
// becomes a warning; a tree without PCI devices is an error.
func TakeSnapshot(fsys fs.FS) (*Snapshot, []reasons.Finding, error) {
	w := &snapshotWriter{hostReader: newHostReader(fsys, 0), seen: map[string]bool{}}
	defer w.close()
	if _, err := w.tree.list(pciDevices); err != nil {
		return nil, nil, fmt.Errorf("take snapshot: %s: %w", pciDevices, err)
	}

	w.cpusAndNodes()
	functions, mdevs := listed(w.hostReader, pciDevices,
		topology.ParseAddress), listed(w.hostReader, mdevDevices, topology.ParseUUID)
	for _, a := range functions {
		w.function(a)
	}

	for _, u := range mdevs {
		w.mdev(u)
	}

	w.groups()
	w.iommus()
	if arguments := w.arguments(); len(arguments) > 0 {
		w.emit(argumentsFile, []byte(strings.Join(arguments, " ")+"\n"))
	}

	slices.SortFunc(w.out, func(a, b txtar.File) int { return cmp.Compare(pathOf(a), pathOf(b)) })
	s := &Snapshot{
		Nodes: len(w.hostReader.nodes), Functions: len(functions), MDEVs: len(mdevs), files: w.out,
	}

	return s, reasons.Sort(w.problems), nil
}

// pathOf returns the path of an entry, without the target of a link.
func pathOf(f txtar.File) string {
	name, _, _ := strings.Cut(f.Name, linkArrow)
	return name
}

// Format formats the snapshot after a comment. A comment with a line that begins an entry
// is an error.
func (s *Snapshot) Format(comment string) ([]byte, error) {
	if len(txtar.Parse([]byte(comment)).Files) > 0 {
		return nil, errors.New("the comment of the snapshot has a line of the form -- path --")
	}

	data := txtar.Format(&txtar.Archive{Comment: []byte(comment), Files: s.files})
	if _, err := ParseSnapshot(data); err != nil {
		return nil, fmt.Errorf("read the snapshot back: %w", err)
	}

	return data, nil
}

// SnapshotComment returns the comment at the start of a snapshot.
func SnapshotComment(data []byte) string { return string(txtar.Parse(data).Comment) }

// snapshotWriter collects the entries of a snapshot.
type snapshotWriter struct {
	*hostReader
	out  []txtar.File
	seen map[string]bool // paths in out
}

func (w *snapshotWriter) cpusAndNodes() {
	w.copyFiles(nodesDir, nodesFiles)
	for _, node := range w.hostReader.nodes {
		w.copyFiles(fmt.Sprintf("%s/node%d", nodesDir, node.ID), nodeFiles)
	}

	w.copyFiles(cpusDir, modaliasFile)
	for _, cpu := range w.cpus() {
		w.copyFiles(path.Join(cpusDir, cpu, "topology"), packageFile)
	}
}

func (w *snapshotWriter) function(a topology.Address) {
	link := path.Join(pciDevices, a.String())
	w.copyLink(link)
	dir, _ := w.deviceDir(link)
	if dir == "" {
		return
	}

	w.copyFiles(dir, functionFiles)
	w.copyLinks(dir, functionLinks)
	if w.configSize(dir) == conventionalBytes {
		w.emit(path.Join(dir, configSizeFile), fmt.Appendln(nil, conventionalBytes))
	}

	details := &topology.Details{}
	if w.extended(details, dir); details.ExtendedConfig {
		w.emit(path.Join(dir, listedFile), []byte(list(details)))
	}

	for _, kind := range w.entries(path.Join(dir, mdevTypes)) {
		w.copyFiles(path.Join(dir, mdevTypes, kind), typeFiles)
	}

	w.copyFiles(path.Join(dir, vgpuDir), vgpuFiles)
}

func (w *snapshotWriter) mdev(u topology.UUID) {
	link := path.Join(mdevDevices, u.String())
	w.copyLink(link)
	if dir, _ := w.deviceDir(link); dir != "" {
		w.copyLinks(dir, mdevLinks)
	}
}

func (w *snapshotWriter) copyLinks(dir, names string) {
	for name := range strings.FieldsSeq(names) {
		w.copyLink(path.Join(dir, name))
	}
}

// groups takes all IOMMU groups with their PCI functions and mediated devices.
func (w *snapshotWriter) groups() {
	for _, group := range w.entries(iommuGroups) {
		dir := path.Join(iommuGroups, group)
		w.copyFiles(dir, groupFiles)
		for _, member := range w.entries(path.Join(dir, "devices")) {
			_, notPCI := topology.ParseAddress(member)
			_, notMDEV := topology.ParseUUID(member)
			if notPCI == nil || notMDEV == nil {
				w.copyLink(path.Join(dir, "devices", member))
			}
		}
	}
}

// iommus takes what the IOMMUs are able to do.
func (w *snapshotWriter) iommus() {
	for _, name := range w.entries(iommuClass) {
		link := path.Join(iommuClass, name)
		w.copyLink(link)
		dir, _ := w.deviceDir(link)
		if dir == "" {
			continue
		}

		for kind := range strings.FieldsSeq(iommuKinds) {
			w.copyFiles(path.Join(dir, kind), iommuFiles)
		}
	}
}

// copyLink takes a link, if it exists, with its shortest target. The kernel writes
// that one, too (fs/kernfs/symlink.c, kernfs_get_target_path).
func (w *snapshotWriter) copyLink(link string) {
	target, err := w.tree.link(link)
	if err == nil {
		target, err = filepath.Rel(path.Dir(link), target)
	}

	if err == nil {
		target = filepath.ToSlash(target)
		err = checkLink(link, target, nil)
	}

	if w.check(link, err); err == nil {
		w.emit(link+linkArrow+" "+target, nil)
	}
}

// copyFiles takes the named files of a directory that exist.
func (w *snapshotWriter) copyFiles(dir, names string) {
	for name := range strings.FieldsSeq(names) {
		file := path.Join(dir, name)
		content, err := w.tree.file(file)
		w.check(file, err)

		switch {
		case err != nil:
		case len(txtar.Parse([]byte(content)).Files) > 0:
			w.problem(reasons.CodeBadSysfs, file,
				"has a line of the form -- path --, which begins an entry of a snapshot")

		default:
			w.emit(file, []byte(content))
		}
	}
}

func (w *snapshotWriter) emit(name string, data []byte) {
	file := txtar.File{Name: name, Data: data}
	if w.seen[pathOf(file)] {
		return
	}

	w.seen[pathOf(file)] = true
	w.out = append(w.out, file)
}
