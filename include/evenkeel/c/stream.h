/* Streams: steps from the sources that a configuration names. */
#ifndef EVENKEEL_C_STREAM_H
#define EVENKEEL_C_STREAM_H

#include "evenkeel/c/service.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Steps from the sources that a configuration names. `exchange.prefetch` of them are made ahead: on a thread
 * if all ranks have MPI_THREAD_MULTIPLE or a group that allows threads, otherwise in evenkeel_stream_next.
 * The service with which the stream was made makes later passes, collects results and accepts reported times.
 * It may be destroyed before the stream. Only one stream of a service makes steps at a time. A service that
 * makes steps of a stream does not make steps from samples that the trainer supplies. */
typedef struct evenkeel_stream evenkeel_stream;

/* Opens the sources of the service's configuration, at the service's position. `profiles` are the passes that
 * will be made over each step, all except the first by evenkeel_service_step_again. Their caps determine
 * which samples are too long. NULL and 0 mean one pass with the job's own settings. Collective. Returns
 * CONFIG, INPUT or IO for sources that cannot be read, and CONFIG, listing the differences, if they differ
 * from the sources of the state from which the service resumes. */
EVENKEEL_API evenkeel_status evenkeel_stream_create(const evenkeel_service* service,
                                                    const char* const* profiles, int64_t num_profiles,
                                                    evenkeel_stream** stream);
/* Returns the total number of steps; 0 for NULL. Local. */
EVENKEEL_API int64_t evenkeel_stream_num_steps(const evenkeel_stream* stream);
/* Returns the next step, which the caller destroys; NULL and EVENKEEL_OK after the last step. Collective. If
 * a step cannot be made, all ranks return its error, and later steps still follow. The first call begins to
 * make steps ahead. */
EVENKEEL_API evenkeel_status evenkeel_stream_next(evenkeel_stream* stream, evenkeel_step** step);
/* Stops making steps ahead until the next evenkeel_stream_next, which returns the step after the last one
 * that was returned. Does not wait for samples. Collective; all ranks must call it after the same step. */
EVENKEEL_API evenkeel_status evenkeel_stream_stop(evenkeel_stream* stream);
/* Returns the trainer's position after the last step that evenkeel_stream_next returned, with the sources and
 * the costs measured in all passes, in the form of evenkeel_service_state. Collective. */
EVENKEEL_API evenkeel_status evenkeel_stream_state(evenkeel_stream* stream, char** state, int64_t* bytes);
/* For samples that arrive while the job trains (source.kind: stream; the number of steps is INT64_MAX):
 * reports that the policy now has this version. Call this before producers get its weights, since samples of
 * later versions are refused. Collective. Returns CONFIG unless `stream.version` is trainer. */
EVENKEEL_API evenkeel_status evenkeel_stream_publish(evenkeel_stream* stream, int64_t version);
/* For samples that arrive: reports that samples of the steps before `next_step` can be freed, since the
 * trainer's state at that step is saved, or since the trainer does not keep a state. If the buffer cannot be
 * reached, a later call also covers these steps; once samples have ended, this function waits for the buffer.
 * Has no effect on other sources. Collective. */
EVENKEEL_API evenkeel_status evenkeel_stream_report_saved_before(evenkeel_stream* stream, int64_t next_step);
/* Destroys a stream. Returned steps remain valid. Does not wait for samples. Collective; all ranks must call
 * it after the same step. */
EVENKEEL_API void evenkeel_stream_destroy(evenkeel_stream* stream);

#ifdef __cplusplus
}
#endif

#endif
