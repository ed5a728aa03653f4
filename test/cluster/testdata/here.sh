#!/usr/bin/env bash
# here.sh WORK IMAGE LAYER: the first process of the namespaces in which this machine is the control plane
# and the node "here". WORK, with the programs in bin and the certificates in pki, is /lab there.
set -euo pipefail
work=$1 image=$2 layer=$3 root=$1/here/root
mount --make-rprivate /
mkdir -p "$work"/here/{upper,work,root,lib} "$work/log"
mount -t overlay overlay -o "lowerdir=$layer:$image,upperdir=$work/here/upper,workdir=$work/here/work" "$root"
mount --make-rshared "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
for dir in /sys/fs/cgroup /dev; do
  mount --rbind "$dir" "$root$dir"
  mount --make-rslave "$root$dir"
done
mount -t tmpfs tmpfs "$root/run"
mount --make-rshared "$root/run"
mkdir -p "$root/lab"
mount --rbind "$work" "$root/lab"
ip link set lo up
# The address of the service "kubernetes": there is no kube-proxy.
ip address add 10.96.0.1/32 dev lo
ip tuntap add tap0 mode tap
ip address add 10.199.0.1/24 dev tap0
ip link set tap0 up
ip route add 10.244.1.0/24 via 10.199.0.2
exec chroot "$root" /bin/bash /lab/control.sh
