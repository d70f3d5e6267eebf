/* Steps: the micro-batches of one rank, how their rows move to another cut, and results. */
#ifndef EVENKEEL_C_STEP_H
#define EVENKEEL_C_STEP_H

#include "evenkeel/c/prefix.h"
#include "evenkeel/c/samples.h"

#ifdef __cplusplus
extern "C" {
#endif

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
  int64_t num_loss_tokens;   /* tokens that carry loss, over all ranks; 0: the step trains nothing */
  double waited_seconds;     /* seconds that the trainer waited for the step */
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
  int64_t alignment;                /* of each sequence, in tokens */
  int32_t cp_layout;                /* EVENKEEL_ZIGZAG or EVENKEEL_CONTIGUOUS */
  int32_t is_shape;                 /* 1 if it was padded to one of few shapes (micro_batch.shapes) */
  int32_t shares_prefixes;          /* 1 if its sequences are segments: see evenkeel_step_details */
  int32_t context_first;            /* the first data-parallel and context-parallel place that runs it; */
  int32_t context_size;             /* neighboring places that run it together; */
  int32_t context_rank;             /* and this rank's number among them: its part of the sequences, */
                                    /* which are whole on each with pack.deliver: samples */
  const void* arena;   /* the one block in which its tensors stand, so that one copy brings them */
  int64_t arena_bytes; /* to a device: rows of fields and their offsets, cu_seqlens and */
                       /* cu_seqlens_padded, each at a multiple of 256 bytes, text and bytes */
                       /* last. NULL and 0 for none; bytes that ranks share lie apart */
} evenkeel_micro_batch;

/* All of these are local. They return views of the step, which are valid until the step is destroyed or run
 * again. A step that was used up by a failed pass has no micro-batches. */
EVENKEEL_API evenkeel_status evenkeel_step_get_info(const evenkeel_step* step, evenkeel_step_info* info);
EVENKEEL_API evenkeel_status evenkeel_step_get_seconds(const evenkeel_step* step, evenkeel_seconds* seconds);
/* 0 for NULL. */
EVENKEEL_API int64_t evenkeel_step_num_micro_batches(const evenkeel_step* step);
EVENKEEL_API evenkeel_status evenkeel_step_micro_batch(const evenkeel_step* step, int64_t micro_batch,
                                                       evenkeel_micro_batch* view);
/* What is asked for more rarely: token_weights (float64), the weight of each loss token of each sample, and
 * token_weights@k of tokens k ahead, before they are rounded to float32. With shared prefixes also the tree
 * of its segments (parents, tokens, sample_ends); prediction_offsets, where each sample's predictions begin
 * on this rank; and with `prefix.schedule: dfs` the arrays of evenkeel_tree_depth_first, as schedule_rows and
 * so on. */
EVENKEEL_API evenkeel_status evenkeel_step_details(const evenkeel_step* step, int64_t micro_batch,
                                                   evenkeel_arrays** arrays);
/* A field of a micro-batch; INPUT if no field has this name. Token fields have local_rows rows, sample fields
 * one row a sample, others the samples' own numbers of rows, in packed order. Its bytes are the packed memory
 * itself, which ranks of a node may share. */
EVENKEEL_API evenkeel_status evenkeel_step_find_field(const evenkeel_step* step, int64_t micro_batch,
                                                      const char* name, evenkeel_field* field);
/* All fields of a micro-batch at once, as num_fields views, and their memory and the arena's: the caller may
 * write to fields that are not shared, and they stay after the step is destroyed or run again, until the
 * memory is destroyed. From then on they are shared. */
EVENKEEL_API evenkeel_status evenkeel_step_lend(evenkeel_step* step, int64_t micro_batch,
                                                evenkeel_field* fields, evenkeel_memory** memory);
EVENKEEL_API void evenkeel_step_destroy(evenkeel_step* step);

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
/* For a rank that cannot make a result: keeps the last error of this thread, which had this status. Local. */
EVENKEEL_API evenkeel_status evenkeel_results_fail(evenkeel_results* results, evenkeel_status status);
EVENKEEL_API void evenkeel_results_destroy(evenkeel_results* results);

#ifdef __cplusplus
}
#endif

#endif
