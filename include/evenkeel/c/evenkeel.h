/* Evenkeel for C, and for languages that call C: samples of all ranks in, balanced and packed micro-batches
 * out, results back to the samples' ranks. Valid C11 and C++. Link Evenkeel::c (libevenkeel). docs/c-api.md
 * is an introduction.
 *
 * Objects are opaque, made by functions named ..._create, ..._load and so on, and freed with ..._destroy,
 * which accepts NULL. All except a watchdog must be destroyed before MPI_Finalize. Only one thread at a time
 * may use an object.
 *
 * ERRORS. A function that can fail returns a status, and keeps the text of its error for the
 * calling thread until that thread's next error: every call is one expression, and there is
 * nothing to free when many ranks fail together. What a function returns through a pointer
 * is NULL or unchanged if it fails. Functions throw no exceptions, and do not crash,
 * whatever their arguments, as long as pointers that are not NULL are valid. Texts end with
 * a zero.
 *
 * COLLECTIVE functions say so: all ranks of the communicator call them in the same order. If any rank finds
 * an error, all ranks return the same error. So a rank that has failed still makes the call: wrong arguments
 * are EVENKEEL_ERROR_INPUT on every rank, and running out of memory on one rank is EVENKEEL_ERROR_LIMIT. Only
 * three errors may occur on one rank alone: EVENKEEL_ERROR_MPI, after which the job should end; a NULL
 * service or stream, which has no ranks to tell; and an error in returning what all ranks have already made,
 * such as NULL for the place of a stream's step. All other functions are LOCAL.
 *
 * COUNTS and indices are int64_t, from 0 on; negative ones are errors. Lengths are in tokens, times in
 * seconds.
 *
 * Structures are filled in by the library or by the caller, never by both. Their layout belongs to the
 * version of the functions' symbols: a program that was built for another version is not started. */
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
/* The same as numbers. Any of the pointers may be NULL. */
EVENKEEL_API void evenkeel_version_numbers(int32_t* major, int32_t* minor, int32_t* patch);

/* The result of a call: one of the values below. Not an enum, so that all compilers pass it alike. */
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
  EVENKEEL_ERROR_INTERNAL = 9,      /* what should not happen: please report it */
  EVENKEEL_END_OF_SAMPLES = 10      /* no error: a stream has no more samples, and no step was made */
};

/* "ok", "config", "input", "limit", "mesh", "io", "mpi", "out of memory", "argument" or "internal"; "unknown"
 * for other numbers. Lives as long as the program. */
EVENKEEL_API const char* evenkeel_status_name(evenkeel_status status);

/* The last error of the calling thread as one line: `where: what (rank r). hint`, without empty parts; "" if
 * there was none. Calls that succeed do not change it. Each pointer is valid until the thread's next error,
 * and never NULL. */
EVENKEEL_API const char* evenkeel_last_error_message(void);
/* The place: a file and line, a configuration key, an argument. May be "". */
EVENKEEL_API const char* evenkeel_last_error_where(void);
/* What is wrong, with the value and the limit that it breaks. */
EVENKEEL_API const char* evenkeel_last_error_what(void);
/* What to do about it. May be "". */
EVENKEEL_API const char* evenkeel_last_error_hint(void);
/* The rank that found it; -1 if all did, or only this one. */
EVENKEEL_API int32_t evenkeel_last_error_rank(void);

/* Frees what evenkeel_config_to_yaml, evenkeel_service_state and evenkeel_stream_state return. NULL is
 * allowed. */
EVENKEEL_API void evenkeel_buffer_free(char* buffer);

/* ---- configuration ---- */

/* A job's settings: its mesh, caps and costs (docs/configuration.md). */
typedef struct evenkeel_config evenkeel_config;

/* Makes a configuration from YAML text; `name` stands for a file in errors, NULL means "configuration".
 * `overrides` are `num_overrides` texts "section.key=value", which are applied afterwards; NULL if there are
 * none. Local, so that a job may read a file on one rank and broadcast its text. CONFIG for the first error.
 * */
