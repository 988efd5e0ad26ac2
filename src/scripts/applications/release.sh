#!/bin/sh -eu
# Installs a release of Helm, or upgrades it to another revision, or removes it. Helm does not change the definitions of custom
# resources that a chart has in `crds` when it upgrades: they are applied before, without those of dependencies that the values
# switch off. A removal leaves them.
# Verbs: `end` ends the helm of a run that was killed; then `apply`, `remove`.
#   name, namespace  those of the release
#   chart            path of the chart: an archive or a directory; with `remove`, the path without `.tgz`, or nothing if the chart stays
#   files            the files of this directory, relative to it, as in `a.yaml b/c.yaml`
#   labels           labels of the revision, as in `a=b,c=d`
#   pending          the Secret of a revision that a killed run has left, if there is one
#   adopts           `yes` if objects that exist become part of the release
#   waits            `yes` if Helm waits until all objects are ready
#   seconds          how long Helm may take
# Standard input: values for the templates, as JSON.
: "${verb=}" "${name=}" "${namespace=}" "${chart=}" "${files=}" "${labels=}" "${pending=}" "${adopts=}" "${waits=}" "${seconds=}"
# Helm uses no settings, plugins and repositories of a user of this host.
export HOME=/run/kubexm/helm KUBECONFIG=/etc/kubernetes/admin.conf
helm=/usr/local/bin/helm
install -d -m 700 /run/kubexm /run/kubexm/helm
[ "$verb" != remove ] || {
  "$helm" uninstall "$name" --namespace "$namespace" --ignore-not-found --wait --timeout "${seconds}s" >/dev/null
  [ -z "$chart" ] || rm -rf "$chart" "$chart.tgz" "$chart.parts"
  exit
}
mark=/run/kubexm/helm/$namespace.$name.pid
[ "$verb" != end ] || {
  # It would still create or change a revision.
  last=$(cat "$mark" 2>/dev/null || echo none)
  left() { tr '\0' ' ' 2>/dev/null <"/proc/$last/cmdline" | grep -q "^/usr/local/bin/helm upgrade --install $name "; }
  while left; do kill -KILL "$last" 2>/dev/null || :; sleep 1; done
  exit
}
values=$(cat)
exec </dev/null
[ -z "$pending" ] || kubectl delete secret --ignore-not-found -n "$namespace" "$pending" >/dev/null
# Helm would apply the definitions and templates of a former version again.
[ ! -d "$chart" ] || find "$chart" -type f | while IFS= read -r file; do
  case " $files " in *" ${file#"$chart/"} "*) ;; *) rm -f "$file" ;; esac
done
# Unpacks a chart into a directory, and deletes links, which Helm does not follow in an archive.
unpack() {
  install -d -m 700 "$2"
  tar -xzf "$1" --no-same-owner --strip-components=1 -C "$2"
  find "$2" -type l -exec rm {} +
}
# Unpacks the dependencies of a chart, which can have some, too, and deletes all templates. Helm loads no archive with `_` before its name.
without_templates() {
  rm -rf "$1/templates"
  for packed in "$1"/charts/[!_]*.tgz; do
    [ ! -f "$packed" ] || { unpack "$packed" "$packed.d"; rm "$packed"; }
  done
  for part in "$1"/charts/*/; do [ ! -d "$part" ] || without_templates "${part%/}"; done
}
parts=${chart%.tgz}.parts
rm -rf "$parts"
if [ -f "$chart" ] && tar -tzf "$chart" | grep '^[^/]*/charts/' >/dev/null; then
  # `helm show crds` does not know the values.
  unpack "$chart" "$parts"
  rm -f "$parts/.helmignore"
  without_templates "$parts"
  kubernetes=$(kubectl get --raw /version | sed -n 's/.*"gitVersion": *"\([^"]*\)".*/\1/p')
  definitions=$(printf '%s' "$values" | "$helm" template "$name" "$parts" --namespace "$namespace" --kube-version "$kubernetes" \
    --include-crds --values -)
  rm -rf "$parts"
else
  definitions=$("$helm" show crds "$chart")
fi
if [ -n "$definitions" ]; then
  printf '%s\n' "$definitions" | kubectl apply --server-side --force-conflicts --field-manager=kubexm -f - >/dev/null
  printf '%s\n' "$definitions" | kubectl wait --for=condition=Established --timeout=60s -f - >/dev/null
fi
set --
[ "$adopts" != yes ] || set -- --take-ownership
[ "$waits" != yes ] || set -- "$@" --wait=watcher --wait-for-jobs
# Helm owns the fields of its objects, as kubexm owns those of its own.
printf '%s' "$values" | "$helm" upgrade --install "$name" "$chart" --namespace "$namespace" --create-namespace --skip-crds --reset-values \
  --force-conflicts --labels "$labels" --timeout "${seconds}s" "$@" --values - >/dev/null &
echo "$!" >"$mark"
wait "$!"
