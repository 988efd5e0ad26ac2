# shellcheck shell=bash disable=SC2154 # `work` is the caller's
# Smoke test: functions that every Kubernetes cluster has. Sourced after checks.sh. The caller sets `work` and
# defines `kubectl`. The argument of `smoke IMAGE` is the agnhost image of the bundle.

smoke_kubectl() { kubectl -n smoke "$@"; }
smoke_in() { # POD COMMAND...
  local pod=$1
  shift
  smoke_kubectl exec "$pod" -- "$@"
}
smoke_pod() { smoke_kubectl get pods -l "app=$1" -o 'jsonpath={.items[0].metadata.name}'; }
smoke_rolled_out() { smoke_kubectl rollout status "$1" --timeout=180s; }
smoke_ready() { # DEPLOYMENT COUNT
  smoke_kubectl get deployment "$1"
  [ "$(smoke_kubectl get deployment "$1" -o 'jsonpath={.status.readyReplicas}')" = "$2" ]
}

smoke_objects() { # IMAGE: prints all objects that are applied first
  cat <<EOF
apiVersion: v1
kind: Namespace
metadata: {name: smoke}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: smoke}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  strategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 5
      containers:
        - name: web
          image: $1
          args: [netexec, --http-port=8080]
          ports: [{containerPort: 8080}]
          readinessProbe: {httpGet: {path: /hostname, port: 8080}, periodSeconds: 1}
          # A terminating pod answers until every node has removed it from the service.
          lifecycle: {preStop: {exec: {command: [sleep, "3"]}}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: smoke}
spec:
  type: NodePort
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080, nodePort: 30080}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: smoke}
data: {greeting: hello from a config map}
---
apiVersion: v1
kind: Secret
metadata: {name: password, namespace: smoke}
stringData: {word: hello from a secret}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: smoke}
spec:
  capacity: {storage: 10Mi}
  accessModes: [ReadWriteOnce]
  storageClassName: smoke
  hostPath: {path: /var/lib/kubelet/smoke, type: DirectoryOrCreate}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: smoke}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: smoke
  resources: {requests: {storage: 10Mi}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: everywhere, namespace: smoke}
spec:
  selector: {matchLabels: {app: everywhere}}
  template:
    metadata: {labels: {app: everywhere}}
    spec:
      tolerations: [{operator: Exists}]
      terminationGracePeriodSeconds: 1
      containers:
        - name: everywhere
          image: $1
          args: [netexec, --http-port=8080]
          env:
            - name: WORD
              valueFrom: {secretKeyRef: {name: password, key: word}}
          volumeMounts:
            - {name: settings, mountPath: /settings}
            - {name: password, mountPath: /password}
      volumes:
        - {name: settings, configMap: {name: settings}}
        - {name: password, secret: {secretName: password}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: writer, namespace: smoke}
spec:
  completions: 2
  template:
    metadata: {labels: {app: writer}}
    spec:
      restartPolicy: Never
      containers:
        - name: writer
          image: $1
          command: [sh, -c, "echo written >>/data/words; echo the job is done"]
          volumeMounts: [{name: data, mountPath: /data}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
EOF
}