EVENKEEL_API evenkeel_status evenkeel_config_parse(const char* yaml, const char* name,
                                                   const char* const* overrides, int64_t num_overrides,
                                                   evenkeel_config** config);
/* The same from a file. Also IO if it cannot be read. */
EVENKEEL_API evenkeel_status evenkeel_config_load(const char* path, const char* const* overrides,
                                                  int64_t num_overrides, evenkeel_config** config);
/* The whole configuration as YAML, `*bytes` long and followed by a zero; `bytes` may be NULL. The caller
 * frees it with evenkeel_buffer_free. Local. */
EVENKEEL_API evenkeel_status evenkeel_config_to_yaml(const evenkeel_config* config, char** yaml,
                                                     int64_t* bytes);
/* Services copy what they need: a configuration may be destroyed before them. */
EVENKEEL_API void evenkeel_config_destroy(evenkeel_config* config);

/* ---- samples and fields ---- */

/* The type of an element. Half-precision values are moved as bits. */
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

/* Bytes of one element; 0 for an unknown dtype. */
EVENKEEL_API int64_t evenkeel_dtype_bytes(evenkeel_dtype dtype);

/* What a field has one row for. With the last three, each sample has its own number of rows
 * (docs/side-fields.md). */
typedef int32_t evenkeel_kind;
enum {
  EVENKEEL_TOKEN = 1,          /* every token of a sample */
  EVENKEEL_RESPONSE_TOKEN = 2, /* every response token */
  EVENKEEL_SAMPLE = 3,         /* every sample */
  EVENKEEL_ROWS = 4,           /* anything a sample may have any number of: image patches, audio frames */
  EVENKEEL_TEXT = 5,           /* every byte of a sample's text, which is UTF-8: EVENKEEL_UINT8 */
  EVENKEEL_BYTES = 6           /* every byte of a sample's value: EVENKEEL_UINT8 */
};

/* A named field: `rows` rows of `trailing[0] * trailing[1] * ...` elements, contiguous. Without trailing
 * dimensions a row is one element. The side that fills in the structure owns what it points to: a field that
 * is passed in is copied, and one that is returned is a read-only view of its object.
 *
 * Kinds from EVENKEEL_ROWS on need the last three members, which are 0 for others: sample i has the rows from
 * `offsets[i]` to before `offsets[i + 1]`. Returned fields may share rows (`share: equal`): then `offsets` is
 * NULL, and sample i has those from `ranges[2 * i]` to before `ranges[2 * i + 1]`. */
typedef struct evenkeel_field {
  const char* name;
  evenkeel_dtype dtype;
  evenkeel_kind kind;
  int64_t rows;
  int64_t num_trailing;
  const int64_t* trailing; /* may be NULL if num_trailing is 0 */
  const void* data;        /* may be NULL if there are no bytes */
  int64_t bytes;           /* of data; filled in for fields that are returned, and ignored in others */
  int64_t num_samples;
  const int64_t* offsets; /* num_samples + 1: from 0, never decreasing, up to `rows`. May be NULL for none */
  const int64_t* ranges;  /* num_samples pairs; NULL if there are offsets, and in what is passed in */
} evenkeel_field;

/* One sample: its number and its lengths. */
typedef struct evenkeel_sample {
  int64_t id;       /* from 0 on; -1 in a micro-batch is filler, not a sample */
  uint64_t group;   /* samples of the same prompt share it */
  int64_t prompt;   /* prompt tokens */
  int64_t response; /* response tokens */
} evenkeel_sample;

/* Samples of any lengths with named fields: what a rank brings, and collected results. Owns copies. */
typedef struct evenkeel_samples evenkeel_samples;

