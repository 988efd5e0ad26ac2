# shellcheck shell=bash disable=SC2154 # the variables are the caller's
# Objects that need what a bare cluster does not have. Sourced by tests/e2e-doctor. Each function leaves a healthy cluster.

without_classes() {
  kubectl apply -f - <<'EOF2'
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
spec: {ingressClassName: absent, defaultBackend: {service: {name: web, port: {number: 80}}}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: LoadBalancer, ports: [{port: 80}]}
EOF2
}
classes() {
  kubectl apply -f - <<'EOF2'
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: lab}
provisioner: example.com/none
---
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: lab}
spec: {controller: example.com/none}
EOF2
}

applications() {
  part "$kind: objects that need more than a bare cluster has"
  must "a claim, an Ingress and a Service" without_classes
  finds 90 "no StorageClass, no ingress class, no addresses" ingress-class,service-address,storage-class \
    '"{addon: local-path-provisioner}" in found["storage-class"]["fix"] and "{addon: traefik}" in found["ingress-class"]["fix"]'
  must "classes, of which none is the default" classes
  finds 30 "a claim without a default class, an Ingress of a class that does not exist" ingress-class,service-address,storage-class True
  check "the fix of storage-class works" follow_fix storage-class
  check "the fix of ingress-class works" follow_fix ingress-class
  finds 60 "a Service without an address" service-address 'found["service-address"]["certainty"] == "likely"'
  kubectl delete pvc/data ingress/web service/web storageclass/lab ingressclass/lab
  healthy
  took "applications"
}
