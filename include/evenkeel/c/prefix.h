/* Samples that share prefixes: trees in packed tensors, and groups in padded ones. All functions are local.
 */
#ifndef EVENKEEL_C_PREFIX_H
#define EVENKEEL_C_PREFIX_H

#include "evenkeel/c/pack.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- trees ---- */

/* All of these return arrays of int64, and INPUT for arrays that are not a tree.
 *
 * The tree of samples, all of whose tokens stand in `tokens`, sample i from offsets[i] to before offsets[i +
 * 1]: two samples share all tokens up to the first one that differs, except the last `ahead` of these.
 * Returns parents, tokens and sample_ends. */
EVENKEEL_API evenkeel_status evenkeel_tree_of_tokens(const int64_t* tokens, const int64_t* offsets,
                                                     int64_t num_samples, int64_t ahead,
                                                     evenkeel_arrays** arrays);
/* The same of some of the samples, numbered as listed. */
EVENKEEL_API evenkeel_status evenkeel_tree_subtree(const evenkeel_tree* tree, const int64_t* samples,
                                                   int64_t count, evenkeel_arrays** arrays);
/* The same of sequences that share nothing: a root for each. */
EVENKEEL_API evenkeel_status evenkeel_tree_of_sequences(const evenkeel_layout* layout,
                                                        evenkeel_arrays** arrays);
/* Of each segment: depths (tokens before it in its samples), first_samples (the lowest number of a sample
 * through it) and samples_through (their number). */
EVENKEEL_API evenkeel_status evenkeel_tree_segments(const evenkeel_tree* tree, evenkeel_arrays** arrays);
/* Of each row: position_ids, and tin and tout: row q sees row k if and only if tin[k] <= tin[q] < tout[k]. */
EVENKEEL_API evenkeel_status evenkeel_tree_rows(const evenkeel_tree* tree, evenkeel_arrays** arrays);
/* Of each token of a sample: rows, and prediction_rows, which predict it; -1 for the first. */
EVENKEEL_API evenkeel_status evenkeel_tree_sample(const evenkeel_tree* tree, int64_t sample,
                                                  evenkeel_arrays** arrays);
/* For layers that carry a state from token to token: from, the segment whose last state each segment begins
 * with (-1: at zero); uses, how many begin with its own; last_use, the last of them; peak_kept, how many are
 * kept at once. */
EVENKEEL_API evenkeel_status evenkeel_tree_branch_states(const evenkeel_tree* tree, evenkeel_arrays** arrays);
/* tokens and score_entries with sharing, repeated_tokens and repeated_score_entries without. */
EVENKEEL_API evenkeel_status evenkeel_tree_savings(const evenkeel_tree* tree, evenkeel_arrays** arrays);

/* ---- trees in packed tensors: layouts with a tree, whose segments are their sequences ---- */

/* How the keys of a mask are ordered. */
enum {
  EVENKEEL_KEYS_PACKED = 0,  /* one segment after another */
  EVENKEEL_KEYS_GATHERED = 1 /* all rows of a CP rank after those of the rank before it */
};

/* tin and tout of a CP rank's rows, pad rows included, numbered alike on all ranks. */
EVENKEEL_API evenkeel_status evenkeel_tree_intervals(const evenkeel_layout* layout, int32_t cp_rank,
                                                     evenkeel_arrays** arrays);
/* What a varlen attention kernel needs on a CP rank: cu_seqlens_q, cu_seqlens_q_padded, cu_seqlens_k,
 * cu_seqlens_k_padded (int32), max_seqlen_q, max_seqlen_k, segment of each entry, and key_rows, the rows of
 * the whole micro-batch to gather. */
EVENKEEL_API evenkeel_status evenkeel_tree_attention(const evenkeel_layout* layout, int32_t cp_rank,
                                                     evenkeel_arrays** arrays);
/* How a trainer runs it with one path in memory at a time: rows [pieces, 2], parents, keys_before, the kind
 * (0: push, 1: visit, 2: pop) and piece of each step, peak_keys, peak_kept, recomputed. At most
 * `max_kept` rows are kept; INT64_MAX: all. */
EVENKEEL_API evenkeel_status evenkeel_tree_depth_first(const evenkeel_layout* layout, int64_t max_kept,
                                                       evenkeel_arrays** arrays);
/* Where the prediction of each response token is, sample after sample: offsets of the samples' entries, rank
 * (int32) and row of each; -1 for tokens that nothing predicts. `prompts` has one length per sample. */
EVENKEEL_API evenkeel_status evenkeel_tree_predictions(const evenkeel_layout* layout, const int64_t* prompts,
                                                       int64_t count, evenkeel_arrays** arrays);
/* Masks of a CP rank's rows against all rows. FlexAttention's: eight int32 arrays with the names of torch's
 * BlockMask, in tiles of so many queries and keys. */
