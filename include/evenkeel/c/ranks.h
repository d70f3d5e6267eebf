/* Ranks: what connects the processes of a job. */
#ifndef EVENKEEL_C_RANKS_H
#define EVENKEEL_C_RANKS_H

#include "evenkeel/c/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Processes that work together. Services, streams and watchdogs keep what they need: ranks may be destroyed
 * before them. evenkeel_mpi.h makes them of a communicator. */
typedef struct evenkeel_ranks evenkeel_ranks;

/* The calls of a group that something other than MPI connects, such as a process group of torch.distributed.
 * `group` is the caller's. All calls except `release` are collective over the group and return when the data
 * has arrived. Each returns EVENKEEL_OK, or another status after evenkeel_set_last_error. One thread at a
 * time makes the calls of a group, but not always the same thread. Arrays belong to the library. */
typedef struct evenkeel_group_calls {
  /* Sends rank `root`'s `bytes` bytes to all. */
  evenkeel_status (*broadcast)(void* group, void* data, int64_t bytes, int32_t root);
  /* Gathers `bytes` bytes from each rank, in the order of ranks. */
  evenkeel_status (*all_gather)(void* group, const void* mine, int64_t bytes, void* all);
  /* The same with bytes[r] bytes from rank r. */
  evenkeel_status (*all_gather_lists)(void* group, const void* mine, const int64_t* bytes, void* all);
  /* The least of all ranks' values, or the largest if `largest` is 1; element by element, in place. */
  evenkeel_status (*all_reduce)(void* group, int64_t* values, int64_t count, int32_t largest);
  /* Sends out_bytes[r] bytes to rank r, which sends in_bytes[r]; both back to back, 0 to itself. */
  evenkeel_status (*all_to_all)(void* group, const void* out, const int64_t* out_bytes, void* in,
                                const int64_t* in_bytes);
  /* Makes another group, whose calls do not interfere with those of this one. EVENKEEL_SPLIT_DUPLICATE: of
   * the same ranks. EVENKEEL_SPLIT_BY_COLOR: of ranks with the same color, ordered by key and then by rank;
   * NULL if the color is negative. EVENKEEL_SPLIT_BY_NODE: of the ranks on this rank's node. */
  evenkeel_status (*split)(void* group, int32_t how, int32_t color, int32_t key, void** made, int32_t* rank,
                           int32_t* size);
  /* Called when no more calls of a group will follow. */
  void (*release)(void* group);
} evenkeel_group_calls;
enum { EVENKEEL_SPLIT_DUPLICATE = 0, EVENKEEL_SPLIT_BY_COLOR = 1, EVENKEEL_SPLIT_BY_NODE = 2 };

/* The ranks of a caller's group, in which this process is number `rank` of `size`. `allows_threads`: 1 if
 * several threads may make calls at once, each with a group of its own; equal on all ranks. Plans and bytes
 * are the same as over MPI. If it fails, `group` is not released. Local. */
EVENKEEL_API evenkeel_status evenkeel_ranks_create(const evenkeel_group_calls* calls, void* group,
                                                   int32_t rank, int32_t size, int32_t allows_threads,
                                                   evenkeel_ranks** ranks);
/* For a rank that cannot make its configuration or state, instead of evenkeel_service_create or
 * evenkeel_service_resume, which the other ranks call: all ranks return `status`, with the last error of this
 * thread. Collective. INPUT if `status` is not an error. */
EVENKEEL_API evenkeel_status evenkeel_ranks_fail(const evenkeel_ranks* ranks, evenkeel_status status);
EVENKEEL_API void evenkeel_ranks_destroy(evenkeel_ranks* ranks);

#ifdef __cplusplus
}
#endif

#endif
