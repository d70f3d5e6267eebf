/* Streams: steps from the sources that a configuration names. */
#ifndef EVENKEEL_C_STREAM_H
#define EVENKEEL_C_STREAM_H

#include "evenkeel/c/service.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Steps from the sources that a configuration names, with `exchange.prefetch` of them made ahead: on a thread
 * if all ranks have MPI_THREAD_MULTIPLE, or a group that allows threads, otherwise in evenkeel_stream_next.
 * The service that it was made with makes later passes, collects results and takes reported times. It may be
 * destroyed before the stream. One stream of a service makes steps at a time, and the service makes no steps
 * of samples that the trainer brings besides. */
typedef struct evenkeel_stream evenkeel_stream;

/* Opens the sources of the service's configuration, at the service's position. `profiles` are the passes
 * that will be made over each step (all except the first by evenkeel_service_step_again), whose caps say what
 * is too long; NULL and 0: one pass with the job's own settings. Collective. CONFIG, INPUT and IO for sources
 * that cannot be read, and CONFIG that lists how they differ from those of the state that the service resumes
 * from. */
EVENKEEL_API evenkeel_status evenkeel_stream_create(const evenkeel_service* service,
                                                    const char* const* profiles, int64_t num_profiles,
                                                    evenkeel_stream** stream);
/* The total number of steps; 0 for NULL. Local. */
EVENKEEL_API int64_t evenkeel_stream_num_steps(const evenkeel_stream* stream);
/* The next step, which the caller destroys; NULL and EVENKEEL_OK after the last one. Collective. An error in
 * making it is returned on all ranks, and later steps still follow. The first call begins to make steps
 * ahead. */
EVENKEEL_API evenkeel_status evenkeel_stream_next(evenkeel_stream* stream, evenkeel_step** step);
/* Stops making steps ahead until the next evenkeel_stream_next, which returns the step after the last one
 * that was returned. Waits for no samples. Collective: after the same step on all ranks. */
EVENKEEL_API evenkeel_status evenkeel_stream_stop(evenkeel_stream* stream);
/* The trainer's position, after the last step that evenkeel_stream_next returned, the sources, and the costs
 * measured in all passes, in the form of evenkeel_service_state. Collective. */
EVENKEEL_API evenkeel_status evenkeel_stream_state(evenkeel_stream* stream, char** state, int64_t* bytes);
/* Of samples that arrive while the job trains (source.kind: stream), whose number of steps is INT64_MAX: the
 * policy has this version from now on. Call it before producers get its weights, since samples of later
 * versions are refused. Collective. CONFIG unless `stream.version` is trainer. */
EVENKEEL_API evenkeel_status evenkeel_stream_publish(evenkeel_stream* stream, int64_t version);
/* Of samples that arrive: those of the steps before `next_step` can be freed, since the trainer's state there
 * is saved, or since it keeps none. A buffer that cannot be reached is told by a later call. Has no effect on
 * other sources. Collective. */
EVENKEEL_API evenkeel_status evenkeel_stream_report_saved_before(evenkeel_stream* stream, int64_t next_step);
/* Collective: after the same step on all ranks. Returned steps stay valid. Waits for no samples. */
EVENKEEL_API void evenkeel_stream_destroy(evenkeel_stream* stream);

#ifdef __cplusplus
}
#endif

#endif
