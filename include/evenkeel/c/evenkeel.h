/* Evenkeel for C, and for whatever calls C: samples of all ranks in, balanced and packed micro-batches out,
 * results home. Valid as C11 and as C++. Link Evenkeel::c (libevenkeel). docs/c-api.md is an introduction.
 *
 * Objects are opaque, made by functions named ..._create, ..._load and the like, and let go of with
 * ..._destroy, which takes NULL too. All but a watchdog must be destroyed before MPI_Finalize. An object is
 * used by one thread at a time.
 *
 * ERRORS. A function that can fail returns a status, and leaves the text of its error with the calling thread
 * until that thread's next error: a status in the return value and a text beside it keep every call one
 * expression, and leave nothing to free where many ranks fail together. What a function hands out through a
 * pointer is NULL or unchanged where it fails. No exception comes out of a function, and none crashes,
 * whatever its arguments, as long as pointers that are not NULL point to what they say. Texts end with a
 * zero.
 *
 * COLLECTIVE functions say so: all ranks of the communicator call them in the same order. An error that any
 * rank finds all ranks return, the same one. So a rank whose part has gone wrong still makes the call: wrong
 * arguments are EVENKEEL_ERROR_INPUT on every rank, and memory that one rank lacks is EVENKEEL_ERROR_LIMIT.
 * Three things one rank alone may see: EVENKEEL_ERROR_MPI, after which the job should end; a NULL service or
 * stream, which has no ranks to tell; and an error in handing over what all ranks have made already, such as
 * NULL for the place of a stream's step. All other functions are LOCAL.
 *
 * COUNTS and indices are int64_t, from 0 on; negative ones are errors. Lengths are in tokens, times in
 * seconds.
 *
 * Structures are filled in by the library or by the caller, never both. Their layout goes with the version of
 * the functions' symbols: a program that was built for another one is not started. */
#ifndef EVENKEEL_C_EVENKEEL_H
#define EVENKEEL_C_EVENKEEL_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define EVENKEEL_API __attribute__((visibility("default")))
#else
#define EVENKEEL_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- version and errors ---- */

/* The library's version, such as "0.1.0". Lives as long as the program. */
EVENKEEL_API const char* evenkeel_version(void);
/* The same in numbers. Any of the pointers may be NULL. */
EVENKEEL_API void evenkeel_version_numbers(int32_t* major, int32_t* minor, int32_t* patch);

/* How a call ended: a value of those below. Not an enum, so that all compilers pass it alike. */
typedef int32_t evenkeel_status;
enum {
  EVENKEEL_OK = 0,
  EVENKEEL_ERROR_CONFIG = 1,        /* a configuration key is wrong, or ranks differ in it */
  EVENKEEL_ERROR_INPUT = 2,         /* data is malformed; of collective calls: or an argument is wrong */
  EVENKEEL_ERROR_LIMIT = 3,         /* data breaks a limit, such as the cap; or a rank lacks memory */
  EVENKEEL_ERROR_MESH = 4,          /* the process grid does not fit the ranks */
  EVENKEEL_ERROR_IO = 5,            /* a file or folder cannot be opened, read or written */
  EVENKEEL_ERROR_MPI = 6,           /* an MPI call failed, or MPI is not running */
  EVENKEEL_ERROR_OUT_OF_MEMORY = 7, /* of local calls: this process lacks memory */
  EVENKEEL_ERROR_ARGUMENT = 8,      /* of local calls: NULL, an unknown value, an index out of range */
  EVENKEEL_ERROR_INTERNAL = 9       /* what should not happen: please report it */
};

/* "ok", "config", "input", "limit", "mesh", "io", "mpi", "out of memory", "argument" or "internal"; "unknown"
 * for other numbers. Lives as long as the program. */
EVENKEEL_API const char* evenkeel_status_name(evenkeel_status status);

/* The last error of the calling thread as one line: `where: what (rank r). hint`, leaving out what there is
 * not; "" where there was none. Calls that succeed leave it. Each pointer is valid until the thread's next
 * error, and never NULL. */
EVENKEEL_API const char* evenkeel_last_error_message(void);
/* The place: a file and line, a configuration key, an argument. May be "". */
EVENKEEL_API const char* evenkeel_last_error_where(void);
/* What is wrong, with the value and the limit that it breaks. */
EVENKEEL_API const char* evenkeel_last_error_what(void);
/* What to do about it. May be "". */
EVENKEEL_API const char* evenkeel_last_error_hint(void);
/* The rank that found it; -1 where all did, or this one alone. */
EVENKEEL_API int32_t evenkeel_last_error_rank(void);