/* Makes `count` samples without fields; arrays have `count` entries, and may be NULL if that is 0. `groups`
 * may be NULL: each sample is then a group of its own, from 2^63 on. Local. INPUT for a negative length. */
EVENKEEL_API evenkeel_status evenkeel_samples_create(int64_t count, const int64_t* ids,
                                                     const uint64_t* groups, const int64_t* prompt_lengths,
                                                     const int64_t* response_lengths,
                                                     evenkeel_samples** samples);
/* Adds a field with the rows of all samples back to back. A step needs `input_ids`: one int64 a token. Local.
 * INPUT if the name is taken, or the number of rows does not match the kind or the offsets. The first error
 * is kept with the samples: a step over them returns it on all ranks, so a trainer need not check this
 * status. */
EVENKEEL_API evenkeel_status evenkeel_samples_add(evenkeel_samples* samples, const evenkeel_field* field);
/* The numbers of samples and of fields; 0 for NULL. Local. */
EVENKEEL_API int64_t evenkeel_samples_count(const evenkeel_samples* samples);
EVENKEEL_API int64_t evenkeel_samples_num_fields(const evenkeel_samples* samples);
/* The sample at a position. Local. */
EVENKEEL_API evenkeel_status evenkeel_samples_at(const evenkeel_samples* samples, int64_t index,
                                                 evenkeel_sample* sample);
/* A field, by its number or by its name; INPUT if no field has that name. The view is valid until the next
 * field is added or the samples are destroyed. Local. */
EVENKEEL_API evenkeel_status evenkeel_samples_field(const evenkeel_samples* samples, int64_t index,
                                                    evenkeel_field* field);
EVENKEEL_API evenkeel_status evenkeel_samples_find_field(const evenkeel_samples* samples, const char* name,
                                                         evenkeel_field* field);
EVENKEEL_API void evenkeel_samples_destroy(evenkeel_samples* samples);

/* ---- steps ---- */

/* One rank's part of a step: micro-batches, in the order to run them in. Does not need the service that made
 * it. */
typedef struct evenkeel_step evenkeel_step;

typedef struct evenkeel_step_info {
  int64_t index;             /* the step's number */
  const char* profile;       /* the profile it was planned with; "": the job's own settings */
  int64_t num_micro_batches; /* on this rank */
  int64_t num_samples;       /* over all ranks */
  int64_t num_tokens;        /* over all ranks */
  double waited;             /* seconds that the trainer waited for the step */
} evenkeel_step_info;

/* Seconds that this rank spent in each phase; phases follow each other and add up to the step. */
typedef struct evenkeel_seconds {
  double read;     /* reading or taking this rank's samples */
  double gather;   /* lengths and fields over all ranks */
  double plan;     /* assignment, counts, micro-batches */
  double agree;    /* on the count of micro-batches, including the wait for other ranks */
  double exchange; /* tokens into packed tensors */
  double pack;     /* what is packed without moving */
} evenkeel_seconds;

/* What one rank runs one forward and backward pass over (docs/micro-batches.md). With micro_batch.shapes a
 * run has few different local_rows, num_sequences and max_seqlen; samples of padding have the id -1. */
typedef struct evenkeel_micro_batch {
  int64_t num_fields;
  int64_t num_samples;
  const evenkeel_sample* samples;   /* in packed order */
  int64_t num_sequences;            /* num_samples; with shared prefixes segments, which see others */
  const int32_t* cu_seqlens;        /* num_sequences + 1 sums of true lengths, over the whole CP group */
  const int32_t* cu_seqlens_padded; /* the same of aligned lengths */
  int32_t max_seqlen;               /* the longest aligned length; with micro_batch.shapes, the shape's */
  int32_t empty;                    /* 1 if it has no real sample: its weight is 0. Else 0 */
  int64_t mini_batch;               /* the optimizer update that it belongs to, 0-based */
  int64_t num_tokens;               /* true tokens over the whole CP group */
  int64_t local_rows;               /* rows of its token fields on this rank */
  int64_t padded_length;            /* of every sequence; 0 if each is aligned on its own */
  double scale;                     /* times the sum of loss_weights * loss gives the un-split loss */
  double mean_weight;               /* times the micro-batch's own mean, for trainers that take local means */
} evenkeel_micro_batch;

