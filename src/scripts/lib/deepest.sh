# shellcheck shell=sh
# Prints the options, the type and the mount point of each of these directories: of the last file system at the longest path that
# contains it. The directory may not exist yet.
# Arguments: the directories; files with mounts, or standard input.
deepest() {
  paths=$1
  shift
  awk -v paths="$paths" '
    BEGIN { count = split(paths, path, " ") }
    $2 ~ /^\// {
      mount = $2 ~ /\/$/ ? $2 : $2 "/"
      for (i = 1; i <= count; i++)
        if (index(path[i] "/", mount) == 1 && length(mount) >= length(best[i])) { best[i] = mount; line[i] = $4 " " $3 " " $2 }
    }
    END { for (i = 1; i <= count; i++) if (line[i] != "" && !seen[path[i]]++) print path[i], line[i] }' "$@"
}
