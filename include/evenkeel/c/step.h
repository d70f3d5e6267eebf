/* Steps: the micro-batches of one rank, and results. */
#ifndef EVENKEEL_C_STEP_H
#define EVENKEEL_C_STEP_H

#include "evenkeel/c/prefix.h"
#include "evenkeel/c/samples.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- steps ---- */

/* One rank's part of a step: micro-batches, in the order in which to run them. Does not need the service that
 * made it. */
typedef struct evenkeel_step evenkeel_step;

typedef struct evenkeel_step_info {
  int64_t index;             /* the step's number */
  const char* profile;       /* the profile with which it was planned; "": the job's own settings */
  int64_t num_micro_batches; /* on this rank */
  int64_t num_samples;       /* over all ranks */
  int64_t num_tokens;        /* over all ranks */
  int64_t num_loss_tokens;   /* tokens that carry loss, over all ranks; 0: the step trains nothing */
  double waited_seconds;     /* seconds that the trainer waited for the step */
} evenkeel_step_info;

/* Seconds that this rank spent in each phase; phases follow each other and add up to the step. */
typedef struct evenkeel_seconds {
  double read;     /* reading or taking this rank's samples */
  double gather;   /* gathering lengths and fields of all ranks */
  double plan;     /* assignment, counts, micro-batches */
  double agree;    /* agreeing on the number of micro-batches, including waiting for other ranks */
  double exchange; /* copying tokens into packed tensors */
  double pack;     /* packing without moving */
} evenkeel_seconds;

/* The data of one forward and backward pass on one rank (docs/micro-batches.md). With micro_batch.shapes, a
 * run has only a few different values of local_rows, num_sequences and max_seqlen. Samples of padding have
 * the id -1. */
typedef struct evenkeel_micro_batch {
  int64_t num_fields;
  int64_t num_samples;
  const evenkeel_sample* samples;   /* in packed order */
  int64_t num_sequences;            /* num_samples; with shared prefixes, the number of segments */
  const int32_t* cu_seqlens;        /* num_sequences + 1 prefix sums of true lengths, over the whole CP group */
  const int32_t* cu_seqlens_padded; /* the same for aligned lengths */
  int32_t max_seqlen;               /* the longest aligned length; with micro_batch.shapes, the shape's */
  int32_t empty;                    /* 1 if it has no real sample, so its weight is 0; otherwise 0 */
  int64_t mini_batch;               /* the optimizer update to which it belongs, 0-based */
  int64_t num_tokens;               /* number of true tokens over the whole CP group */
  int64_t local_rows;               /* number of rows of its token fields on this rank */
  int64_t padded_length;            /* length of every sequence; 0 if each is aligned separately */
  double scale;                     /* factor for the sum of loss_weights * loss, to get the un-split loss */
  double mean_weight;               /* factor for its own mean loss, for trainers that take local means */
  int64_t alignment;                /* alignment of each sequence, in tokens */
  int32_t cp_layout;                /* EVENKEEL_ZIGZAG or EVENKEEL_CONTIGUOUS */
  int32_t is_shape;                 /* 1 if it was padded to one of few shapes (micro_batch.shapes) */
  int32_t shares_prefixes;          /* 1 if its sequences are segments: see evenkeel_step_details */
  int32_t context_first;            /* first data-parallel and context-parallel place that runs it */
  int32_t context_size;             /* number of neighboring places that run it together */
  int32_t context_rank;             /* this rank's number among these places, which determines its part of */
                                    /* the sequences; with pack.deliver: samples, each place has them whole */
  const void* arena;   /* the block that contains its tensors, for a single copy to a device: rows of fields */
  int64_t arena_bytes; /* and their offsets, cu_seqlens and cu_seqlens_padded, each at a multiple of 256 */
                       /* bytes; text and bytes are last. NULL and 0 if there is no block. Bytes that ranks */
                       /* share are not in the block */
} evenkeel_micro_batch;

