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
  int32_t rank; /* among the ranks that train */
  int32_t num_ranks;
  int32_t tp, cp, dp, pp; /* coordinates, from 0 on */
  int32_t tp_size, cp_size, dp_size, pp_size;
  int32_t reports_results; /* 1 if results of this rank are used when they are collected; others need none */
} evenkeel_place;

/* Makes a service over ranks, which messages of others do not disturb. Collective. CONFIG if configurations
 * of ranks differ or settings conflict, MESH if the mesh does not fit the ranks. See evenkeel_ranks_fail. */
EVENKEEL_API evenkeel_status evenkeel_service_create(const evenkeel_ranks* ranks,
                                                     const evenkeel_config* config,
                                                     evenkeel_service** service);
/* The same, resuming from the state of a service or stream in these `bytes` bytes, equal on all ranks; the
 * mesh may be another one. CONFIG that lists how the job differs from the saved one, unless `accept_changes`
 * is not 0; sources are compared when a stream is made. INPUT for text that is not a state or was modified.
 * */
EVENKEEL_API evenkeel_status evenkeel_service_resume(const evenkeel_ranks* ranks,
                                                     const evenkeel_config* config, const char* state,
                                                     int64_t bytes, int32_t accept_changes,
                                                     evenkeel_service** service);
/* Local. */
EVENKEEL_API evenkeel_status evenkeel_service_get_place(const evenkeel_service* service,
                                                        evenkeel_place* place);

/* Makes one step from the samples that the ranks bring, any number each, including none (samples of count 0).
 * `samples` do not change and remain the caller's. `profile` names a profile of the configuration; NULL or ""
 * means the job's own settings. Collective. A rank that could not make its samples passes NULL, and all ranks
 * return INPUT that says so. INPUT also for malformed samples, fields that differ between ranks, or ranks
 * that call another function; LIMIT for a sample above the cap or a rank out of memory; CONFIG for an unknown
 * profile. After an error the service remains usable. */
EVENKEEL_API evenkeel_status evenkeel_service_step(evenkeel_service* service, const evenkeel_samples* samples,
                                                   const char* profile, evenkeel_step** step);
/* All groups of ranks that may run a micro-batch together, over all tp and pp, in one order on all ranks:
 * ranks (int32), group after group, and offsets, where each one's begin. With `mesh.cp: flexible` these are
 * all powers of two of neighbors, otherwise those of the fixed cp. Local. */
EVENKEEL_API evenkeel_status evenkeel_service_context_groups(const evenkeel_service* service,
                                                             evenkeel_arrays** arrays);
/* Runs the samples of `step` again, under another profile: `step` is then the new pass, and views of the
 * previous pass become invalid. Tokens do not move if the profiles assign and cut samples alike. `added` are
 * further fields of this rank's samples, in the order in which it brought them, as evenkeel_service_collect
 * returns them; NULL for none. Collective. If it fails, the step is used up, and must still be destroyed.
 * INPUT for fields of other samples, for a step that is NULL or used up, and if ranks rerun different steps;
 * otherwise as evenkeel_service_step. */
EVENKEEL_API evenkeel_status evenkeel_service_step_again(evenkeel_service* service, evenkeel_step* step,
                                                         const char* profile, const evenkeel_samples* added);
/* Returns the results of a step to the ranks that brought the samples: this rank's samples in the order in
 * which it brought them, one field for each result. The caller destroys them. `results` may be NULL on ranks
 * that have none. Collective; any number of times for a step. INPUT if results are missing, have wrong rows
 * or were put wrongly on any rank, and if ranks collect different steps. */
EVENKEEL_API evenkeel_status evenkeel_service_collect(const evenkeel_service* service,
                                                      const evenkeel_step* step,
                                                      const evenkeel_results* results,
                                                      evenkeel_samples** samples);
/* The same for all ranks' samples, ordered by id, on rank `root` of those that train; samples of count 0 on
 * the others. */
EVENKEEL_API evenkeel_status evenkeel_service_collect_on(const evenkeel_service* service,
                                                         const evenkeel_step* step,
                                                         const evenkeel_results* results, int32_t root,
                                                         evenkeel_samples** samples);
/* Reports how long this rank took for one micro-batch of a step, for balancing later steps if `balance.cost`
 * is `measured`. Local. ARGUMENT for a micro-batch that does not exist; INPUT for seconds that are not finite
 * and above 0. */
EVENKEEL_API evenkeel_status evenkeel_service_report_time(const evenkeel_service* service,
                                                          const evenkeel_step* step, int64_t micro_batch,
                                                          double seconds);
/* The service's position, before its next step: text of at most 64 KiB, `*bytes` long and followed by a zero;
 * `bytes` may be NULL. The caller frees it with evenkeel_buffer_free. Equal on all ranks between collective
 * calls. Local. evenkeel_stream_state adds a stream's sources. */
EVENKEEL_API evenkeel_status evenkeel_service_state(const evenkeel_service* service, char** state,
                                                    int64_t* bytes);
/* Looks into a state: the number of its next step, and whether it has a stream's sources (1) or not (0).
 * Local. INPUT as for evenkeel_service_resume. */
EVENKEEL_API evenkeel_status evenkeel_state_inspect(const char* state, int64_t bytes, int64_t* next_step,
                                                    int32_t* has_sources);
EVENKEEL_API void evenkeel_service_destroy(evenkeel_service* service);

#ifdef __cplusplus
}
#endif

#endif
