# shellcheck shell=sh
# Prints the paths of the files that kubeadm creates, apart from those in directories that only the kubelet has.
kubeadm_files() {
  for name in config.yaml instance-config.yaml kubeadm-flags.env cpu_manager_state memory_manager_state; do
    echo "/var/lib/kubelet/$name"
  done
  for name in admin super-admin kubelet bootstrap-kubelet controller-manager scheduler; do echo "/etc/kubernetes/$name.conf"; done
  for name in kube-apiserver kube-controller-manager kube-scheduler etcd; do echo "/etc/kubernetes/manifests/$name.yaml"; done
  for name in ca apiserver apiserver-etcd-client apiserver-kubelet-client front-proxy-ca front-proxy-client \
    etcd/ca etcd/server etcd/peer etcd/healthcheck-client; do
    printf '%s\n' "/etc/kubernetes/pki/$name.crt" "/etc/kubernetes/pki/$name.key"
  done
  printf '%s\n' /etc/kubernetes/pki/sa.key /etc/kubernetes/pki/sa.pub
}
