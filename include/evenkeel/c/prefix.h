/* Samples that share prefixes: trees in packed tensors, and groups in padded tensors. All functions are
 * local. */
#ifndef EVENKEEL_C_PREFIX_H
#define EVENKEEL_C_PREFIX_H

#include "evenkeel/c/pack.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- trees ---- */

/* The functions of this section return arrays of int64, and return INPUT for arrays that do not describe a
 * tree.
 *
 * Returns the tree of samples: parents, tokens and sample_ends. Sample i has tokens offsets[i] .. offsets[i +
 * 1] - 1 of `tokens`. Two samples share all tokens before the first one that differs, except the last `ahead`
 * of these. */
EVENKEEL_API evenkeel_status evenkeel_tree_of_tokens(const int64_t* tokens, const int64_t* offsets,
                                                     int64_t num_samples, int64_t ahead,
                                                     evenkeel_arrays** arrays);
/* Returns the tree of some of the samples, numbered as listed. */
EVENKEEL_API evenkeel_status evenkeel_tree_subtree(const evenkeel_tree* tree, const int64_t* samples,
                                                   int64_t count, evenkeel_arrays** arrays);
/* Returns the tree of sequences that share nothing, with one root per sequence. */
EVENKEEL_API evenkeel_status evenkeel_tree_of_sequences(const evenkeel_layout* layout,
                                                        evenkeel_arrays** arrays);
/* Returns three numbers per segment: depths (the number of tokens before it in its samples), first_samples
 * (the lowest number of its samples) and samples_through (the number of its samples). */
EVENKEEL_API evenkeel_status evenkeel_tree_segments(const evenkeel_tree* tree, evenkeel_arrays** arrays);
/* Returns three numbers per row: position_ids, tin and tout. Row q sees row k if and only if tin[k] <= tin[q]
 * < tout[k]. */
EVENKEEL_API evenkeel_status evenkeel_tree_rows(const evenkeel_tree* tree, evenkeel_arrays** arrays);
/* Returns two numbers per token of a sample: rows, the token's row, and prediction_rows, the row that
 * predicts it; -1 for the first token. */
EVENKEEL_API evenkeel_status evenkeel_tree_sample(const evenkeel_tree* tree, int64_t sample,
                                                  evenkeel_arrays** arrays);
/* Returns the states of segments in layers that carry a state from token to token. For each segment: from,
 * the segment whose last state is its initial state (-1: zero); uses, the number of segments that begin with
 * its last state; last_use, the last of those segments. Also peak_kept, the maximum number of states kept at
 * once. */
EVENKEEL_API evenkeel_status evenkeel_tree_branch_states(const evenkeel_tree* tree, evenkeel_arrays** arrays);
/* Returns the savings of sharing: tokens and score_entries with sharing, repeated_tokens and
 * repeated_score_entries without it. */
EVENKEEL_API evenkeel_status evenkeel_tree_savings(const evenkeel_tree* tree, evenkeel_arrays** arrays);

/* ---- trees in packed tensors: layouts whose sequences are the segments of a tree ---- */

/* The order of the keys of a mask. */
enum {
  EVENKEEL_KEYS_PACKED = 0,  /* one segment after another */
  EVENKEEL_KEYS_GATHERED = 1 /* all rows of CP rank 0, then all rows of CP rank 1, and so on */
};

/* Returns tin and tout of a CP rank's rows, including pad rows. All ranks use the same numbering. */
EVENKEEL_API evenkeel_status evenkeel_tree_intervals(const evenkeel_layout* layout, int32_t cp_rank,
                                                     evenkeel_arrays** arrays);
/* Returns the arguments of a varlen attention kernel on a CP rank: cu_seqlens_q, cu_seqlens_q_padded,
 * cu_seqlens_k, cu_seqlens_k_padded (int32), max_seqlen_q, max_seqlen_k, the segment of each entry, and
 * key_rows, the rows of the whole micro-batch to gather. */
EVENKEEL_API evenkeel_status evenkeel_tree_attention(const evenkeel_layout* layout, int32_t cp_rank,
                                                     evenkeel_arrays** arrays);
/* Returns the schedule with which a trainer runs the tree with one path in memory at a time: rows [pieces,
 * 2], parents, keys_before, kinds (0: push, 1: visit, 2: pop) and pieces of the steps, peak_keys, peak_kept,
 * recomputed. At most `max_kept` rows are kept; INT64_MAX means all. */
EVENKEEL_API evenkeel_status evenkeel_tree_depth_first(const evenkeel_layout* layout, int64_t max_kept,
                                                       evenkeel_arrays** arrays);
/* Returns the place of the prediction of each response token, sample after sample: offsets of the samples'
 * entries, and the rank (int32) and row of each entry; -1 for tokens that are not predicted. `prompts` has
 * one length per sample. */
EVENKEEL_API evenkeel_status evenkeel_tree_predictions(const evenkeel_layout* layout, const int64_t* prompts,
                                                       int64_t count, evenkeel_arrays** arrays);
/* The next four functions return the mask of a CP rank's rows against all rows, in different forms.
 *
 * Returns FlexAttention's form: eight int32 arrays with the names of torch's BlockMask, in tiles of
 * tile_queries x tile_keys. */
