#!/usr/bin/env bash
# disk.sh FILE IMAGE...: in the namespaces of here.sh: the disk of the emulated node, with images unpacked as its containerd wants them:
# unpacked there, they would take minutes.
set -euo pipefail
file=$1
shift
rm -f "$file"
truncate -s 12G "$file"
mkfs.ext4 -q -O ^has_journal -E lazy_itable_init=1,nodiscard "$file"
mkdir -p /disk /run/disk
mount -o loop "$file" /disk
cat > /run/disk/config.toml << C
version = 2
root = "/disk/containerd"
state = "/run/disk/state"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = "/run/disk/sock"
[ttrpc]
  address = "/run/disk/ttrpc"
C
containerd -c /run/disk/config.toml > /lab/log/disk 2>&1 < /dev/null &
until [[ -S /run/disk/sock ]]; do sleep 0.2; done
# Run from the shared directory it would start in minutes, too.
install -D /lab/bin/kubelet /disk/bin/kubelet
for image; do ctr -a /run/disk/sock -n k8s.io images import "$image"; done
kill %1
wait || true
umount /disk
