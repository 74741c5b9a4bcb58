#!/bin/sh
# Runs a command on a simulated node, as ssh would reach it but keeping the
# environment and, where it exists there, the working directory.
#   usage: node-exec.sh NODE COMMAND [ARG...]
set -eu
here=$(CDPATH="" cd -- "$(dirname -- "$0")" && pwd)
. "$here/common.sh"
node=$1; shift
pid=$(mpinet_holder "$node") || mpinet_die "node $node is not up"
# Per-node settings (e.g. HWLOC_XMLFILE=...), one NAME=VALUE a line.
if [ -r "$MPINET_STATE/env/$node" ]; then
    while IFS= read -r line; do
        case $line in ''|\#*) ;; *) export "${line?}" ;; esac
    done <"$MPINET_STATE/env/$node"
fi
exec nsenter -t "$pid" --net --uts --ipc --mount --wd="$PWD" "$@"
