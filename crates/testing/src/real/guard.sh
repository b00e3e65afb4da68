# Runs etcd and kube-apiserver in a folder for as long as standard input is open, then ends both and removes the folder.
# Whoever started this may be killed in any way: the pipe closes with it.
set -u
folder=$1 tools=$2 port=$3 authorization=$4
cd "$folder" || exit 1
exec 3<&0

"$tools/etcd" --name test --data-dir etcd --unsafe-no-fsync --log-level error \
    --listen-client-urls unix://etcd.sock:0 --advertise-client-urls unix://etcd.sock:0 \
    --listen-peer-urls unix://peer.sock:0 --initial-advertise-peer-urls unix://peer.sock:0 \
    --initial-cluster test=unix://peer.sock:0 >etcd.log 2>&1 3<&- &
etcd=$!
set --
[ "$authorization" != RBAC ] || set -- --audit-policy-file audit.yaml --audit-log-path audit.log --audit-log-mode blocking
"$tools/kube-apiserver" --etcd-servers "unix://$folder/etcd.sock:0" \
    --bind-address 127.0.0.1 --advertise-address 127.0.0.1 --secure-port "$port" --cert-dir certs \
    --token-auth-file tokens.csv --authorization-mode "$authorization" \
    --service-account-issuer https://kubernetes.default.svc --service-account-key-file accounts.key \
    --service-account-signing-key-file accounts.key --service-cluster-ip-range 10.0.0.0/16 \
    --disable-admission-plugins ServiceAccount --enable-priority-and-fairness=false --profiling=false "$@" \
    >apiserver.log 2>&1 3<&- &
apiserver=$!

(
    read -r _ <&3
    touch asked
    kill -9 "$apiserver"
) 2>/dev/null &
watcher=$!

wait "$apiserver" 2>/dev/null
if ! [ -e asked ]; then
    echo "kube-apiserver ended by itself:" >&2
    tail -n 20 apiserver.log etcd.log >&2
fi
kill -9 "$etcd" "$watcher" 2>/dev/null
wait 2>/dev/null
cd / && rm -rf "$folder"
