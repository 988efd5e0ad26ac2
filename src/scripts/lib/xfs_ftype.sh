# shellcheck shell=sh
# Prints `ftype=1` if directory entries of a file system of XFS have types, else `ftype=0`; nothing if kubexm cannot read it. Without
# xfsprogs, the superblock has the answer: a bit of sb_features_incompat in version 5, and of sb_features2 before
# (https://www.kernel.org/pub/linux/utils/fs/xfs/docs/xfs_filesystem_structure.pdf).
# Arguments: the mount point.
xfs_ftype() {
  ! timed 5 xfs_info "$1" | grep -o 'ftype=[01]' || return 0
  device=$(timed 5 df -P "$1" | awk 'NR == 2 { print $1 }')
  timed 5 od -An -v -tx1 -N 220 "$device" | awk '
    { for (at = 1; at <= NF; at++) byte[count++] = $at }
    END {
      if (count < 220 || byte[0] byte[1] byte[2] byte[3] != "58465342") exit
      has_more = byte[100] ~ /^[89a-f]/
      if (byte[101] ~ /5$/) types = byte[219] ~ /[13579bdf]$/
      else types = has_more && byte[202] ~ /[2367abef]$/
      print "ftype=" types + 0
    }'
}
