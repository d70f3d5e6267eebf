/* The service: balances, packs and exchanges samples over ranks. */
#ifndef EVENKEEL_C_SERVICE_H
#define EVENKEEL_C_SERVICE_H

#include "evenkeel/c/config.h"
#include "evenkeel/c/prefix.h"
#include "evenkeel/c/ranks.h"
#include "evenkeel/c/step.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Balances, packs and exchanges samples over ranks. */
typedef struct evenkeel_service evenkeel_service;

/* This rank's place in the mesh. */
typedef struct evenkeel_place {
  int32_t rank; /* number among the ranks that train */
  int32_t num_ranks;
  int32_t tp, cp, dp, pp; /* coordinates, from 0 */
  int32_t tp_size, cp_size, dp_size, pp_size;
  int32_t reports_results; /* 1 if collecting uses the results of this rank; other ranks need not have any */
} evenkeel_place;

/* Makes a service over ranks. Its messages do not interfere with those of other users of the ranks.
 * Collective. Returns CONFIG if the ranks' configurations differ or settings conflict, and MESH if the mesh
 * does not fit the ranks. See evenkeel_ranks_fail. */
EVENKEEL_API evenkeel_status evenkeel_service_create(const evenkeel_ranks* ranks,
                                                     const evenkeel_config* config,
                                                     evenkeel_service** service);
/* Same as evenkeel_service_create, but resumes from the state of a service or stream. `state` has `bytes`
 * bytes, equal on all ranks. The mesh may be a different one. Returns CONFIG, listing the differences, if the
 * job differs from the saved one, unless `accept_changes` is not 0; sources are compared when a stream is
 * made. Returns INPUT for text that is not a state or was modified. */
EVENKEEL_API evenkeel_status evenkeel_service_resume(const evenkeel_ranks* ranks,
                                                     const evenkeel_config* config, const char* state,
                                                     int64_t bytes, int32_t accept_changes,
                                                     evenkeel_service** service);
/* Returns this rank's place in the mesh. Local. */
EVENKEEL_API evenkeel_status evenkeel_service_get_place(const evenkeel_service* service,
                                                        evenkeel_place* place);

/* Makes one step from the samples that the ranks supply, any number each, including none (samples of count
 * 0). `samples` do not change and remain the caller's. `profile` names a profile of the configuration; NULL
 * or "" means the job's own settings. Collective. If a rank could not make its samples, it passes NULL, and
 * all ranks return an INPUT error that states this. Also returns INPUT for malformed samples, for fields that
 * differ between ranks, and if ranks call different functions; LIMIT for a sample above the cap or a rank
 * that is out of memory; CONFIG for an unknown profile. After an error, the service remains usable. */
EVENKEEL_API evenkeel_status evenkeel_service_step(evenkeel_service* service, const evenkeel_samples* samples,
                                                   const char* profile, evenkeel_step** step);
/* Returns all groups of ranks that may run a micro-batch together, over all tp and pp, in the same order on
 * all ranks: ranks (int32), group after group, and offsets, at which each group's ranks begin. With `mesh.cp:
 * flexible`, these are the groups of n neighbors whose first place is a multiple of n, for all powers of two
 * n up to mesh.max_cp; otherwise, the groups of the fixed cp. Local. */
EVENKEEL_API evenkeel_status evenkeel_service_context_groups(const evenkeel_service* service,
                                                             evenkeel_arrays** arrays);
/* Runs the samples of `step` again, under another profile. `step` becomes the new pass, and views of the
 * previous pass become invalid. Tokens do not move if the profiles assign and cut samples in the same way.
 * `added` has additional fields of this rank's samples, in the order in which the rank supplied them, which
 * is also the order of evenkeel_service_collect; NULL for none. Collective. If this function fails, the step
 * is used up, and must still be destroyed. Returns INPUT for fields of other samples, for a step that is NULL
 * or used up, and if ranks rerun different steps; otherwise the same errors as evenkeel_service_step. */
EVENKEEL_API evenkeel_status evenkeel_service_step_again(evenkeel_service* service, evenkeel_step* step,
                                                         const char* profile, const evenkeel_samples* added);
/* Returns the results of a step to the ranks that supplied the samples: this rank's samples in the order in
 * which it supplied them, with one field per result. The caller destroys them. `results` may be NULL on ranks
 * that have none. Collective; may be called any number of times for a step. Returns INPUT if results are
 * missing, have a wrong number of rows or could not be put on any rank, and if ranks collect different
 * steps. */
EVENKEEL_API evenkeel_status evenkeel_service_collect(const evenkeel_service* service,
                                                      const evenkeel_step* step,
                                                      const evenkeel_results* results,
                                                      evenkeel_samples** samples);
/* Same as evenkeel_service_collect, but returns the samples of all ranks, ordered by id, on rank `root` of
 * the ranks that train. The other ranks get samples of count 0. */
EVENKEEL_API evenkeel_status evenkeel_service_collect_on(const evenkeel_service* service,
                                                         const evenkeel_step* step,
                                                         const evenkeel_results* results, int32_t root,
                                                         evenkeel_samples** samples);
/* Reports the time that this rank took for one micro-batch of a step. Later steps are balanced by the
 * reported times if `balance.cost` is `measured`. Local. Returns ARGUMENT for a micro-batch that does not
 * exist, and INPUT for seconds that are not finite and above 0. */
EVENKEEL_API evenkeel_status evenkeel_service_report_time(const evenkeel_service* service,
                                                          const evenkeel_step* step, int64_t micro_batch,
                                                          double seconds);
/* Returns the service's position, before its next step, as text of at most 64 KiB. The text has `*bytes`
 * bytes, followed by a zero; `bytes` may be NULL. The caller frees the text with evenkeel_buffer_free. Equal
 * on all ranks between collective calls. Local. evenkeel_stream_state adds a stream's sources. */
EVENKEEL_API evenkeel_status evenkeel_service_state(const evenkeel_service* service, char** state,
                                                    int64_t* bytes);
/* Inspects a state: returns the number of its next step, and whether it has a stream's sources (1) or not
 * (0). Local. Returns INPUT for text that is not a state or was modified. */
EVENKEEL_API evenkeel_status evenkeel_state_inspect(const char* state, int64_t bytes, int64_t* next_step,
                                                    int32_t* has_sources);
EVENKEEL_API void evenkeel_service_destroy(evenkeel_service* service);

#ifdef __cplusplus
}
#endif

#endif