smoke_apply() { smoke_objects "$1" | kubectl apply -f -; }
smoke_by_name() { # from a pod, through CoreDNS and the address of the service
  local client
  client=$(smoke_pod everywhere)
  smoke_in "$client" curl -sSf -m 5 http://web.smoke.svc.cluster.local/hostname | grep ^web-
}
smoke_answers_by() { # COUNT: at least this number of different pods answers
  local client
  client=$(smoke_pod everywhere)
  # shellcheck disable=SC2016 # expands in the pod
  smoke_in "$client" sh -c 'for n in $(seq 60); do curl -sSf -m 5 http://web/hostname; echo; done' | sort -u >"$work/answers"
  cat "$work/answers"
  [ "$(grep -c ^web- "$work/answers")" -ge "$1" ]
}
smoke_short_name() { smoke_in "$(smoke_pod everywhere)" curl -sSf -m 5 http://web/hostname; }
smoke_api_from_pod() { # the API server knows its service account, which has no rights
  # shellcheck disable=SC2016 # expands in the pod
  smoke_in "$(smoke_pod everywhere)" sh -c 'cd /var/run/secrets/kubernetes.io/serviceaccount &&
    curl -sS -m 10 --cacert ca.crt -H "Authorization: Bearer $(cat token)" \
      https://kubernetes.default.svc/api/v1/namespaces/smoke/secrets' | tee "$work/answer"
  grep -q 'system:serviceaccount:smoke:default' "$work/answer" && grep -q '"code": 403' "$work/answer"
}
smoke_everywhere() { # pods on every node reach pods on every node
  local from to
  for from in $(smoke_kubectl get pods -l app=everywhere -o 'jsonpath={.items[*].metadata.name}'); do
    for to in $(smoke_kubectl get pods -l app=everywhere -o 'jsonpath={.items[*].status.podIP}'); do
      smoke_in "$from" curl -sSf -m 5 "http://$to:8080/hostname" || { echo "$from does not reach $to"; return 1; }
    done
  done
}
smoke_node_port() { # the service answers on the node port of every node
  local address
  for address in $(kubectl get nodes -o 'jsonpath={.items[*].status.addresses[?(@.type=="InternalIP")].address}'); do
    curl -sSf -m 5 "http://$address:30080/hostname" || { echo "$address does not answer"; return 1; }
  done
}
smoke_data_stays() { # HOST...: a reset keeps what pods stored on their hosts, and no other host has such data. Removes it.
  local host
  : >"$work/kept"
  for host in "$@"; do
    on "$host" test -e /var/lib/kubelet/smoke/words || continue
    echo "$host" >>"$work/kept"
    on "$host" sh -c 'rm -r /var/lib/kubelet/smoke && rmdir /var/lib/kubelet'
  done
  [ -s "$work/writers" ] && sort "$work/kept" | diff "$work/writers" -
}
smoke_exec() { [ "$(smoke_in "$1" hostname)" = "$1" ]; }
smoke_logs() { smoke_kubectl logs "$1" | grep -i 'Started HTTP server on port 8080'; }
smoke_on_every_node() { # COMMAND: runs it with the name of each node's pod
  local pod
  for pod in $(smoke_kubectl get pods -l app=everywhere -o 'jsonpath={.items[*].metadata.name}'); do
    "$@" "$pod" || { echo "$pod fails"; return 1; }
  done
}
smoke_port_forward() {
  local pid status=0
  # The lines of a former call.
  rm -f "$work/forward.log"
  kubectl -n smoke port-forward service/web 18080:80 --address 127.0.0.1 >"$work/forward.log" 2>&1 &
  pid=$!
  until_true 20 grep -q Forwarding "$work/forward.log" &&
    curl -sSf -m 5 http://127.0.0.1:18080/hostname | grep ^web- || status=1
  kill "$pid"
  wait "$pid" 2>/dev/null || true
  cat "$work/forward.log"
  return $status
}
smoke_update() { # while the service answers every request
  local client pid status=0
  client=$(smoke_pod everywhere)
  # shellcheck disable=SC2016 # expands in the pod
  smoke_in "$client" sh -c 'until [ -e /tmp/stop ]; do
    curl -sSf -m 5 http://web/hostname >/dev/null || echo missed
    sleep 0.1
  done; echo ended' >"$work/requests" 2>&1 &
  pid=$!
  smoke_kubectl set env deployment/web ROUND=two && smoke_rolled_out deployment/web || status=1
  smoke_in "$client" touch /tmp/stop
  wait "$pid" || status=1
  cat "$work/requests"
  # Old pods may still be terminating.
  [ "$status" = 0 ] && grep -q ended "$work/requests" && ! grep -q missed "$work/requests" &&
    until_true 30 smoke_second_round
}
smoke_second_round() { smoke_in "$(smoke_pod web)" printenv ROUND | grep -x two; }
smoke_settings() { # POD
  smoke_in "$1" cat /settings/greeting | grep -x 'hello from a config map' &&
    smoke_in "$1" cat /password/word | grep -x 'hello from a secret' &&
    smoke_in "$1" printenv WORD | grep -x 'hello from a secret'
}
smoke_job() {
  smoke_kubectl wait --for=condition=complete --timeout=120s job/writer &&
  smoke_kubectl logs -l app=writer | grep 'the job is done'
}
smoke_volume() { # a third pod reads what pods of the job have written, which can run on two nodes
  smoke_kubectl get pods -l app=writer -o 'jsonpath={range .items[*]}{.spec.nodeName}{"\n"}{end}' | sort -u >"$work/writers"
  smoke_kubectl get pvc data -o 'jsonpath={.status.phase}' | grep -x Bound &&
  smoke_kubectl run reader --restart=Never --image="$1" --overrides='{"spec": {
    "containers": [{"name": "reader", "image": "'"$1"'", "command": ["sh", "-c", "cat /data/words"],
      "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
    "nodeName": "'"$(smoke_kubectl get pods -l app=writer -o 'jsonpath={.items[0].spec.nodeName}')"'",
    "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}}' &&
  smoke_kubectl wait --for=jsonpath='{.status.phase}'=Succeeded --timeout=60s pod/reader &&
  smoke_kubectl logs reader | grep -x written
}
smoke_gone() { smoke_kubectl get pods 2>&1 | grep 'No resources found'; }

smoke() { # IMAGE
  must "the API server accepts the objects" smoke_apply "$1"
  must "a deployment rolls out" smoke_rolled_out deployment/web
  must "a pod runs on every node" smoke_rolled_out daemonset/everywhere
  check "a pod reaches a service by its full name" until_true 30 smoke_by_name
  check "a pod reaches a service by its short name" smoke_short_name
  smoke_kubectl scale deployment/web --replicas=3 >/dev/null
  check "the deployment scales" smoke_rolled_out deployment/web
  check "the deployment has three pods" until_true 30 smoke_ready web 3
  check "all three pods answer through the service" smoke_answers_by 3
  check "pods on all nodes reach each other" smoke_everywhere
  check "the node port of every node leads to the service" smoke_node_port
  check "the API server knows the service account of a pod" smoke_api_from_pod
  check "kubectl exec works on every node" smoke_on_every_node smoke_exec
  check "kubectl logs works on every node" smoke_on_every_node smoke_logs
  check "kubectl port-forward works" smoke_port_forward
  check "pods on every node have their config map and secret" smoke_on_every_node smoke_settings
  check "the service answers every request during a rolling update" smoke_update
  check "a job completes" smoke_job
  check "a volume keeps the written data" smoke_volume "$1"
  kubectl delete namespace smoke --wait=false >/dev/null
  kubectl delete pv smoke --wait=false >/dev/null
  check "a namespace is deleted with its objects" until_true 90 smoke_gone
}
