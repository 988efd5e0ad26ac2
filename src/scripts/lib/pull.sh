# shellcheck shell=sh
# Pulls an image. A registry that was killed answers again after some seconds.
# Arguments: image.
pull() {
  left=10
  until said=$(crictl pull "$1" 2>&1 >/dev/null); do
    left=$((left - 1))
    case $said in *": not found"*) left=0 ;; esac
    if [ "$left" = 0 ]; then
      printf '%s\n' "$said" >&2
      return 1
    fi
    sleep 2
  done
}
