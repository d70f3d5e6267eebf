/* Plans: which samples each data-parallel rank gets, in which micro-batch. All functions are local. */
#ifndef EVENKEEL_C_PLAN_H
#define EVENKEEL_C_PLAN_H

#include "evenkeel/c/config.h"
#include "evenkeel/c/prefix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The samples of a step, by their lengths in tokens: arrays of `count` entries, which belong to the caller.
 */
typedef struct evenkeel_lengths {
  int64_t count;
  const int64_t* prompts;       /* prompt tokens */
  const int64_t* responses;     /* response tokens */
  const int64_t* groups;        /* a number per prompt; NULL: each sample has its own */
  const int64_t* loss_tokens;   /* tokens that carry loss; -1, and NULL: all response tokens */
  const int64_t* tokens;        /* the tokens of all samples, for prefix.share: tree; else may be NULL */
  const int64_t* token_offsets; /* count + 1: where each sample's begin in `tokens`; NULL without tokens */
} evenkeel_lengths;

/* A plan for all DP ranks. Does not change, so that any number of threads may use it. */
typedef struct evenkeel_plan evenkeel_plan;

/* Plans step number `step` with a profile of the configuration (NULL or "": the job's own settings). `ranks`
 * is the number of ranks in the world if mesh.dp is auto; -1: mesh.dp is set. Deterministic. CONFIG for
 * settings that do not fit, LIMIT for a sample above micro_batch.max_tokens, INPUT for lengths that cannot
 * be. */
EVENKEEL_API evenkeel_status evenkeel_plan_create(const evenkeel_lengths* lengths,
                                                  const evenkeel_config* config, const char* profile,
                                                  int64_t step, int32_t ranks, evenkeel_plan** plan);
EVENKEEL_API void evenkeel_plan_destroy(evenkeel_plan* plan);

/* Its arrays, which belong to it; NULL for NULL. Micro-batches are numbered through all DP ranks, rank after
 * rank:
 * - int64, of all micro-batches' samples: samples (positions in the lengths), prompts; float64: token_weights
 * - int64, one more than micro-batches: sample_offsets (where each one's samples begin)
 * - int64, of each micro-batch: tokens, aligned_tokens, cost, padded_length, mini_batch, context_first,
 * context_size; float64: scale, mean_weight
 * - int64, one more than DP ranks: rank_offsets (where each one's micro-batches begin); of each DP rank:
 * lower_bound
 * - int64, of each mini-batch: counts (micro-batches of each DP rank)
 * - numbers: num_samples, num_tokens, num_micro_batches (of each DP rank), alignment, cp_size, cp_layout,
 * step, hash
 * - float64, six numbers of one array: quality (dp_max_over_mean before and after, micro_batch_max_over_mean,
 *   step_max_over_mean, waiting_once, waiting_every_micro_batch) */
EVENKEEL_API const evenkeel_arrays* evenkeel_plan_arrays(const evenkeel_plan* plan);
/* 1 if every micro-batch has the same samples in the same order, else 0. */
EVENKEEL_API int32_t evenkeel_plan_equal(const evenkeel_plan* one, const evenkeel_plan* other);
/* The layout of a micro-batch's tensors: cu_seqlens, cu_seqlens_padded (int32), max_seqlen, alignment; and
 * where samples share prefixes the tree: parents, tokens, sample_ends. */
EVENKEEL_API evenkeel_status evenkeel_plan_layout(const evenkeel_plan* plan, int64_t micro_batch,
                                                  evenkeel_arrays** arrays);

/* The weights of micro-batches that somebody else made, one mini-batch together: micro-batch m has the
 * samples from sample_offsets[m] to before sample_offsets[m + 1], and DP rank r has micro-batches
 * rank_offsets[r] to before rank_offsets[r + 1]. Returns token_weights of each sample, scale and mean_weight
 * of each micro-batch (float64). INPUT unless every sample is in one micro-batch and DP ranks have equally
 * many. */
EVENKEEL_API evenkeel_status evenkeel_losses(const evenkeel_lengths* lengths, const evenkeel_config* config,
                                             const char* profile, const int64_t* samples,
                                             const int64_t* sample_offsets, int64_t num_micro_batches,
                                             const int64_t* rank_offsets, int64_t num_ranks,
                                             evenkeel_arrays** arrays);

#ifdef __cplusplus
}
#endif

#endif
