apiVersion: v1
kind: Secret
metadata: {name: site-ca}
type: kubernetes.io/tls
data:
  tls.crt: {{ .Values.certificate | b64enc }}
  tls.key: {{ .Values.key | b64enc }}
---
apiVersion: cert-manager.io/v1
kind: ClusterIssuer
metadata: {name: site-ca}
spec: {ca: {secretName: site-ca}}