/* The functions of this section are local. They return views of the step, which are valid until the step is
 * destroyed or run again. A step that was used up by a failed pass has no micro-batches. */
EVENKEEL_API evenkeel_status evenkeel_step_get_info(const evenkeel_step* step, evenkeel_step_info* info);
EVENKEEL_API evenkeel_status evenkeel_step_get_seconds(const evenkeel_step* step, evenkeel_seconds* seconds);
/* Returns the number of micro-batches on this rank; 0 for NULL. */
EVENKEEL_API int64_t evenkeel_step_num_micro_batches(const evenkeel_step* step);
EVENKEEL_API evenkeel_status evenkeel_step_micro_batch(const evenkeel_step* step, int64_t micro_batch,
                                                       evenkeel_micro_batch* view);
/* Returns data that is needed more rarely, as arrays: token_weights (float64), the weight of each loss token
 * of each sample, and token_weights@k for the tokens k positions ahead, before they are rounded to float32.
 * With shared prefixes, also returns the tree of the segments (parents, tokens, sample_ends), and
 * prediction_offsets, at which each sample's predictions on this rank begin. With `prefix.schedule: dfs`,
 * also returns the arrays of evenkeel_tree_depth_first, as schedule_rows and so on. */
EVENKEEL_API evenkeel_status evenkeel_step_details(const evenkeel_step* step, int64_t micro_batch,
                                                   evenkeel_arrays** arrays);
/* Returns a field of a micro-batch, or INPUT if no field has this name. Token fields have local_rows rows,
 * sample fields one row per sample, and other fields the samples' own numbers of rows, in packed order. The
 * field's bytes are the packed memory itself, which ranks of a node may share. */
EVENKEEL_API evenkeel_status evenkeel_step_find_field(const evenkeel_step* step, int64_t micro_batch,
                                                      const char* name, evenkeel_field* field);
/* Returns all fields of a micro-batch at once, as num_fields views, and a handle to their memory and the
 * arena's. The caller may write to fields that are not shared. The memory remains valid after the step is
 * destroyed or run again, until the handle is destroyed. After this call, the fields are shared. */
EVENKEEL_API evenkeel_status evenkeel_step_lend(evenkeel_step* step, int64_t micro_batch,
                                                evenkeel_field* fields, evenkeel_memory** memory);
EVENKEEL_API void evenkeel_step_destroy(evenkeel_step* step);

/* The results that a trainer computed for a step, micro-batch by micro-batch. Owns copies. */
typedef struct evenkeel_results evenkeel_results;

/* Makes an object for the results of a step in its current pass. Local. */
EVENKEEL_API evenkeel_status evenkeel_results_create(const evenkeel_step* step, evenkeel_results** results);
/* Adds a result of a micro-batch: one row per local packed row (EVENKEEL_TOKEN and EVENKEEL_RESPONSE_TOKEN;
 * with the latter, the result of a token is in the row that predicts it), one row per sample
 * (EVENKEEL_SAMPLE), or the rows given by `offsets` for each sample of the micro-batch, including filler
 * (EVENKEEL_ROWS, _TEXT and _BYTES). Local. The first error is kept with the results: every later put returns
 * it, and collecting the results returns it on all ranks, so a trainer need not check this status. Returns
 * ARGUMENT for a wrong argument, INPUT for a name that was put before or offsets that do not match the rows,
 * and LIMIT or OUT_OF_MEMORY if this process is out of memory. The number of rows is checked when results are
 * collected. */
EVENKEEL_API evenkeel_status evenkeel_results_put(evenkeel_results* results, int64_t micro_batch,
                                                  const evenkeel_field* field);
/* Reports that this rank cannot make a result: keeps the last error of this thread, which had this status.
 * Local. */
EVENKEEL_API evenkeel_status evenkeel_results_fail(evenkeel_results* results, evenkeel_status status);
EVENKEEL_API void evenkeel_results_destroy(evenkeel_results* results);

#ifdef __cplusplus
}
#endif

#endif
