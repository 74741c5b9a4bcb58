#!/bin/sh
# Takes the simulated cluster down: kills what runs inside its namespaces (and
# nothing else), removes them. Safe to run when nothing is up.
set -eu
here=$(CDPATH="" cd -- "$(dirname -- "$0")" && pwd)
. "$here/common.sh"

ip netns list | cut -d' ' -f1 | grep "^$MPINET_NAME-" | while read -r ns; do
    # Twice: a process may fork between the listing and its end.
    for _ in 1 2; do
        for pid in $(ip netns pids "$ns" 2>/dev/null); do kill -9 "$pid" 2>/dev/null || :; done
    done
    ip netns del "$ns" || :
done
rm -rf "$MPINET_STATE"
