/* Evenkeel for C with ranks: takes samples of all ranks, makes balanced and packed micro-batches, and returns
 * results to the samples' ranks, over MPI or over the caller's own connections. Declares all functions of
 * libevenkeel_mpi (Evenkeel::c_mpi) and includes evenkeel.h, whose rules apply.
 *
 * All objects except a watchdog must be destroyed before MPI_Finalize.
 *
 * COLLECTIVE functions are marked as such. All ranks call them in the same order. If any rank finds an error,
 * all ranks return the same error. Therefore, a rank that has failed still makes the call: wrong arguments
 * are EVENKEEL_ERROR_INPUT on every rank, and running out of memory on one rank is EVENKEEL_ERROR_LIMIT. Only
 * three errors may occur on one rank alone: EVENKEEL_ERROR_MPI, after which the job should end; NULL for
 * ranks, a service or a stream, since there are no ranks to inform; and an error in returning a result that
 * all ranks have already made, such as NULL for the place of a stream's step. All other functions are
 * LOCAL. */
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

/* Returns the ranks of `comm`. The communicator remains the caller's, and must exist as long as any object
 * made over these ranks. Local. Returns MESH for MPI_COMM_NULL or an intercommunicator, and MPI if MPI is not
 * running. */
EVENKEEL_API evenkeel_status evenkeel_ranks_of_mpi(MPI_Comm comm, evenkeel_ranks** ranks);
/* Returns the communicator of the group that runs a micro-batch, for passing keys and values. A rank's number
 * in it is its number in the group. The communicator remains the service's. It is MPI_COMM_NULL if MPI does
 * not connect the ranks. Local. */
EVENKEEL_API evenkeel_status evenkeel_service_context(const evenkeel_service* service,
                                                      const evenkeel_step* step, int64_t micro_batch,
                                                      MPI_Comm* comm);

#ifdef __cplusplus
}
#endif

#endif
