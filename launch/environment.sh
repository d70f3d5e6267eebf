# shellcheck shell=bash
# Sourced by the scripts of this folder: lets Open MPI run as root, and more ranks than cores on one machine.
# What is already set in the environment is kept.

# Containers and CI run as root. mpirun refuses that unless both are set.
export OMPI_ALLOW_RUN_AS_ROOT="${OMPI_ALLOW_RUN_AS_ROOT:-1}"
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="${OMPI_ALLOW_RUN_AS_ROOT_CONFIRM:-1}"

# Eight ranks start on a machine with fewer cores, as with mpirun --oversubscribe.
export OMPI_MCA_rmaps_base_oversubscribe="${OMPI_MCA_rmaps_base_oversubscribe:-1}"
export PRTE_MCA_rmaps_default_mapping_policy="${PRTE_MCA_rmaps_default_mapping_policy:-:oversubscribe}" # Open MPI 5

# Open MPI 5 complains of every pair of an IPv4 and an IPv6 address, on machines that have both.
export OMPI_MCA_btl_tcp_disable_family="${OMPI_MCA_btl_tcp_disable_family:-6}"

# PyTorch of Debian 13 has no libuv, which torch.distributed would meet over.
export USE_LIBUV="${USE_LIBUV:-0}"

# A rank that waits lets others have its core; otherwise crowded ranks spin against each other.
export OMPI_MCA_mpi_yield_when_idle="${OMPI_MCA_mpi_yield_when_idle:-1}"