/* All of these are local. They return views of the step, which are valid until the step is destroyed or run
 * again. A step that was used up by a failed pass has no micro-batches. */
EVENKEEL_API evenkeel_status evenkeel_step_get_info(const evenkeel_step* step, evenkeel_step_info* info);
EVENKEEL_API evenkeel_status evenkeel_step_get_seconds(const evenkeel_step* step, evenkeel_seconds* seconds);
/* 0 for NULL. */
EVENKEEL_API int64_t evenkeel_step_num_micro_batches(const evenkeel_step* step);
EVENKEEL_API evenkeel_status evenkeel_step_micro_batch(const evenkeel_step* step, int64_t micro_batch,
                                                       evenkeel_micro_batch* view);
/* The data-parallel and context-parallel places that run a micro-batch together, and this rank's number among
 * them: which part of the sequences it has. With `mesh.cp: flexible` each micro-batch has its own. */
typedef struct evenkeel_context_group {
  int32_t first; /* the first place */
  int32_t size;  /* neighboring places */
  int32_t rank;  /* this rank's, from 0 on */
} evenkeel_context_group;
EVENKEEL_API evenkeel_status evenkeel_step_context_group(const evenkeel_step* step, int64_t micro_batch,
                                                         evenkeel_context_group* group);
/* A field of a micro-batch, by its number or by its name; INPUT if no field has that name. Token fields have
 * local_rows rows, sample fields one row a sample, others the samples' own numbers of rows, in packed order.
 * Its bytes are the packed memory itself, which ranks of a node may share. */
EVENKEEL_API evenkeel_status evenkeel_step_field(const evenkeel_step* step, int64_t micro_batch,
                                                 int64_t index, evenkeel_field* field);
EVENKEEL_API evenkeel_status evenkeel_step_find_field(const evenkeel_step* step, int64_t micro_batch,
                                                      const char* name, evenkeel_field* field);
/* The one block in which a micro-batch's tensors stand, so that one copy brings them to a device: rows of
 * fields and their offsets, cu_seqlens and cu_seqlens_padded, each at a multiple of 256 bytes, text and bytes
 * last. NULL and 0 for none. And where in it such bytes begin: -1 where they lie apart, as shared ones do. */
EVENKEEL_API evenkeel_status evenkeel_step_arena(const evenkeel_step* step, int64_t micro_batch,
                                                 const void** data, int64_t* bytes);
EVENKEEL_API int64_t evenkeel_step_arena_offset(const evenkeel_step* step, int64_t micro_batch,
                                                const void* data, int64_t bytes);
EVENKEEL_API void evenkeel_step_destroy(evenkeel_step* step);

/* ---- rows in another cut (docs/hybrid-models.md) ---- */

/* How the rows of a micro-batch are spread over its group: each sequence in 2*cp chunks of which each rank
 * has two, each sequence in cp parts, or all rows of the micro-batch in cp parts. */
enum {
  EVENKEEL_ZIGZAG = 0,
  EVENKEEL_CONTIGUOUS = 1,
  EVENKEEL_FLAT = 2,
};

/* Rows that move between the members of a group, as one of them sees it. Owns its lists. */
typedef struct evenkeel_route evenkeel_route;

typedef struct evenkeel_route_view {
  int64_t num_members; /* cp, or tp * cp with sequence parallelism: member cp_rank * tp_size + tp_rank */
  int64_t num_send;
  const void* send_rows;      /* num_send local rows in the order to send them, of the route's dtype */
  const int32_t* send_counts; /* how many of them each member gets */
  int64_t num_receive;
  const void* receive_rows;      /* where the rows that arrive land, of the route's dtype */
  const int32_t* receive_counts; /* how many of them each member sends */
} evenkeel_route_view;