/* Frees what evenkeel_config_to_yaml, evenkeel_service_state and evenkeel_stream_state hand out. NULL is
 * fine. */
EVENKEEL_API void evenkeel_buffer_free(char* buffer);

/* ---- configuration ---- */

/* What a job wants: its mesh, caps and costs (docs/configuration.md). */
typedef struct evenkeel_config evenkeel_config;

/* Makes a configuration of YAML text; `name` stands for a file in errors, NULL for "configuration".
 * `overrides` are `num_overrides` texts "section.key=value", which come after; NULL where there are none.
 * Local, so that a job may read a file on one rank and broadcast its text. CONFIG for the first thing that is
 * wrong. */
EVENKEEL_API evenkeel_status evenkeel_config_parse(const char* yaml, const char* name,
                                                   const char* const* overrides, int64_t num_overrides,
                                                   evenkeel_config** config);
/* The same of a file. Also IO when it cannot be read. */
EVENKEEL_API evenkeel_status evenkeel_config_load(const char* path, const char* const* overrides,
                                                  int64_t num_overrides, evenkeel_config** config);
/* The whole configuration as YAML, `*bytes` long and with a zero behind it; `bytes` may be NULL. The caller
 * frees it with evenkeel_buffer_free. Local. */
EVENKEEL_API evenkeel_status evenkeel_config_to_yaml(const evenkeel_config* config, char** yaml,
                                                     int64_t* bytes);
/* Services keep what they need: a configuration may go before them. */
EVENKEEL_API void evenkeel_config_destroy(evenkeel_config* config);

/* ---- samples and fields ---- */

/* What an element is. Half-precision values are moved as bits. */
typedef int32_t evenkeel_dtype;
enum {
  EVENKEEL_BOOL = 1,
  EVENKEEL_UINT8 = 2,
  EVENKEEL_INT32 = 3,
  EVENKEEL_INT64 = 4,
  EVENKEEL_FLOAT16 = 5,
  EVENKEEL_BFLOAT16 = 6,
  EVENKEEL_FLOAT32 = 7,
  EVENKEEL_FLOAT64 = 8,
  EVENKEEL_INT8 = 9,
  EVENKEEL_INT16 = 10,
  EVENKEEL_UINT16 = 11,
  EVENKEEL_UINT32 = 12
};

/* Bytes of one element; 0 for a number that is no dtype. */
EVENKEEL_API int64_t evenkeel_dtype_bytes(evenkeel_dtype dtype);

/* What a field has one row for. Of the last three each sample has as many as it says itself
 * (docs/side-fields.md). */
typedef int32_t evenkeel_kind;
enum {
  EVENKEEL_TOKEN = 1,          /* every token of a sample */
  EVENKEEL_RESPONSE_TOKEN = 2, /* every response token */
  EVENKEEL_SAMPLE = 3,         /* every sample */
  EVENKEEL_ROWS = 4,           /* whatever a sample has any number of: image patches, audio frames */
  EVENKEEL_TEXT = 5,           /* every byte of a sample's text, which is UTF-8: EVENKEEL_UINT8 */
  EVENKEEL_BYTES = 6           /* every byte of a sample's value: EVENKEEL_UINT8 */
};

/* A named field: `rows` rows of `trailing[0] * trailing[1] * ...` elements, contiguous. Without trailing
 * dimensions a row is one element. Whoever fills in the structure owns what it points to: a field that is
 * handed in is copied, and one that is handed out is a view, read-only, of the object that it was asked of.
 *
 * Kinds from EVENKEEL_ROWS on need the last three members, and others leave them 0: sample i has the rows
 * from `offsets[i]` to before `offsets[i + 1]`. What is handed out may have rows in common (`share: equal`):
 * `offsets` is NULL then, and sample i has those from `ranges[2 * i]` to before `ranges[2 * i + 1]`. */
typedef struct evenkeel_field {
  const char* name;
  evenkeel_dtype dtype;
  evenkeel_kind kind;
  int64_t rows;
  int64_t num_trailing;
  const int64_t* trailing; /* NULL is fine where num_trailing is 0 */
  const void* data;        /* NULL is fine where there are no bytes */
  int64_t bytes; /* of data; filled in for fields that are handed out, and not looked at in others */
  int64_t num_samples;
  const int64_t* offsets; /* num_samples + 1: from 0 on, never falling, up to `rows`. NULL is fine for none */
  const int64_t* ranges;  /* num_samples pairs; NULL where there are offsets, and in what is handed in */
} evenkeel_field;

