/* Plans: which samples each data-parallel rank gets, and in which micro-batches. All functions are local. */
#ifndef EVENKEEL_C_PLAN_H
#define EVENKEEL_C_PLAN_H

#include "evenkeel/c/config.h"
#include "evenkeel/c/prefix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The samples of a step, given by their lengths in tokens. The arrays have `count` entries and belong to the
 * caller. */
typedef struct evenkeel_lengths {
  int64_t count;
  const int64_t* prompts;       /* numbers of prompt tokens */
  const int64_t* responses;     /* numbers of response tokens */
  const int64_t* groups;        /* a number per prompt; NULL if each sample is a group by itself */
  const int64_t* loss_tokens;   /* numbers of tokens that carry loss; -1 or NULL: all response tokens */
  const int64_t* tokens;        /* the tokens of all samples, for prefix.share: tree; otherwise may be NULL */
  const int64_t* token_offsets; /* count + 1 offsets of the samples in `tokens`; NULL without tokens */
} evenkeel_lengths;

/* A plan for all DP ranks. It does not change, so any number of threads may use it. */
typedef struct evenkeel_plan evenkeel_plan;

/* Plans step number `step` under a profile of the configuration; NULL or "" means the job's own settings.
 * `ranks` is the number of ranks in the world if mesh.dp is auto, or -1 if mesh.dp is set. Deterministic.
 * Returns CONFIG for settings that conflict, MESH for a mesh that does not fit `ranks`, LIMIT for a sample
 * above micro_batch.max_tokens, and INPUT for invalid lengths. */
EVENKEEL_API evenkeel_status evenkeel_plan_create(const evenkeel_lengths* lengths,
                                                  const evenkeel_config* config, const char* profile,
                                                  int64_t step, int32_t ranks, evenkeel_plan** plan);
EVENKEEL_API void evenkeel_plan_destroy(evenkeel_plan* plan);

/* Returns the arrays of a plan, which belong to the plan; NULL for NULL. Micro-batches are numbered over all
 * DP ranks, rank after rank:
 * - per sample of all micro-batches: samples (positions in the lengths) and prompts (int64), token_weights
 *   (float64)
 * - sample_offsets (int64): offset of each micro-batch's samples, followed by the total number
 * - per micro-batch: tokens, aligned_tokens, cost, padded_length, mini_batch, context_first and context_size
 *   (int64), scale and mean_weight (float64)
 * - rank_offsets (int64): offset of each DP rank's micro-batches, followed by the total number
 * - per DP rank: lower_bound (int64)
 * - per mini-batch: counts, the number of micro-batches of each DP rank (int64)
 * - single numbers (int64): num_samples, num_tokens, num_micro_batches (of each DP rank), alignment, cp_size,
 *   cp_layout, step, hash
 * - quality (float64), an array of six numbers: dp_max_over_mean before and after, micro_batch_max_over_mean,
 *   step_max_over_mean, waiting_once, waiting_every_micro_batch */
EVENKEEL_API const evenkeel_arrays* evenkeel_plan_arrays(const evenkeel_plan* plan);
/* Returns 1 if every micro-batch has the same samples in the same order in both plans, otherwise 0. */
EVENKEEL_API int32_t evenkeel_plan_equal(const evenkeel_plan* one, const evenkeel_plan* other);
/* Returns the layout of a micro-batch's tensors: cu_seqlens, cu_seqlens_padded (int32), max_seqlen, alignment
 * and cp_size. If samples share prefixes, also returns the tree: parents, tokens, sample_ends. */
EVENKEEL_API evenkeel_status evenkeel_plan_layout(const evenkeel_plan* plan, int64_t micro_batch,
                                                  evenkeel_arrays** arrays);

/* Computes the loss weights of micro-batches that the caller has made, and that form one mini-batch.
 * Micro-batch m has entries sample_offsets[m] .. sample_offsets[m + 1] - 1 of `samples`, and DP rank r has
 * micro-batches rank_offsets[r] .. rank_offsets[r + 1] - 1. Returns token_weights per sample, and scale and
 * mean_weight per micro-batch (float64). Returns INPUT unless every sample is in exactly one micro-batch and
 * all DP ranks have the same number of micro-batches. */
EVENKEEL_API evenkeel_status evenkeel_losses(const evenkeel_lengths* lengths, const evenkeel_config* config,
                                             const char* profile, const int64_t* samples,
                                             const int64_t* sample_offsets, int64_t num_micro_batches,
                                             const int64_t* rank_offsets, int64_t num_ranks,
                                             evenkeel_arrays** arrays);

#ifdef __cplusplus
}
#endif

#endif
