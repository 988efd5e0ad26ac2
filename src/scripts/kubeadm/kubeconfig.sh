#!/bin/sh -eu
# Prints a kubeconfig for each user, with a certificate that kubeadm issues on this control plane, each after a line
# `# USER`. The output is secret.
# Arguments: configuration of `kubeadm init`, group of the users, users.
config=$1 group=$2
shift 2
export PATH="/usr/local/bin:$PATH"
umask 077
install -d -m 700 /run/kubexm
file=/run/kubexm/kubeconfig.$$
trap 'rm -f "$file"' EXIT
printf '%s' "$config" >"$file"
for user in "$@"; do
  text=$(kubeadm kubeconfig user --config "$file" --client-name "$user" --org "$group" 2>"$file.said") || {
    cat "$file.said" >&2
    rm -f "$file.said"
    exit 1
  }
  rm -f "$file.said"
  printf '# %s\n%s\n' "$user" "$text"
done