/* One sample: its number and its lengths. */
typedef struct evenkeel_sample {
  int64_t id;       /* from 0 on; -1 in a micro-batch is filler, which is no sample */
  uint64_t group;   /* samples of one prompt share it */
  int64_t prompt;   /* prompt tokens */
  int64_t response; /* response tokens */
} evenkeel_sample;

/* Samples of any lengths with named fields: what a rank brings, and what is collected. Owns copies. */
typedef struct evenkeel_samples evenkeel_samples;

/* Makes `count` samples without fields; arrays have `count` entries, and may be NULL where that is 0.
 * `groups` may be NULL: each sample is a group of its own then. Local. INPUT for a negative length. */
EVENKEEL_API evenkeel_status evenkeel_samples_create(int64_t count, const int64_t* ids,
                                                     const uint64_t* groups, const int64_t* prompt_lengths,
                                                     const int64_t* response_lengths,
                                                     evenkeel_samples** samples);
/* Adds a field with the rows of all samples back to back. A step needs `input_ids`: one int64 a token. Local.
 * INPUT when the name is taken, or rows are not as many as the kind or the offsets ask for. */
EVENKEEL_API evenkeel_status evenkeel_samples_add(evenkeel_samples* samples, const evenkeel_field* field);
/* How many samples, and how many fields; 0 for NULL. Local. */
EVENKEEL_API int64_t evenkeel_samples_count(const evenkeel_samples* samples);
EVENKEEL_API int64_t evenkeel_samples_num_fields(const evenkeel_samples* samples);
/* The sample at a position. Local. */
EVENKEEL_API evenkeel_status evenkeel_samples_at(const evenkeel_samples* samples, int64_t index,
                                                 evenkeel_sample* sample);
/* A field, by its number or by its name; INPUT where no field has that name. The view holds until the next
 * field is added or the samples are destroyed. Local. */
EVENKEEL_API evenkeel_status evenkeel_samples_field(const evenkeel_samples* samples, int64_t index,
                                                    evenkeel_field* field);
EVENKEEL_API evenkeel_status evenkeel_samples_find_field(const evenkeel_samples* samples, const char* name,
                                                         evenkeel_field* field);
EVENKEEL_API void evenkeel_samples_destroy(evenkeel_samples* samples);

/* ---- steps ---- */

/* What a step hands one rank: micro-batches, in the order to run them in. Does not need the service that made
 * it. */
typedef struct evenkeel_step evenkeel_step;

typedef struct evenkeel_step_info {
  int64_t index;             /* the step's number */
  const char* profile;       /* whose settings it was planned with; "": the job's own */
  int64_t num_micro_batches; /* the same on all ranks */
  int64_t num_samples;       /* over all ranks */
  int64_t num_tokens;        /* over all ranks */
  double waited;             /* seconds that the trainer waited for the step */
} evenkeel_step_info;

/* Seconds that this rank spent in each phase; they follow each other and sum to the step. */
typedef struct evenkeel_seconds {
  double read;     /* reading or taking this rank's samples */
  double gather;   /* lengths and fields over all ranks */
  double plan;     /* assignment, counts, micro-batches */
  double agree;    /* on the count of micro-batches, the wait for other ranks included */
  double exchange; /* tokens into packed tensors */
  double pack;     /* what is packed without moving */
} evenkeel_seconds;

/* What one rank runs one forward and backward pass over (docs/micro-batches.md). With micro_batch.shapes a
 * run has few different local_rows, num_sequences and max_seqlen; samples of padding have the id -1. */
typedef struct evenkeel_micro_batch {
  int64_t num_fields;
  int64_t num_samples;
  const evenkeel_sample* samples;   /* in packed order */
  int64_t num_sequences;            /* num_samples, but with shared prefixes */
  const int32_t* cu_seqlens;        /* num_sequences + 1 sums of true lengths, over the whole CP group */
  const int32_t* cu_seqlens_padded; /* the same of aligned lengths */
  int32_t max_seqlen;               /* the longest aligned length; with micro_batch.shapes, the shape's */
  int32_t empty;                    /* 1 where no real sample is in it: it weighs nothing. Else 0 */
  int64_t mini_batch;               /* the optimizer update that it belongs to, 0-based */
  int64_t num_tokens;               /* true tokens over the whole CP group */
  int64_t local_rows;               /* rows of its token fields on this rank */
  int64_t padded_length;            /* of every sequence; 0 where each is aligned on its own */
  double scale;                     /* times the sum of loss_weights * loss gives the un-split loss */
  double mean_weight;               /* times the micro-batch's own mean, for trainers that insist on one */
} evenkeel_micro_batch;

