# shellcheck shell=bash
# Sourced by the scripts of this folder. Lets Open MPI run as root, and lets more ranks than cores run on one machine.
# Keeps variables that are already set in the environment.

# Containers and CI run as root, which mpirun refuses unless both variables are set.
export OMPI_ALLOW_RUN_AS_ROOT="${OMPI_ALLOW_RUN_AS_ROOT:-1}"
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="${OMPI_ALLOW_RUN_AS_ROOT_CONFIRM:-1}"

# Eight ranks start on a machine with fewer cores, as with mpirun --oversubscribe.
export OMPI_MCA_rmaps_base_oversubscribe="${OMPI_MCA_rmaps_base_oversubscribe:-1}"
export PRTE_MCA_rmaps_default_mapping_policy="${PRTE_MCA_rmaps_default_mapping_policy:-:oversubscribe}" # Open MPI 5

# Open MPI 5 warns about every pair of an IPv4 and an IPv6 address on machines that have both.
export OMPI_MCA_btl_tcp_disable_family="${OMPI_MCA_btl_tcp_disable_family:-6}"

# PyTorch of Debian 13 lacks libuv, which torch.distributed would use to meet.
export USE_LIBUV="${USE_LIBUV:-0}"

# A waiting rank yields its core to others. Otherwise ranks that share cores spin against each other.
export OMPI_MCA_mpi_yield_when_idle="${OMPI_MCA_mpi_yield_when_idle:-1}"
