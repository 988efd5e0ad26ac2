{{- /* Changes the objects that the project publishes. */}}
{{- $values := .Values }}
{{- range $text := .Files.Get "manifests.yaml" | trimPrefix "---\n" | splitList "\n---\n" }}
{{- $object := fromYaml $text }}
{{- if eq (toString $object.kind) "StorageClass" }}
{{- $default := dict "storageclass.kubernetes.io/is-default-class" (toString $values.storageClass.isDefault) }}
{{- $_ := set $object.metadata "annotations" $default }}
{{- $_ := set $object "reclaimPolicy" $values.storageClass.reclaimPolicy }}
{{- end }}
{{- if hasKey (default dict $object.data) "config.json" }}
{{- $paths := dict "node" "DEFAULT_PATH_FOR_NON_LISTED_NODES" "paths" $values.paths }}
{{- $_ := set $object.data "config.json" (dict "nodePathMap" (list $paths) | toJson) }}
{{- $pod := index $object.data "helperPod.yaml" | fromYaml }}
{{- range $container := $pod.spec.containers }}
{{- $_ := set $container "image" $values.helperImage }}
{{- end }}
{{- $_ := set $object.data "helperPod.yaml" (toYaml $pod) }}
{{- end }}
---
{{ toYaml $object }}
{{- end }}