EVENKEEL_API evenkeel_status evenkeel_tree_block_mask(const evenkeel_layout* layout, int32_t cp_rank,
                                                      int32_t keys, int64_t tile_queries, int64_t tile_keys,
                                                      evenkeel_arrays** arrays);
/* Returns FlashMask's form: startend [keys, 2] (int32), which has the first masked row below each key and the
 * end of the masked rows above it. */
EVENKEEL_API evenkeel_status evenkeel_tree_column_mask(const evenkeel_layout* layout, int32_t cp_rank,
                                                       int32_t keys, evenkeel_arrays** arrays);
/* Returns MagiAttention's form: q_ranges and k_ranges [n, 2], kinds [n] (int32). A kind of 0 is full, 1 is
 * causal. */
EVENKEEL_API evenkeel_status evenkeel_tree_slices(const evenkeel_layout* layout, int32_t cp_rank,
                                                  int32_t keys, evenkeel_arrays** arrays);
/* Returns an additive mask, mask [queries, keys] (float32): 0 if a query sees a key, otherwise minus
 * infinity. */
EVENKEEL_API evenkeel_status evenkeel_tree_additive_mask(const evenkeel_layout* layout, int32_t cp_rank,
                                                         int32_t keys, evenkeel_arrays** arrays);

/* ---- groups in padded tensors, after PrefixGrouper ---- */

/* The places of tokens in a padded tensor [batch, width]: runs of tokens that are adjacent in a row, in the
 * order of the tokens. `runs` has three numbers per run: row, column, number of tokens. The caller owns the
 * array. Functions return INPUT for a run outside the tensor. */
typedef struct evenkeel_places {
  int64_t batch, width;
  int64_t num_runs;
  const int64_t* runs;
} evenkeel_places;

/* Returns the places where a mask is 1, row after row: runs [n, 3]. */
EVENKEEL_API evenkeel_status evenkeel_places_of_mask(const evenkeel_mask* mask, evenkeel_arrays** arrays);
/* Copies each token from its place in `source` to its place in `target`. Both tensors are [batch, heads,
 * width] with row_bytes bytes per place, and must not overlap. Other places of the target do not change.
 * Returns INPUT if the numbers of tokens differ or, if `within_rows` is not 0, if the numbers of tokens in a
 * row differ. */
EVENKEEL_API evenkeel_status evenkeel_move_tokens(const evenkeel_places* from, const evenkeel_places* to,
                                                  int32_t within_rows, int64_t heads, int64_t row_bytes,
                                                  const evenkeel_rows* source, const evenkeel_rows* target);
/* Fills all places without a token with `pad`. Returns INPUT if the tokens are not in the order of the
 * tensor. */
EVENKEEL_API evenkeel_status evenkeel_fill_padding(const evenkeel_places* tokens, int64_t heads,
                                                   int64_t row_bytes, const evenkeel_rows* pad,
                                                   const evenkeel_rows* target);

/* The side on which grouped rows are padded. */
enum { EVENKEEL_PAD_RIGHT = 0, EVENKEEL_PAD_LEFT = 1 };
/* Groups of one prefix and its suffixes. Each group is one row of a grouped tensor: the prefix, then each
 * suffix. The caller owns the arrays. Functions return INPUT if there is no group, for a group without a
 * suffix, for a negative length, and for a mask with other numbers of tokens; LIMIT for a group of more than
 * 2^31 - 1 tokens. */
typedef struct evenkeel_prefix_groups {
  int64_t num_groups;
  const int64_t* offsets;    /* num_groups + 1 offsets of the groups in `lengths` */
  const int64_t* lengths;    /* for each group, the length of its prefix, then those of its suffixes */
  int32_t side;              /* EVENKEEL_PAD_RIGHT or EVENKEEL_PAD_LEFT */
  const evenkeel_mask* mask; /* the places of the tokens, used instead of `side`; may be NULL */
} evenkeel_prefix_groups;

/* Returns the places of the tokens in the grouped tensor, in prefixes (left-padded) and in suffixes
 * (right-padded). The last `include_prefix_last` tokens of each prefix are moved to the front of each of its
 * suffixes. If a prefix is shorter than that, padding replaces the missing tokens if pad_short is not 0;
 * otherwise, returns INPUT. The result has shapes [3, 2] of the three tensors, and the runs [n, 3] of these
 * places: grouped, prefix_source and suffix_source (in the grouped tensor), prefix and suffix. */
EVENKEEL_API evenkeel_status evenkeel_prefix_split(const evenkeel_prefix_groups* groups,
                                                   int64_t include_prefix_last, int32_t pad_short,
                                                   evenkeel_arrays** arrays);
/* Returns the position ids of the grouped tensor: each prefix counts from 0, each suffix from its prefix's
 * length, and other places have `padding`. `ids` has room for all places. */
EVENKEEL_API evenkeel_status evenkeel_prefix_position_ids(const evenkeel_prefix_groups* groups,
                                                          int64_t padding, int64_t* ids);

#ifdef __cplusplus
}
#endif

#endif
