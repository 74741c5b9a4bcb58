#!/bin/sh
# Starts a simulated cluster: one network+UTS+IPC+mount namespace per node.
#   usage: netns-up.sh [NODE...]            default: nodeA nodeB
#   MPINET_RAILS=N   networks per node (default 1): rail r is 10.77.r.0/24, eth<r>
#   MPINET_NAME, MPINET_STATE: see common.sh
# Safe to run again: an older cluster of the same name is taken down first.
set -eu
here=$(CDPATH="" cd -- "$(dirname -- "$0")" && pwd)
. "$here/common.sh"
[ $# -gt 0 ] || set -- nodeA nodeB
rails=${MPINET_RAILS:-1}

"$here/netns-down.sh"
mkdir -p "$MPINET_STATE/holder" "$MPINET_STATE/env" "$MPINET_STATE/wire"
# shellcheck disable=SC2154  # the trap sets it
trap 'rc=$?; [ $rc -eq 0 ] || "$here/netns-down.sh"; exit $rc' EXIT

# The "switch" is a namespace too, so the machine's own network is not touched.
ip netns add "$mpinet_switch"
r=0
while [ $r -lt "$rails" ]; do
    ip -n "$mpinet_switch" link add "br$r" type bridge
    ip -n "$mpinet_switch" link set "br$r" up
    r=$((r + 1))
done

i=0
{
    echo "127.0.0.1 localhost"
    for node; do i=$((i + 1)); echo "10.77.0.$i $node"; done
} >"$MPINET_STATE/hosts"

i=0
for node; do
    i=$((i + 1))
    ns=$(mpinet_ns "$node")
    ip netns add "$ns"
    ip -n "$ns" link set lo up
    r=0
    while [ $r -lt "$rails" ]; do
        ip -n "$mpinet_switch" link add "p$r-$node" type veth peer name "eth$r" netns "$ns"
        ip -n "$mpinet_switch" link set "p$r-$node" master "br$r" up
        ip -n "$ns" addr add "10.77.$r.$i/24" dev "eth$r"
        ip -n "$ns" link set "eth$r" up
        r=$((r + 1))
    done
    # The holder keeps the unnamed namespaces alive; it reports in once they are set up.
    ready=$MPINET_STATE/holder/.$node
    rm -f "$ready"
    # shellcheck disable=SC2016  # the inner shell expands it
    ip netns exec "$ns" unshare --uts --ipc --mount sh -eu -c '
        hostname "$1"
        mount --bind "$2" /etc/hosts
        mount -t tmpfs -o mode=1777 tmpfs /dev/shm
        : >"$3"
        exec sleep infinity' holder "$node" "$MPINET_STATE/hosts" "$ready" \
        </dev/null >/dev/null 2>"$MPINET_STATE/holder/.$node.err" &
    pid=$!
    echo "$pid $(mpinet_starttime $pid)" >"$MPINET_STATE/holder/$node"
    tries=0
    until [ -e "$ready" ]; do
        tries=$((tries + 1))
        if [ $tries -gt 200 ] || ! kill -0 $pid 2>/dev/null; then
            mpinet_die "$node did not start: $(cat "$MPINET_STATE/holder/.$node.err")"
        fi
        sleep 0.05
    done
done

echo "$*"
