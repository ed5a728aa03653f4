#!/usr/bin/env bash
# control.sh: the first process of the node "here" in its root: etcd, the control plane, containerd and the kubelet.
set -euo pipefail
export PATH=/lab/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C HOME=/root
cd /
pki=/lab/pki
start() { "$@" > "/lab/log/$1" 2>&1 < /dev/null & }
# Containers' root file systems are overlays, which cannot be above an overlay.
for name in containerd kubelet etcd; do
  mkdir -p "/lab/here/lib/$name" "/var/lib/$name"
  mount --bind "/lab/here/lib/$name" "/var/lib/$name"
  mount --make-shared "/var/lib/$name"
done
start etcd --data-dir /var/lib/etcd --unsafe-no-fsync
start kube-apiserver --etcd-servers http://127.0.0.1:2379 --secure-port 443 --advertise-address 10.199.0.1 --service-cluster-ip-range 10.96.0.0/16 \
  --client-ca-file $pki/ca.crt --tls-cert-file $pki/apiserver.crt --tls-private-key-file $pki/apiserver.key \
  --service-account-issuer https://kubernetes.default.svc --service-account-key-file $pki/sa.pub --service-account-signing-key-file $pki/sa.key \
  --authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction --allow-privileged --enable-aggregator-routing \
  --requestheader-client-ca-file $pki/front-proxy-ca.crt --requestheader-allowed-names front-proxy-client --requestheader-username-headers X-Remote-User \
  --requestheader-group-headers X-Remote-Group --requestheader-extra-headers-prefix X-Remote-Extra- \
  --proxy-client-cert-file $pki/front-proxy-client.crt --proxy-client-key-file $pki/front-proxy-client.key \
  --kubelet-client-certificate $pki/apiserver-kubelet-client.crt --kubelet-client-key $pki/apiserver-kubelet-client.key \
  --kubelet-preferred-address-types InternalIP
start kube-controller-manager --kubeconfig $pki/controller-manager.conf --service-account-private-key-file $pki/sa.key --root-ca-file $pki/ca.crt \
  --use-service-account-credentials --leader-elect=false --cluster-signing-cert-file $pki/ca.crt --cluster-signing-key-file $pki/ca.key --node-monitor-grace-period 5m
start kube-scheduler --kubeconfig $pki/scheduler.conf --leader-elect=false
/lab/kubelet.sh here 10.199.0.1 10.244.0.0/24 "cgroupsPerQOS: false" "enforceNodeAllocatable: []"
while true; do sleep 3600 & wait; done # reaps orphans
