/* The watchdog: ends a job that cannot continue. */
#ifndef EVENKEEL_C_WATCHDOG_H
#define EVENKEEL_C_WATCHDOG_H

#include "evenkeel/c/ranks.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Ends a job that cannot continue: a rank is stopped or disconnected, or does not come while others wait for
 * it (docs/reliability.md). It has a thread of its own, which never waits for MPI. */
typedef struct evenkeel_watchdog evenkeel_watchdog;
/* Called by a watchdog on its thread, with a text that is valid during the call, and with the watchdog's
 * `context`. Must not call MPI unless MPI permits threads. */
typedef void (*evenkeel_watchdog_function)(const char* text, void* context);

/* Reports within `seconds`, and not before three quarters of that, that the job of these ranks cannot
 * continue; 0: never. It calls `report` on the rank that finds out, with the cause and a line for each rank,
 * then `terminate` on every rank that can still be reached, with the cause; if `terminate` returns, nothing
 * is watched any more. NULL for `report` prints to standard error, and NULL for `terminate` ends the process
 * at once with status 1. Collective over the ranks. INPUT for negative seconds, IO if a rank cannot open a
 * socket, LIMIT if it cannot have a thread. */
EVENKEEL_API evenkeel_status evenkeel_watchdog_create(const evenkeel_ranks* ranks, double seconds,
                                                      evenkeel_watchdog_function report,
                                                      evenkeel_watchdog_function terminate, void* context,
                                                      evenkeel_watchdog** watchdog);
/* Reports that this process has made progress with its own work, which may not be visible otherwise, such as
 * waiting for a device. Local; any thread; costs nothing. */
EVENKEEL_API void evenkeel_watchdog_record_progress(void);
/* Local; may be called after MPI_Finalize, which is then watched, too. */
EVENKEEL_API void evenkeel_watchdog_destroy(evenkeel_watchdog* watchdog);

#ifdef __cplusplus
}
#endif

#endif
