/* Ranks: the connection between the processes of a job. */
#ifndef EVENKEEL_C_RANKS_H
#define EVENKEEL_C_RANKS_H

#include "evenkeel/c/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Processes that work together. Services, streams and watchdogs keep the data that they need, so ranks may be
 * destroyed before them. evenkeel_mpi.h makes ranks from an MPI communicator. */
typedef struct evenkeel_ranks evenkeel_ranks;

/* The functions of a group that is not connected by MPI, such as a process group of torch.distributed.
 * `group` belongs to the caller. All functions except `release` are collective over the group, and return
 * when the data has arrived. Each returns EVENKEEL_OK, or another status after a call of
 * evenkeel_set_last_error. Only one thread at a time calls the functions of a group, but not always the same
 * thread. Arrays belong to the library. */
typedef struct evenkeel_group_calls {
  /* Sends the `bytes` bytes of rank `root` to all ranks. */
  evenkeel_status (*broadcast)(void* group, void* data, int64_t bytes, int32_t root);
  /* Gathers `bytes` bytes from each rank, in the order of ranks. */
  evenkeel_status (*all_gather)(void* group, const void* mine, int64_t bytes, void* all);
  /* Gathers bytes[r] bytes from each rank r, in the order of ranks. */
  evenkeel_status (*all_gather_lists)(void* group, const void* mine, const int64_t* bytes, void* all);
  /* Replaces each of the values with its minimum over all ranks, or with its maximum if `largest` is 1. */
  evenkeel_status (*all_reduce)(void* group, int64_t* values, int64_t count, int32_t largest);
  /* Sends out_bytes[r] bytes to each rank r, and receives in_bytes[r] bytes from it. Both buffers are
   * contiguous in the order of ranks. A rank sends 0 bytes to itself. */
  evenkeel_status (*all_to_all)(void* group, const void* out, const int64_t* out_bytes, void* in,
                                const int64_t* in_bytes);
  /* Makes another group, whose calls do not interfere with those of this group: with
   * EVENKEEL_SPLIT_DUPLICATE, of the same ranks; with EVENKEEL_SPLIT_BY_COLOR, of the ranks with the same
   * color, ordered by key and then by rank (NULL if the color is negative); with EVENKEEL_SPLIT_BY_NODE, of
   * the ranks on this rank's node. */
  evenkeel_status (*split)(void* group, int32_t how, int32_t color, int32_t key, void** made, int32_t* rank,
                           int32_t* size);
  /* Called after the last other call of a group. */
  void (*release)(void* group);
} evenkeel_group_calls;
enum { EVENKEEL_SPLIT_DUPLICATE = 0, EVENKEEL_SPLIT_BY_COLOR = 1, EVENKEEL_SPLIT_BY_NODE = 2 };

/* Returns the ranks of a caller's group, in which this process is number `rank` of `size`. `allows_threads`
 * is 1 if several threads may make calls at the same time, each with its own group; it must be equal on all
 * ranks. Plans and bytes are the same as over MPI. If this function fails, `group` is not released. Local. */
EVENKEEL_API evenkeel_status evenkeel_ranks_create(const evenkeel_group_calls* calls, void* group,
                                                   int32_t rank, int32_t size, int32_t allows_threads,
                                                   evenkeel_ranks** ranks);
/* Reports that this rank cannot make its configuration or its state. The rank calls this function instead of
 * evenkeel_service_create or evenkeel_service_resume, which the other ranks call. All ranks then return
 * `status` (INPUT for ARGUMENT, LIMIT for OUT_OF_MEMORY), with the last error of this thread. Collective.
 * Returns INPUT if `status` is not an error or is INTERNAL. */
EVENKEEL_API evenkeel_status evenkeel_ranks_fail(const evenkeel_ranks* ranks, evenkeel_status status);
EVENKEEL_API void evenkeel_ranks_destroy(evenkeel_ranks* ranks);

#ifdef __cplusplus
}
#endif

#endif
