/* The watchdog: ends a job that cannot continue. */
#ifndef EVENKEEL_C_WATCHDOG_H
#define EVENKEEL_C_WATCHDOG_H

#include "evenkeel/c/ranks.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Ends a job that cannot continue because a rank is stopped or disconnected, or does not arrive while others
 * wait for it (docs/reliability.md). It has its own thread, which never waits for MPI. */
typedef struct evenkeel_watchdog evenkeel_watchdog;
/* A function that a watchdog calls on its thread, with a text that is valid during the call and with the
 * watchdog's `context`. Must not call MPI unless MPI permits threads. */
typedef void (*evenkeel_watchdog_function)(const char* text, void* context);

/* Creates a watchdog for the job of these ranks. If the job cannot continue, the watchdog reports this within
 * `seconds`, but not before three quarters of that time; 0 for never. It calls `report` on the rank that
 * detects the problem, with the cause and a line per rank, then `terminate` on every rank that can still be
 * reached, with the cause. If `terminate` returns, nothing is watched any more. If `report` is NULL, prints
 * to standard error; if `terminate` is NULL, ends the process at once with status 1. Collective over the
 * ranks. Returns INPUT for negative seconds, IO if a rank cannot open a socket, and LIMIT if a rank cannot
 * create a thread. */
EVENKEEL_API evenkeel_status evenkeel_watchdog_create(const evenkeel_ranks* ranks, double seconds,
                                                      evenkeel_watchdog_function report,
                                                      evenkeel_watchdog_function terminate, void* context,
                                                      evenkeel_watchdog** watchdog);
/* Reports that this process has made progress with its own work, which may not be visible otherwise, such as
 * waiting for a device. Local; may be called from any thread; costs almost nothing. */
EVENKEEL_API void evenkeel_watchdog_record_progress(void);
/* Destroys a watchdog. Local; may be called after MPI_Finalize, which is then watched, too. */
EVENKEEL_API void evenkeel_watchdog_destroy(evenkeel_watchdog* watchdog);

#ifdef __cplusplus
}
#endif

#endif
