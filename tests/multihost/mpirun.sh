#!/bin/sh
# Open MPI's mpirun over the simulated cluster, started on its first node.
#   usage: mpirun.sh MPIRUN-ARGUMENTS...      e.g. mpirun.sh --host nodeA:2,nodeB:2 ./a.out
set -eu
here=$(CDPATH="" cd -- "$(dirname -- "$0")" && pwd)
. "$here/common.sh"
head=${MPINET_HEAD:-$(sed -n 's/^10\.77\.0\.1 //p' "$MPINET_STATE/hosts")}
# shellcheck source=tests/environment
. "$here/../environment"
mkdir -p "$MPINET_STATE/tmp" # goes away with the cluster
# Open MPI 4.1 reads the OMPI_MCA_ forms of the launcher's settings, Open MPI 5.0 the PRTE_MCA_ ones.
export OMPI_MCA_orte_tmpdir_base="$MPINET_STATE/tmp" PRTE_MCA_prte_tmpdir_base="$MPINET_STATE/tmp"
export OMPI_MCA_plm_rsh_agent="$here/rsh-agent.sh" PRTE_MCA_plm_ssh_agent="$here/rsh-agent.sh"
export OMPI_MCA_oob_tcp_if_include=10.77.0.0/16 PRTE_MCA_prte_if_include=10.77.0.0/16
export OMPI_MCA_btl_tcp_if_include=10.77.0.0/16 OMPI_MCA_pml=ob1 OMPI_MCA_btl=^openib,ofi
exec "$here/node-exec.sh" "$head" "${MPIRUN:-mpirun}" "$@"
