#!/usr/bin/env bash
# node.sh: makes the emulated machine of test/e2e the node "node".
set -euo pipefail
export PATH=/data/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C HOME=/root
mount --make-rshared /
for entry in mqueue:/dev/mqueue hugetlbfs:/dev/hugepages bpf:/sys/fs/bpf; do
  mkdir -p "${entry#*:}"
  mount -t "${entry%%:*}" "${entry%%:*}" "${entry#*:}"
done
mkdir -p /data
mount -t ext4 /dev/vdc /data
for name in containerd kubelet; do
  mkdir -p "/data/$name" "/var/lib/$name"
  mount --bind "/data/$name" "/var/lib/$name"
done
mount --make-rshared /var/lib/kubelet
ip link set lo up
nic=$(basename /sys/bus/virtio/drivers/virtio_net/virtio*/net/*)
ip address add 10.199.0.2/24 dev "$nic"
ip link set "$nic" up
ip route add default via 10.199.0.1
echo 0123456789abcdef0123456789abcdef > /etc/machine-id
# KubeVirt 1.9.0 asks for /dev/vfio/devices/vfioN where sysfs has vfio-dev/vfioN, which Debian's kernel has without
# CONFIG_VFIO_DEVICE_CDEV and so without the device (virt-handler/device-manager/common.go).
mkdir -p /dev/vfio/devices
for dir in /sys/class/vfio-dev/*; do mknod "/dev/vfio/devices/${dir##*/}" c 1 3; done
for n in 0 1; do echo 300 > /sys/devices/system/node/node$n/hugepages/hugepages-2048kB/nr_hugepages; done
# All controllers for the groups below, as systemd would.
mkdir -p /sys/fs/cgroup/init
echo $$ > /sys/fs/cgroup/init/cgroup.procs
for controller in $(< /sys/fs/cgroup/cgroup.controllers); do echo "+$controller" > /sys/fs/cgroup/cgroup.subtree_control; done
rm -f /var/lib/kubelet/cpu_manager_state
/lab/kubelet.sh node 10.199.0.2 10.244.1.0/24 "cpuManagerPolicy: static" "kubeReserved: {cpu: 500m}"
