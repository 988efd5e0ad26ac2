# shellcheck shell=sh
# Enters a directory that root has created in one of another user. A program of that user can exchange it for a link. Inside of it, and
# with relative paths, root changes only what is there.
# Arguments: path of the directory of the user, name of the one in it.
enter_own() {
  cd -P "$1" || exit
  wanted=$(pwd -P)/$2
  cd -P "$2" || exit
  case $(pwd -P)=$(stat -c '%u=%A' .) in
  "$wanted=$(id -u)=d"????-??-?) ;;
  *) echo "$1/$2 is not the directory that this restore has created" >&2; exit 1 ;;
  esac
}