EVENKEEL_API evenkeel_status evenkeel_tree_block_mask(const evenkeel_layout* layout, int32_t cp_rank,
                                                      int32_t keys, int64_t tile_queries, int64_t tile_keys,
                                                      evenkeel_arrays** arrays);
/* FlashMask's: startend [keys, 2] (int32), the first row below each key that is masked, and the end of those
 * above. */
EVENKEEL_API evenkeel_status evenkeel_tree_column_mask(const evenkeel_layout* layout, int32_t cp_rank,
                                                       int32_t keys, evenkeel_arrays** arrays);
/* MagiAttention's: q_ranges and k_ranges [n, 2], kinds [n] (int32); 0 is full, 1 is causal. */
EVENKEEL_API evenkeel_status evenkeel_tree_slices(const evenkeel_layout* layout, int32_t cp_rank,
                                                  int32_t keys, evenkeel_arrays** arrays);
/* mask [queries, keys] (float32): 0 where a query sees a key, minus infinity elsewhere. */
EVENKEEL_API evenkeel_status evenkeel_tree_additive_mask(const evenkeel_layout* layout, int32_t cp_rank,
                                                         int32_t keys, evenkeel_arrays** arrays);

/* ---- groups in padded tensors, after PrefixGrouper ---- */

/* Where tokens are in a padded tensor [batch, width]: runs of tokens that are adjacent in a row, in the order
 * of the tokens. `runs` has three numbers per run: row, column, tokens. The caller owns it. INPUT for a run
 * outside the tensor. */
typedef struct evenkeel_places {
  int64_t batch, width;
  int64_t num_runs;
  const int64_t* runs;
} evenkeel_places;

/* The places where a mask is 1, row after row: runs [n, 3]. */
EVENKEEL_API evenkeel_status evenkeel_places_of_mask(const evenkeel_mask* mask, evenkeel_arrays** arrays);
/* Copies token t from its place in `source` to its place in `target`, for all t. Both are [batch, heads,
 * width] of row_bytes bytes, and do not overlap; other places of the target stay. INPUT for different numbers
 * of tokens, and with `within_rows` not 0 also for different numbers in a row. */
EVENKEEL_API evenkeel_status evenkeel_move_tokens(const evenkeel_places* from, const evenkeel_places* to,
                                                  int32_t within_rows, int64_t heads, int64_t row_bytes,
                                                  const evenkeel_rows* source, const evenkeel_rows* target);
/* Fills all places without a token with `pad`. INPUT for tokens that are not in the order of the tensor. */
EVENKEEL_API evenkeel_status evenkeel_fill_padding(const evenkeel_places* tokens, int64_t heads,
                                                   int64_t row_bytes, const evenkeel_rows* pad,
                                                   const evenkeel_rows* target);

/* Where grouped rows are padded. */
enum { EVENKEEL_PAD_RIGHT = 0, EVENKEEL_PAD_LEFT = 1 };
/* Groups of one prefix and its suffixes, whose tokens are one row each of a grouped tensor: the prefix, then
 * each suffix. The caller owns its arrays. INPUT for no group, a group without a suffix, a negative length
 * and a mask with other numbers of tokens; LIMIT for a group of more than 2^31 - 1 tokens. */
typedef struct evenkeel_prefix_groups {
  int64_t num_groups;
  const int64_t* offsets;    /* num_groups + 1: of each group's lengths in `lengths` */
  const int64_t* lengths;    /* of a group: of its prefix, then of its suffixes */
  int32_t side;              /* EVENKEEL_PAD_RIGHT or EVENKEEL_PAD_LEFT */
  const evenkeel_mask* mask; /* the tokens' places instead of a side; NULL: none */
} evenkeel_prefix_groups;

/* Where the tokens are in the grouped tensor, in prefixes (left-padded) and in suffixes (right-padded). The
 * last `include_prefix_last` tokens of each prefix are in front of each of its suffixes instead; INPUT for a
 * shorter prefix, unless pad_short is not 0: then padding takes their place. Returns shapes [3, 2] of these
 * tensors and runs [n, 3] of places: grouped, prefix_source and suffix_source (in the grouped tensor), prefix
 * and suffix. */
EVENKEEL_API evenkeel_status evenkeel_prefix_split(const evenkeel_prefix_groups* groups,
                                                   int64_t include_prefix_last, int32_t pad_short,
                                                   evenkeel_arrays** arrays);
/* Position ids of the grouped tensor: each prefix counts from 0, each suffix from its prefix's length;
 * `padding` elsewhere. `ids` has room for all places. */
EVENKEEL_API evenkeel_status evenkeel_prefix_position_ids(const evenkeel_prefix_groups* groups,
                                                          int64_t padding, int64_t* ids);

#ifdef __cplusplus
}
#endif

#endif
