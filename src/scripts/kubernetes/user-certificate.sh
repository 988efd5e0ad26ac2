#!/bin/sh -eu
# Lets the cluster sign the certificate of a user, and prints it as base64. Removes the request; Kubernetes removes the
# request of a run that was killed.
# Arguments: the name of the request. Standard input: the CertificateSigningRequest.
request=$1
kubectl create -f - >/dev/null
trap 'kubectl delete csr "$request" --ignore-not-found >/dev/null' EXIT
kubectl certificate approve "$request" >/dev/null
left=30
until certificate=$(kubectl get csr "$request" -o 'jsonpath={.status.certificate}') && [ -n "$certificate" ]; do
  left=$((left - 1))
  if [ "$left" = 0 ]; then
    echo "the controller manager did not sign the request within 30 seconds:" >&2
    kubectl get csr "$request" -o 'jsonpath={.status.conditions[*].message}' >&2
    echo >&2
    echo "hint: look at the kube-controller-manager, which signs certificates" >&2
    exit 1
  fi
  sleep 1
done
echo "$certificate"
