#!/bin/sh
# Stands in for ssh as Open MPI's plm_rsh_agent (also orte_rsh_agent, or Hydra's
# -launcher-exec): runs the command line on a simulated node.
#   usage: rsh-agent.sh [-ssh-options] NODE COMMAND...
# Like sshd: a clean environment, $HOME as directory, the words joined and given
# to a shell. So LD_PRELOAD and the like reach remote ranks only by `mpirun -x`.
set -eu
here=$(CDPATH="" cd -- "$(dirname -- "$0")" && pwd)
. "$here/common.sh"
while [ $# -gt 0 ]; do
    case $1 in
        -l|-p|-o|-i|-F) shift 2 ;;
        -*) shift ;;
        *) break ;;
    esac
done
node=${1#*@}; shift
cd "${HOME:-/}"
rc=0
env -i HOME="${HOME:-/}" USER="${USER:-root}" LOGNAME="${LOGNAME:-root}" \
    PATH="$PATH" SHELL=/bin/sh MPINET_NAME="$MPINET_NAME" MPINET_STATE="$MPINET_STATE" \
    "$here/node-exec.sh" "$node" /bin/sh -c "$*" || rc=$?
# This process is the ssh client: it stays on the calling node. It hears nothing of
# a power cut, and of a killed session only that the connection closed.
[ ! -e "$MPINET_STATE/crashed/$node" ] || exec sleep infinity
[ $rc -le 128 ] || rc=255
exit $rc
