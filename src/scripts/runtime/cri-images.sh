#!/bin/sh -eu
# Checks images, or pulls all of them at the same time.
#   present  exits with 0 if every image is present; for runtimes that cannot pin images
#   pinned   exits with 0 if every image is present and the runtime asks the kubelet to keep it (`pinned` in
#            https://github.com/kubernetes/cri-api/blob/master/pkg/apis/runtime/v1/api.proto)
#   pull     pulls them
# `present` and `pinned` exit with 75 if the runtime does not answer: the images may be present.
# Arguments: verb, address of the local registry, names of images.
verb=$1
shift 2
export PATH="/usr/local/bin:$PATH"
# Prints what crictl prints about an image. Fails if the runtime does not have it. A runtime that is busy or restarts
# does not answer for some seconds.
# Arguments: image, options of `crictl inspecti`.
inspect() {
  image=$1 left=3
  shift
  until said=$(crictl inspecti "$@" "$image" 2>&1); do
    case $said in *"no such image"*) return 1 ;; esac
    left=$((left - 1))
    if [ "$left" = 0 ]; then
      printf 'the runtime does not answer for %s: %s\n' "$image" "$(printf '%s\n' "$said" | tail -n 1)" >&2
      exit 75
    fi
    sleep 2
  done
  printf '%s\n' "$said"
}
case $verb in
present)
  for image in "$@"; do
    inspect "$image" -q >/dev/null || { echo "$image is missing"; exit 1; }
  done
  ;;
pinned)
  for image in "$@"; do
    # The subshell of `$()` ends with the status of the function.
    pinned=$(inspect "$image" -o go-template --template '{{.status.pinned}}') || {
      status=$?
      [ "$status" = 75 ] || { echo "$image is missing"; exit 1; }
      exit "$status"
    }
    case $pinned in *true) ;; *) echo "$image is not pinned"; exit 1 ;; esac
  done
  ;;
pull)
  pids=
  for image in "$@"; do
    pull "$image" & pids="$pids $!"
  done
  for pid in $pids; do wait "$pid"; done
  ;;
*) echo "usage: cri-images.sh present|pinned|pull" >&2; exit 2 ;;
esac
