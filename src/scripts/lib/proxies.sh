# shellcheck shell=sh
# Prints the proxies among variables, and each of their exceptions, one in each line. Of a proxy, it prints only the name: the
# address can have a password.
# Arguments: the beginning of each key, and of each value.
proxies() {
  awk -F= -v key="$1" -v value="$2" '
    { name = tolower($1) }
    name ~ /^(http|https|all)_proxy$/ && $2 != "" { print key "proxy=" value $1 }
    name == "no_proxy" {
      count = split(substr($0, 10), entries, /[, \t]+/)
      for (i = 1; i <= count || i == 1; i++) print key "no_proxy=" value entries[i]
    }' | head -n 2000
}
