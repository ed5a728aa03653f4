#!/usr/bin/env bash
# kubelet.sh NAME ADDRESS PODS [LINE...]: starts containerd and the kubelet of a node. Lines are added to the
# kubelet's configuration.
set -euo pipefail
name=$1 address=$2 pods=$3
shift 3
echo 1 > /proc/sys/net/ipv4/ip_forward
hostname "$name"
printf '127.0.0.1 localhost\n10.199.0.1 here\n10.199.0.2 node\n' > /etc/hosts
rm -rf /var/run && ln -s ../run /var/run
# virt-handler shares its directories with pods.
for dir in kubevirt kubevirt-private kubevirt-node-labeller; do
  mkdir -p "/var/lib/$dir"
  mount --bind "/var/lib/$dir" "/var/lib/$dir"
  mount --make-shared "/var/lib/$dir"
done
mkdir -p /etc/containerd /etc/cni/net.d /etc/kubelet /var/log/pods /var/log/containers /opt/cni
ln -sfn /usr/lib/cni /opt/cni/bin
: > /etc/resolv.conf.cluster
cat > /etc/containerd/config.toml << C
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  # Where the machine lacks CAP_SYS_RESOURCE, runc fails otherwise.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    discard_unpacked_layers = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
C
cat > /etc/cni/net.d/10-cluster.conflist << C
{"cniVersion": "0.4.0", "name": "cluster", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true, "ipam": {"type": "host-local", "ranges": [[{"subnet": "$pods"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "loopback"}]}
C
cat > /etc/kubelet/config.yaml << C
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: /lab/pki/ca.crt}}
authorization: {mode: Webhook}
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
resolvConf: /etc/resolv.conf.cluster
volumePluginDir: /var/lib/kubelet/volumeplugins
evictionHard: {memory.available: 50Mi, nodefs.available: "1%", imagefs.available: "1%"}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
runtimeRequestTimeout: 10m
nodeStatusUpdateFrequency: 10s
$(printf '%s\n' "$@")
C
# An emulated node has no CPU time for garbage collections and statistics.
export GOGC=400
containerd > "/lab/log/$name.containerd" 2>&1 < /dev/null &
until [[ -S /run/containerd/containerd.sock ]]; do sleep 0.2; done
# As systemd would, with Restart=always.
while true; do
  kubelet --config /etc/kubelet/config.yaml --kubeconfig "/lab/pki/$name.conf" --hostname-override "$name" --node-ip "$address" \
    --housekeeping-interval 1m -v 2 || true
  sleep 1
done >> "/lab/log/$name.kubelet" 2>&1 < /dev/null &
