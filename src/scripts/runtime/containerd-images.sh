#!/bin/sh -eu
# Checks whether images are present and protected from the kubelet's garbage collection
# (https://github.com/containerd/containerd/blob/main/docs/cri/architecture.md), or pulls and pins them.
# `check` exits with 75 if containerd does not answer: the images may be present.
# Arguments: `check` or `pull`, address of the local registry, names of images.
verb=$1
shift 2
export PATH="/usr/local/bin:$PATH"
case $verb in
check)
  left=3
  until images=$(ctr -n k8s.io images ls 2>&1); do
    left=$((left - 1))
    if [ "$left" = 0 ]; then
      printf 'containerd does not answer: %s\n' "$(printf '%s\n' "$images" | tail -n 1)" >&2
      exit 75
    fi
    sleep 2
  done
  for image in "$@"; do
    printf %s "$images" | awk -v image="$image" '
      $1 == image && /io.cri-containerd.pinned=pinned/ { found = 1 } END { exit !found }' ||
      { echo "$image is missing or not pinned"; exit 1; }
  done
  ;;
pull)
  pids=
  for image in "$@"; do
    pull "$image" & pids="$pids $!"
  done
  for pid in $pids; do wait "$pid"; done
  for image in "$@"; do
    ctr -n k8s.io images label "$image" io.cri-containerd.pinned=pinned >/dev/null
  done
  ;;
*) echo "usage: containerd-images.sh check|pull" >&2; exit 2 ;;
esac