/* All of these are local. What they hand out are views of the step, which hold until the step is destroyed or
 * passed over again. A step that was used up by a failed pass has no micro-batches. */
EVENKEEL_API evenkeel_status evenkeel_step_get_info(const evenkeel_step* step, evenkeel_step_info* info);
EVENKEEL_API evenkeel_status evenkeel_step_get_seconds(const evenkeel_step* step, evenkeel_seconds* seconds);
/* 0 for NULL. */
EVENKEEL_API int64_t evenkeel_step_num_micro_batches(const evenkeel_step* step);
EVENKEEL_API evenkeel_status evenkeel_step_micro_batch(const evenkeel_step* step, int64_t micro_batch,
                                                       evenkeel_micro_batch* view);
/* The data-parallel and context-parallel places that run a micro-batch together, and this rank's number among
 * them, which says which part of the sequences it has. With `mesh.cp: flexible` each micro-batch has its own.
 */
typedef struct evenkeel_context_group {
  int32_t first; /* the first place */
  int32_t size;  /* places: neighbours */
  int32_t rank;  /* this rank's, from 0 on */
} evenkeel_context_group;
EVENKEEL_API evenkeel_status evenkeel_step_context_group(const evenkeel_step* step, int64_t micro_batch,
                                                         evenkeel_context_group* group);
/* A field of a micro-batch, by its number or by its name; INPUT where no field has that name. Token fields
 * have local_rows rows, sample fields one a sample, others those that samples say, in packed order. Its bytes
 * are packed memory itself, which ranks of a node may share. */
EVENKEEL_API evenkeel_status evenkeel_step_field(const evenkeel_step* step, int64_t micro_batch,
                                                 int64_t index, evenkeel_field* field);
EVENKEEL_API evenkeel_status evenkeel_step_find_field(const evenkeel_step* step, int64_t micro_batch,
                                                      const char* name, evenkeel_field* field);
EVENKEEL_API void evenkeel_step_destroy(evenkeel_step* step);

/* What a trainer computed for a step, micro-batch by micro-batch. Owns copies. */
typedef struct evenkeel_results evenkeel_results;

/* Room for results of a step as it is now, before it is passed over again. Local. */
EVENKEEL_API evenkeel_status evenkeel_results_create(const evenkeel_step* step, evenkeel_results** results);
/* Adds a result of a micro-batch: one row a local packed row (EVENKEEL_TOKEN and EVENKEEL_RESPONSE_TOKEN,
 * where the row that predicts a token has its result), one row a sample (EVENKEEL_SAMPLE), or as many for each
 * sample of the micro-batch, filler too, as `offsets` say (EVENKEEL_ROWS, _TEXT and _BYTES). Local. The first
 * error is kept with the results: every later put returns it, and collecting them returns it on all ranks, so
 * that a trainer need not look at what this returns. ARGUMENT, INPUT for a name that was put before,
 * OUT_OF_MEMORY. Whether rows are as many as the micro-batch has is found when results are collected. */
EVENKEEL_API evenkeel_status evenkeel_results_put(evenkeel_results* results, int64_t micro_batch,
                                                  const evenkeel_field* field);
EVENKEEL_API void evenkeel_results_destroy(evenkeel_results* results);

/* ---- service ---- */

/* Balances, packs and exchanges samples over the ranks of a communicator. */
typedef struct evenkeel_service evenkeel_service;

/* This rank's place in the mesh. */
typedef struct evenkeel_place {
  int32_t rank; /* among the ranks that train */
  int32_t num_ranks;
  int32_t tp, cp, dp, pp; /* coordinates, from 0 on */
  int32_t tp_size, cp_size, dp_size, pp_size;
  int32_t reports_results; /* 1 where results of this rank count when they are collected; others need none */
} evenkeel_place;