/* From one cut of a micro-batch to another: both lists are permutations of this rank's rows. The way back has
 * send and receive exchanged. tp_rank 0 of tp_size 1 are all rows of the CP rank; otherwise sequence
 * parallelism has cut them into tp_size equal parts. dtype: EVENKEEL_INT32 or EVENKEEL_INT64. Local.
 * ARGUMENT; INPUT if the micro-batch cannot be cut so. */
EVENKEEL_API evenkeel_status evenkeel_route_create(const evenkeel_step* step, int64_t micro_batch,
                                                   int32_t from, int32_t to, int32_t tp_rank, int32_t tp_size,
                                                   int32_t dtype, evenkeel_route** route);
/* The rows before each run of evenkeel_step_sequence_runs, for causal convolutions of this width: they land
 * in zeros, width - 1 rows a run. Local; errors as above. */
EVENKEEL_API evenkeel_status evenkeel_route_create_halo(const evenkeel_step* step, int64_t micro_batch,
                                                        int32_t cut, int64_t width, int32_t tp_rank,
                                                        int32_t tp_size, int32_t dtype,
                                                        evenkeel_route** route);
/* Its lists, which are valid until it is destroyed. */
EVENKEEL_API evenkeel_status evenkeel_route_get(const evenkeel_route* route, evenkeel_route_view* view);
EVENKEEL_API void evenkeel_route_destroy(evenkeel_route* route);

/* Rows of one sequence that follow each other in it and on one member. */
typedef struct evenkeel_sequence_run {
  int64_t sequence;
  int64_t begin, end; /* its rows on the member, pad rows included */
  int64_t first;      /* which row of the sequence the first of them is */
  int64_t tokens;     /* true rows; the others follow them */
  /* Whose state a recurrent layer begins with here: run run_before of member member_before, after all its
   * tokens, the last of which is row row_before there, of sequence sequence_before. All -1: from zero. */
  int64_t member_before, run_before, row_before, sequence_before;
} evenkeel_sequence_run;

/* The runs of this rank's rows in a cut, which together are all of them. Sets num_runs to how many there are,
 * and writes as many as there is room for. Local; errors as above. */
EVENKEEL_API evenkeel_status evenkeel_step_sequence_runs(const evenkeel_step* step, int64_t micro_batch,
                                                         int32_t cut, int32_t tp_rank, int32_t tp_size,
                                                         evenkeel_sequence_run* runs, int64_t room,
                                                         int64_t* num_runs);

/* What a trainer computed for a step, micro-batch by micro-batch. Owns copies. */
typedef struct evenkeel_results evenkeel_results;

/* Room for the results of a step in its current pass. Local. */
EVENKEEL_API evenkeel_status evenkeel_results_create(const evenkeel_step* step, evenkeel_results** results);
/* Adds a result of a micro-batch: one row for each local packed row (EVENKEEL_TOKEN and
 * EVENKEEL_RESPONSE_TOKEN, where the row that predicts a token has its result), one row a sample
 * (EVENKEEL_SAMPLE), or the rows given by `offsets` for each sample of the micro-batch, including filler
 * (EVENKEEL_ROWS, _TEXT and _BYTES). Local. The first error is kept with the results: every later put returns
 * it, and collecting them returns it on all ranks, so a trainer need not check this status. ARGUMENT, INPUT
 * for a name that was put before, OUT_OF_MEMORY. Collecting checks the number of rows. */
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
  int32_t reports_results; /* 1 if results of this rank are used when they are collected; others need none */
} evenkeel_place;

/* Makes a service over the ranks of `comm`, which remains the caller's and must live as long as the service
 * and its streams: messages use communicators of the service's own. Collective over `comm`. CONFIG if
 * configurations of ranks differ or settings conflict, MESH if the mesh does not fit the ranks, and for
 * MPI_COMM_NULL or an intercommunicator. */
