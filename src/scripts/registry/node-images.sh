#!/bin/sh -eu
# Prints the images that this node needs without an API server, one in a line: those of its static pods, and the one of its
# pods' sandboxes in the settings of each container runtime. Changes nothing.
for file in /etc/kubernetes/manifests/*.yaml; do
  [ ! -f "$file" ] || sed -n 's/^ *\(- \)\{0,1\}image: *"\{0,1\}\([^" ]*\).*$/\2/p' "$file"
done
for file in /etc/containerd/config.toml /etc/crio/crio.conf.d/*.conf /etc/isulad/daemon.json \
  /etc/systemd/system/cri-dockerd.service; do
  [ ! -f "$file" ] ||
    sed -n "s/^.*\(sandbox\|sandbox_image\|pause_image\|pod-sandbox-image\|pod-infra-container-image\)[\"']\{0,1\} *[=: ] *[\"']\{0,1\}\([a-z0-9][^\"' ]*\/[^\"' ]*:[^\"' ]*\).*$/\2/p" "$file"
done
