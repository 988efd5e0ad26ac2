#!/bin/sh -eu
# Checks images, or pulls all of them at the same time.
#   present  exits with 0 if every image is present; for runtimes that cannot pin images
#   pinned   exits with 0 if every image is present and the runtime asks the kubelet to keep it (`pinned` in
#            https://github.com/kubernetes/cri-api/blob/master/pkg/apis/runtime/v1/api.proto)
#   pull     pulls them
# Arguments: verb, address of the local registry, names of images.
verb=$1
shift 2
export PATH="/usr/local/bin:$PATH"
case $verb in
present)
  for image in "$@"; do
    crictl inspecti -q "$image" >/dev/null 2>&1 || { echo "$image is missing"; exit 1; }
  done
  ;;
pinned)
  for image in "$@"; do
    [ "$(crictl inspecti -o go-template --template '{{.status.pinned}}' "$image" 2>/dev/null)" = true ] ||
      { echo "$image is missing or not pinned"; exit 1; }
  done
  ;;
pull)
  pids=
  for image in "$@"; do
    crictl pull "$image" >/dev/null & pids="$pids $!"
  done
  for pid in $pids; do wait "$pid"; done
  ;;
*) echo "usage: cri-images.sh present|pinned|pull" >&2; exit 2 ;;
esac