EVENKEEL_API evenkeel_status evenkeel_service_create(MPI_Comm comm, const evenkeel_config* config,
                                                     evenkeel_service** service);
/* The same, resuming from the state of a service or stream in these `bytes` bytes, equal on all ranks; the
 * mesh may be another one. CONFIG that lists how the job differs from the saved one, unless `accept_changes`
 * is not 0; sources are compared when a stream is made. INPUT for text that is not a state or was modified.
 * */
EVENKEEL_API evenkeel_status evenkeel_service_resume(MPI_Comm comm, const evenkeel_config* config,
                                                     const char* state, int64_t bytes, int32_t accept_changes,
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
/* The communicator of the group that runs a micro-batch, for passing keys and values; the rank in it is
 * the group's. It remains the service's. Local. */
EVENKEEL_API evenkeel_status evenkeel_service_context(const evenkeel_service* service,
                                                      const evenkeel_step* step, int64_t micro_batch,
                                                      MPI_Comm* comm);
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
EVENKEEL_API void evenkeel_service_destroy(evenkeel_service* service);

/* ---- streams ---- */

/* Steps from the sources that a configuration names, with `exchange.prefetch` of them made ahead: on a thread
 * if all ranks have MPI_THREAD_MULTIPLE, otherwise in evenkeel_stream_next. The service that it was made with
 * makes later passes, collects results and takes reported times. It may be destroyed before the stream. A
 * service has one stream at a time, and makes no steps of samples that the trainer brings besides. */
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
 * making it is returned on all ranks, and later steps still follow. */
EVENKEEL_API evenkeel_status evenkeel_stream_next(evenkeel_stream* stream, evenkeel_step** step);
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
EVENKEEL_API evenkeel_status evenkeel_stream_trained(evenkeel_stream* stream, int64_t next_step);
/* Collective: after the same step on all ranks. Returned steps stay valid. Waits for no samples. */
EVENKEEL_API void evenkeel_stream_destroy(evenkeel_stream* stream);

/* ---- watchdog ---- */

/* Ends a job that cannot continue: a rank is stopped or disconnected, or does not come while others wait for
 * it (docs/reliability.md). It has a thread of its own, which never waits for MPI. */
typedef struct evenkeel_watchdog evenkeel_watchdog;
/* Called by a watchdog on its thread, with a text that is valid during the call, and with the watchdog's
 * `context`. Must not call MPI unless MPI permits threads. */
typedef void (*evenkeel_watchdog_function)(const char* text, void* context);

/* Reports within `seconds`, and not before three quarters of that, that the job of these ranks cannot
 * continue; 0: never. It calls `tells` on the rank that finds out, with the cause and a line for each rank,
 * then `ends` on every rank that can still be reached, with the cause; if `ends` returns, nothing is watched
 * any more. NULL for `tells` prints to standard error, and NULL for `ends` ends the process at once with
 * status 1. Collective over `comm`. INPUT for negative seconds, IO if a rank cannot open a socket, LIMIT if
 * it cannot have a thread, MESH for MPI_COMM_NULL and an intercommunicator. */
EVENKEEL_API evenkeel_status evenkeel_watchdog_create(MPI_Comm comm, double seconds,
                                                      evenkeel_watchdog_function tells,
                                                      evenkeel_watchdog_function ends, void* context,
                                                      evenkeel_watchdog** watchdog);
/* Reports that this process has made progress with its own work, which may not be visible otherwise, such as
 * waiting for a device. Local; any thread; costs nothing. */
EVENKEEL_API void evenkeel_watchdog_tell_progress(void);
/* Local; may be called after MPI_Finalize, which is then watched, too. */
EVENKEEL_API void evenkeel_watchdog_destroy(evenkeel_watchdog* watchdog);

#ifdef __cplusplus
}
#endif

#endif
