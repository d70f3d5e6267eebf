/* Evenkeel for C with ranks: samples of all ranks in, balanced and packed micro-batches out, results back to
 * the samples' ranks, over MPI or over the caller's own connections. Has everything in libevenkeel_mpi
 * (Evenkeel::c_mpi) and in evenkeel.h, whose rules apply.
 *
 * All objects except a watchdog must be destroyed before MPI_Finalize.
 *
 * COLLECTIVE functions say so: all ranks call them in the same order. If any rank finds
 * an error, all ranks return the same error. So a rank that has failed still makes the call: wrong arguments
 * are EVENKEEL_ERROR_INPUT on every rank, and running out of memory on one rank is EVENKEEL_ERROR_LIMIT. Only
 * three errors may occur on one rank alone: EVENKEEL_ERROR_MPI, after which the job should end; a NULL
 * service or stream, which has no ranks to tell; and an error in returning what all ranks have already made,
 * such as NULL for the place of a stream's step. All other functions are LOCAL. */
#ifndef EVENKEEL_C_EVENKEEL_MPI_H
#define EVENKEEL_C_EVENKEEL_MPI_H

#include <mpi.h>

#include "evenkeel/c/evenkeel.h"
#include "evenkeel/c/ranks.h"
#include "evenkeel/c/samples.h"
#include "evenkeel/c/service.h"
#include "evenkeel/c/step.h"
#include "evenkeel/c/stream.h"
#include "evenkeel/c/watchdog.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The ranks of `comm`, which remains the caller's and must live as long as all that is made over these ranks.
 * Local. MESH for MPI_COMM_NULL and an intercommunicator, MPI if it is not running. */
EVENKEEL_API evenkeel_status evenkeel_ranks_of_mpi(MPI_Comm comm, evenkeel_ranks** ranks);
/* The communicator of the group that runs a micro-batch, for passing keys and values; the rank in it is
 * the group's. It remains the service's; MPI_COMM_NULL over ranks that MPI does not connect. Local. */
EVENKEEL_API evenkeel_status evenkeel_service_context(const evenkeel_service* service,
                                                      const evenkeel_step* step, int64_t micro_batch,
                                                      MPI_Comm* comm);

#ifdef __cplusplus
}
#endif

#endif
