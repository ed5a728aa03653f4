# container.sh ROOT FILES SYSFS: makes ROOT the root of a container as virt-launcher's compute is, in this
# mount namespace: this machine's programs, /sys of another host, a libvirt of its own. FILES go to /run,
# emulator and memlock.so among them. Then it runs libvirtd. It is the first process of a PID namespace.
set -e
root=$1 files=$2 sysfs=$3
mount -t tmpfs -o mode=755 root "$root"
cd "$root"
mkdir -p usr etc/libvirt proc sys dev run/libvirt tmp var/lib/libvirt var/log var/cache root
chmod 1777 tmp
for directory in bin sbin lib lib64; do ln -s "usr/$directory" "$directory"; done
ln -s /run var/run
mount --rbind /usr usr
mount -t proc proc proc
mount --bind "$sysfs" sys
cp -r /etc/passwd /etc/group /etc/ld.so.cache /etc/alternatives etc/
echo 'libvirt-qemu:x:107:107::/:/bin/false' >> etc/passwd
echo 'libvirt-qemu:x:107:' >> etc/group
mkdir dev/vfio dev/pts dev/shm
mknod -m 666 dev/null c 1 3
mknod -m 666 dev/zero c 1 5
mknod -m 666 dev/random c 1 8
mknod -m 666 dev/urandom c 1 9
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
touch dev/vfio/vfio
cp "$files"/* run/
# Debian has libvirtd in the place of virtqemud; only its socket is called otherwise.
ln -s libvirt-sock run/libvirt/virtqemud-sock
cat > etc/libvirt/qemu.conf <<'CONF'
user = "root"
group = "root"
security_driver = "none"
cgroup_controllers = []
namespaces = []
stdio_handler = "file"
dynamic_ownership = 0
CONF
echo 'auth_unix_rw = "none"' > etc/libvirt/libvirtd.conf
chroot "$root" env -i PATH="$PATH" HOME=/root LD_PRELOAD=/run/memlock.so /usr/sbin/libvirtd &
wait # for every child: libvirt takes a QEMU that nobody waits for to be alive