/* Makes a service over the ranks of `comm`, which stays the caller's and must live as long as the service and
 * its streams: messages travel over communicators of the service's own. Collective over `comm`. CONFIG when
 * configurations of ranks differ or settings do not fit each other, MESH when the mesh does not fit the
 * ranks, and for MPI_COMM_NULL or an intercommunicator. Where data ranks serve (docs/data-ranks.md), a rank
 * that has no configuration can tell the others only when the process makes its first service: let it end the
 * job with MPI_Abort later on. */
EVENKEEL_API evenkeel_status evenkeel_service_create(MPI_Comm comm, const evenkeel_config* config,
                                                     evenkeel_service** service);
/* The same, going on where a service or stream stood, whose state are these `bytes` bytes, equal on all
 * ranks; the mesh may be another one. CONFIG that lists how the job differs from the saved one, unless
 * `accept_changes` is not 0; for sources that is found when a stream is made. INPUT for text that is no state
 * or was changed. */
EVENKEEL_API evenkeel_status evenkeel_service_resume(MPI_Comm comm, const evenkeel_config* config,
                                                     const char* state, int64_t bytes, int32_t accept_changes,
                                                     evenkeel_service** service);
/* Local. */
EVENKEEL_API evenkeel_status evenkeel_service_get_place(const evenkeel_service* service,
                                                        evenkeel_place* place);

/* One step over the samples that the ranks bring, each any number, also none (samples of count 0). `samples`
 * stay as they are and the caller's. `profile` names a profile of the configuration; NULL or "" is the job's
 * own settings. Collective. A rank that could not make its samples passes NULL, and all ranks return INPUT
 * that says so. INPUT also for malformed samples, fields that differ between ranks, or ranks that call
 * something else; LIMIT for a sample above the cap or memory that a rank lacks; CONFIG for a profile that is
 * not there. After an error the service can be used again. */
EVENKEEL_API evenkeel_status evenkeel_service_step(evenkeel_service* service, const evenkeel_samples* samples,
                                                   const char* profile, evenkeel_step** step);
/* The communicator of the group that runs a micro-batch, over which keys and values are passed on; the rank
 * in it is the group's. It stays the service's. Local, but where `mesh.context_sizes` is `any`: there the
 * first call for a group is collective over its ranks, which all come to it if each asks for its
 * micro-batches in their order. */
EVENKEEL_API evenkeel_status evenkeel_service_context(const evenkeel_service* service,
                                                      const evenkeel_step* step, int64_t micro_batch,
                                                      MPI_Comm* comm);
/* Passes over the samples of `step` again, under another profile: `step` is then this pass, and views of the
 * pass before hold no more. Tokens stay where they are as far as profiles deal and cut samples alike. `added`
 * are further fields of this rank's samples, in the order in which it brought them, as
 * evenkeel_service_collect hands them out; NULL for none. Collective. When it fails the step is used up, and
 * to be destroyed still. INPUT for fields of other samples, for a step that is NULL or used up, and where
 * ranks pass over different steps; else as evenkeel_service_step. */
EVENKEEL_API evenkeel_status evenkeel_service_step_again(evenkeel_service* service, evenkeel_step* step,
                                                         const char* profile, const evenkeel_samples* added);
/* Brings results of a step home: this rank's samples in the order in which it brought them, one field a
 * result. The caller destroys them. `results` may be NULL on ranks that have none. Collective; any number of
 * times for a step. INPUT when results are missing, have wrong rows or were put wrongly anywhere, and where
 * ranks collect different steps. */
EVENKEEL_API evenkeel_status evenkeel_service_collect(const evenkeel_service* service,
                                                      const evenkeel_step* step,
                                                      const evenkeel_results* results,
                                                      evenkeel_samples** samples);
/* The same of all ranks' samples, ordered by id, on rank `root` of those that train; samples of count 0
 * elsewhere. */
EVENKEEL_API evenkeel_status evenkeel_service_collect_on(const evenkeel_service* service,
                                                         const evenkeel_step* step,
                                                         const evenkeel_results* results, int32_t root,
                                                         evenkeel_samples** samples);
/* How long this rank took for one micro-batch of a step: balances later steps where `balance.cost` is
 * `measured`. Local. ARGUMENT for a micro-batch that the step has not; INPUT for seconds that are not finite
 * and above 0. */
EVENKEEL_API evenkeel_status evenkeel_service_report_time(const evenkeel_service* service,
                                                          const evenkeel_step* step, int64_t micro_batch,
                                                          double seconds);
