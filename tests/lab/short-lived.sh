# shellcheck shell=bash disable=SC2034,SC2154 # `ends_at` is of the caller, too, which sets `work` and defines `on`
# Certificates of hosts with a lifetime of minutes. Sourced after `stage`. The CA NAME is in the files NAME.crt and NAME.key of
# `work`.

# The configuration of `openssl ca`, which signs certificates with a lifetime of minutes.
mkdir "$work/signed"
: >"$work/signed/index"
cat >"$work/signed/settings" <<EOF2
[ca]
default_ca = lab
[lab]
database = $work/signed/index
new_certs_dir = $work/signed
rand_serial = yes
default_md = sha256
policy = any
copy_extensions = copyall
unique_subject = no
[any]
organizationName = optional
commonName = supplied
EOF2
lifetime() { # MINUTES: of the certificates that are signed from now on
  ends_at=$(($(date +%s) + $1 * 60))
}
# The same certificate, signed by the same CA for the same key, with the present lifetime.
short_lived() { # CA KEY: reads a certificate and prints it
  openssl x509 -x509toreq -copy_extensions copyall -signkey "$2" >"$work/signed/request"
  openssl ca -batch -notext -config "$work/signed/settings" -cert "$work/$1.crt" -keyfile "$work/$1.key" \
    -enddate "$(date -u -d "@$ends_at" +%Y%m%d%H%M%SZ)" -in "$work/signed/request" 2>"$work/signed/log" || {
    cat "$work/signed/log" >&2
    return 1
  }
}
write_on() { # HOST FILE: writes standard input, and keeps mode and owner
  # shellcheck disable=SC2016 # expands on the host
  on "$1" sh -c 'cat >"$1"' sh "$2"
}
