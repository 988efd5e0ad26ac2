# shellcheck shell=sh
# Prints file systems below directories of the cluster that a boot does not mount. systemd has no unit for a mount by hand, and does
# not start that of a line with noauto. The program that started a container mounted its file systems. Prints mount point, root, type,
# source, options and directory.
# Arguments: the directories, separated by blanks.
unsaved_mounts() {
  systemd-detect-virt -cq 2>/dev/null || for path in $1; do
    awk -v path="$path/" '{ mount = $5 == "/" ? "/" : $5 "/" } index(path, mount) == 1 && length(mount) >= length(best) { best = mount; split($0, half, " - "); split(half[2], of, " "); line = $5 " " $4 " " of[1] " " of[2] " " $6 "," of[3] }
      END { if (best != "" && best != "/") print line, substr(path, 1, length(path) - 1) }' /proc/self/mountinfo
  done | while read -r point rest; do
    saved=$(awk -v point="$point" '$1 !~ /^#/ && ($2 == point || $2 == point "/") { saved = "," $4 ",";
      saved = saved ~ /,noauto,/ && saved !~ /,x-systemd\.(automount|wanted-by|required-by)[,=]/ ? "noauto" : "yes" } END { print saved }' /etc/fstab 2>/dev/null) || saved=
    case $saved in
    yes) continue ;;
    noauto) echo "noauto_mount=$point $rest" && continue ;;
    esac
    [ "$(bounded 5 systemctl show -p FragmentPath -- "$point")" != FragmentPath= ] || echo "unsaved_mount=$point $rest"
  done
}