/* Where the service stands, before its next step: text of at most 64 KiB, `*bytes` long and with a zero
 * behind it; `bytes` may be NULL. The caller frees it with evenkeel_buffer_free. Equal on all ranks between
 * collective calls. Local. For steps that a stream handed out ask evenkeel_stream_state. */
EVENKEEL_API evenkeel_status evenkeel_service_state(const evenkeel_service* service, char** state,
                                                    int64_t* bytes);
/* Collective where data ranks serve. */
EVENKEEL_API void evenkeel_service_destroy(evenkeel_service* service);

/* ---- streams ---- */

/* Steps of the sources that a configuration names, `exchange.prefetch` of them made ahead: on a thread where
 * all ranks have MPI_THREAD_MULTIPLE, else inside evenkeel_stream_next. Does not need the service that it was
 * made with, but for later passes and for collecting. */
typedef struct evenkeel_stream evenkeel_stream;

/* Opens the sources of the service's configuration, from where the service was made to go on. `profiles` are
 * the passes that will be made over each step, by evenkeel_service_step_again all but the first, whose caps
 * say what is too long; NULL and 0: one pass by the job's own settings. Collective. CONFIG, INPUT and IO for
 * sources that cannot be read, and CONFIG that lists how they differ from those of the state that the service
 * goes on from. */
EVENKEEL_API evenkeel_status evenkeel_stream_create(const evenkeel_service* service,
                                                    const char* const* profiles, int64_t num_profiles,
                                                    evenkeel_stream** stream);
/* Steps in all; 0 for NULL. Local. */
EVENKEEL_API int64_t evenkeel_stream_num_steps(const evenkeel_stream* stream);
/* The next step, which the caller destroys; NULL and EVENKEEL_OK after the last one. Collective. An error in
 * making it is returned on all ranks, and the steps after it still come. */
EVENKEEL_API evenkeel_status evenkeel_stream_next(evenkeel_stream* stream, evenkeel_step** step);
/* evenkeel_service_report_time for the steps of this stream. Local. */
EVENKEEL_API evenkeel_status evenkeel_stream_report_time(const evenkeel_stream* stream,
                                                         const evenkeel_step* step, int64_t micro_batch,
                                                         double seconds);
/* Where the trainer stands, after the step that evenkeel_stream_next handed out last, and what the sources
 * are, as evenkeel_service_state has it. Collective. */
EVENKEEL_API evenkeel_status evenkeel_stream_state(evenkeel_stream* stream, char** state, int64_t* bytes);
/* Collective: after the same step on all ranks. Steps that were handed out stay. */
EVENKEEL_API void evenkeel_stream_destroy(evenkeel_stream* stream);

/* ---- watchdog ---- */

/* Ends a job that cannot go on: a rank is stopped or cut off, or stays away while others wait for it
 * (docs/reliability.md). A thread of its own looks, and never waits for MPI. */
typedef struct evenkeel_watchdog evenkeel_watchdog;
/* What a watchdog calls, on its thread: with a text that lives as long as the call, and with the `context`
 * that it was made with. Must not call MPI unless MPI permits threads. */
typedef void (*evenkeel_watchdog_function)(const char* text, void* context);

/* Tells within `seconds` that the job of these ranks cannot go on, and not before three quarters of them; 0:
 * never. Then calls `tells` on the rank that finds out, with the cause and a line a rank, and `ends` on every
 * rank that can still be reached, with the cause; where `ends` returns, nothing is watched any more. NULL for
 * `tells` prints to the standard error output, and for `ends` ends the process at once with status 1.
 * Collective over `comm`. INPUT for seconds below 0, IO where a rank cannot open a socket, LIMIT where it
 * cannot have a thread, MESH for MPI_COMM_NULL and an intercommunicator. */
EVENKEEL_API evenkeel_status evenkeel_watchdog_create(MPI_Comm comm, double seconds,
                                                      evenkeel_watchdog_function tells,
                                                      evenkeel_watchdog_function ends, void* context,
                                                      evenkeel_watchdog** watchdog);
/* This process has got on with its own work, which may leave no other trace, such as waiting for a device.
 * Local; any thread; costs nothing. */
EVENKEEL_API void evenkeel_watchdog_tell_progress(void);
/* Local; may come after MPI_Finalize, which is watched then, too. */
EVENKEEL_API void evenkeel_watchdog_destroy(evenkeel_watchdog* watchdog);

#ifdef __cplusplus
}
#endif

#endif
