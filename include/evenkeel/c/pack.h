/* Sequences in packed tensors, cut for context parallelism: layouts, rows, routes, padding. All functions are
 * local. */
#ifndef EVENKEEL_C_PACK_H
#define EVENKEEL_C_PACK_H

#include "evenkeel/c/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- layouts ---- */

/* How the rows of a micro-batch are distributed over the ranks of its group: each sequence in 2*cp chunks,
 * two per rank; each sequence in cp parts; or all rows of the micro-batch in cp parts. */
enum {
  EVENKEEL_ZIGZAG = 0,
  EVENKEEL_CONTIGUOUS = 1,
  EVENKEEL_FLAT = 2,
};

/* A tree of samples that share prefixes. It has each shared token once, in segments in depth-first order. The
 * caller owns the arrays. */
typedef struct evenkeel_tree {
  int64_t num_segments;
  const int64_t* parents; /* parent of each segment, which is an earlier segment; -1 for a root */
  const int64_t* tokens;  /* number of tokens of each segment */
  int64_t num_samples;
  const int64_t* sample_ends; /* the segment where each sample ends; -1 for an empty sample */
} evenkeel_tree;

/* The positions of sequences in a packed micro-batch: back to back, each aligned and cut over the CP ranks
 * separately. The caller owns the arrays, which evenkeel_layout_fill can fill in. */
typedef struct evenkeel_layout {
  int64_t num_sequences;
  const int32_t* cu_seqlens;        /* num_sequences + 1 prefix sums of true lengths, from 0 */
  const int32_t* cu_seqlens_padded; /* the same for aligned lengths, over the whole CP group */
  int64_t alignment;                /* each aligned length is a multiple of this */
  int32_t cp_size;
  int32_t cp_layout;         /* EVENKEEL_ZIGZAG or EVENKEEL_CONTIGUOUS */
  const evenkeel_tree* tree; /* the tree whose segments are the sequences; NULL if they share nothing */
} evenkeel_layout;

/* Every function with a layout returns INPUT for arrays that do not describe a layout, and for a CP rank that
 * does not exist.
 *
 * Computes the alignment of sequences, to a multiple of which their lengths are rounded up: the least common
 * multiple of `extra` and 2 * cp * tp for zigzag, cp * tp for contiguous, or tp without context parallelism.
 * Returns INPUT for a size below 1. */
EVENKEEL_API evenkeel_status evenkeel_sequence_alignment(int32_t tp, int32_t cp_size, int32_t cp_layout,
                                                         int64_t extra, int64_t* alignment);
/* Fills in both arrays of prefix sums of a layout, each with room for count + 1 entries, and its longest
 * aligned length. `aligned` has the aligned lengths; if it is NULL, `lengths` are rounded up. Returns INPUT
 * for a negative length or an alignment that the cut does not allow, and LIMIT above 2^31 - 1 rows. */
EVENKEEL_API evenkeel_status evenkeel_layout_fill(const int64_t* lengths, const int64_t* aligned,
                                                  int64_t count, int64_t alignment, int32_t cp_size,
                                                  int32_t cp_layout, int32_t* cu_seqlens,
                                                  int32_t* cu_seqlens_padded, int32_t* max_seqlen);
/* Pads a layout to `rows` rows: fills in cu_seqlens_padded, in which the last sequence is longer by the
 * difference. Returns INPUT if rows would be cut off. */
EVENKEEL_API evenkeel_status evenkeel_layout_pad_to(const evenkeel_layout* layout, int64_t rows,
                                                    int32_t* cu_seqlens_padded, int32_t* max_seqlen);
/* Returns the runs of true rows of a CP rank, in local order, as runs [n, 4] (int64). Each run has the
 * numbers sequence, begin, end, local: rows begin .. end - 1 of the sequence are on the rank, starting at its
 * row `local`. */
EVENKEEL_API evenkeel_status evenkeel_layout_runs(const evenkeel_layout* layout, int32_t cp_rank,
                                                  evenkeel_arrays** arrays);
/* Returns the rows of one aligned sequence that a CP rank has, as one or two pairs of begin and end. `bounds`
 * has room for 4 numbers. */
EVENKEEL_API evenkeel_status evenkeel_cp_runs(int64_t aligned_length, int32_t cp_size, int32_t cp_layout,
                                              int32_t cp_rank, int64_t* bounds, int64_t* num_runs);
/* Transformer Engine's thd_get_partitioned_indices: returns the rows of the whole packed tensor that a CP
 * rank has. `cu_seqlens_padded` has `count` entries; `indices` has room for the last entry divided by
 * cp_size. Returns INPUT for lengths that cannot be cut. */
EVENKEEL_API evenkeel_status evenkeel_partitioned_indices(const int32_t* cu_seqlens_padded, int64_t count,
                                                          int32_t cp_size, int32_t cp_layout, int32_t cp_rank,
                                                          int64_t* indices);
/* Transformer Engine's get_cu_seqlens_on_cp_rank for zigzag: computes prefix sums of the true tokens in the
 * first half of a CP rank's rows, in the second half, and in all rows. Each array has `count` entries.
 * Returns INPUT for lengths that do not match or cannot be cut. */
EVENKEEL_API evenkeel_status evenkeel_cu_seqlens_on_cp_rank(const int32_t* cu_seqlens,
                                                            const int32_t* cu_seqlens_padded, int64_t count,
                                                            int32_t cp_size, int32_t cp_rank, int32_t* first,
                                                            int32_t* second, int32_t* both);

/* ---- rows ---- */

/* A buffer of rows of any type, which are moved as bytes. The number of bytes per row follows from the number
 * of rows of the layout. In the functions below, `pad` is one row that is copied to pad rows; if it has 0
 * bytes, pad rows are zero. Up to `threads` threads share the work. The functions return INPUT for a wrong
 * number of bytes or threads. */
typedef struct evenkeel_rows {
  void* data;
  int64_t bytes;
} evenkeel_rows;

/* Copies ragged rows (the true rows of all sequences, back to back) to the packed rows of a CP rank. */
EVENKEEL_API evenkeel_status evenkeel_pack_rows(const evenkeel_layout* layout, int32_t cp_rank,
                                                const evenkeel_rows* ragged, const evenkeel_rows* pad,
                                                const evenkeel_rows* local, int64_t threads);
/* Same as evenkeel_pack_rows, but from one buffer per sequence. */
EVENKEEL_API evenkeel_status evenkeel_pack_sequences(const evenkeel_layout* layout, int32_t cp_rank,
                                                     const evenkeel_rows* sequences, int64_t count,
                                                     const evenkeel_rows* pad, const evenkeel_rows* local,
                                                     int64_t threads);
/* Same as evenkeel_pack_rows, but for all CP ranks: `locals` has one buffer per rank. */
EVENKEEL_API evenkeel_status evenkeel_pack_all_ranks(const evenkeel_layout* layout,
                                                     const evenkeel_rows* ragged, const evenkeel_rows* pad,
                                                     const evenkeel_rows* locals, int64_t count,
                                                     int64_t threads);
/* Copies the rows of a CP rank to their places among the ragged rows. Other ragged rows do not change. */
EVENKEEL_API evenkeel_status evenkeel_unpack_rows(const evenkeel_layout* layout, int32_t cp_rank,
                                                  const evenkeel_rows* local, const evenkeel_rows* ragged,
                                                  int64_t threads);
/* Copies the rows of all CP ranks to the ragged rows. */
EVENKEEL_API evenkeel_status evenkeel_unpack_all_ranks(const evenkeel_layout* layout,
                                                       const evenkeel_rows* locals, int64_t count,
                                                       const evenkeel_rows* ragged, int64_t threads);
/* Fills only the pad rows of a CP rank. */
EVENKEEL_API evenkeel_status evenkeel_fill_pad_rows(const evenkeel_layout* layout, int32_t cp_rank,
                                                    const evenkeel_rows* pad, const evenkeel_rows* local);

/* The next four functions compute one value per row of a CP rank.
 *
 * Computes position ids: positions count from 0 in each sequence, or from the segment's depth in a tree. */
EVENKEEL_API evenkeel_status evenkeel_position_ids(const evenkeel_layout* layout, int32_t cp_rank,
                                                   int64_t* ids);
/* Computes labels: the next token of the same sequence, or `label_pad` at the end of a sequence and in pad
 * rows. `tokens` are ragged. Returns INPUT for a wrong number of tokens. */
EVENKEEL_API evenkeel_status evenkeel_labels(const evenkeel_layout* layout, int32_t cp_rank,
                                             const int64_t* tokens, int64_t num_tokens, int64_t label_pad,
                                             int64_t* labels);
/* Computes the loss mask: 1 if the row's label is a response token, otherwise 0. `prompts` has one length per
 * sequence. Returns INPUT for invalid prompt lengths. */
EVENKEEL_API evenkeel_status evenkeel_loss_mask(const evenkeel_layout* layout, int32_t cp_rank,
                                                const int64_t* prompts, int64_t count, float* mask);
/* Computes loss weights: the weight of the row's sequence if the row's byte in `mask` is not 0, otherwise 0.
 * `mask` has num_rows bytes. Returns INPUT for wrong numbers of weights or bytes. */
EVENKEEL_API evenkeel_status evenkeel_loss_weights(const evenkeel_layout* layout, const double* token_weights,
                                                   int64_t count, const uint8_t* mask, int64_t num_rows,
                                                   float* weights);

/* ---- routes: rows in another cut (docs/hybrid-models.md) ---- */

/* A member of a group. If tp_size is 1, it has all rows of the CP rank; otherwise, sequence parallelism has
 * cut these rows into tp_size equal parts, one per tp_rank. */
typedef struct evenkeel_member {
  int32_t cp_rank;
  int32_t tp_rank;
  int32_t tp_size;
} evenkeel_member;

/* Returns the route of rows from one cut to another, as these arrays in this order: send_rows, the member's
 * rows in the order in which to send them; receive_rows, the rows to which to write the arriving rows (both
 * are permutations of the member's rows, of type `dtype`, which is EVENKEEL_INT32 or EVENKEEL_INT64);
 * send_counts and receive_counts, the numbers of rows to send to and to receive from each member (int32). For
 * the route back, exchange send and receive. There are cp members or, with sequence parallelism, tp * cp
 * members, which are numbered cp_rank * tp_size + tp_rank. Returns INPUT if the layout cannot be cut in this
 * way. */
EVENKEEL_API evenkeel_status evenkeel_layout_route(const evenkeel_layout* layout, int32_t from, int32_t to,
                                                   const evenkeel_member* member, int32_t dtype,
                                                   evenkeel_arrays** arrays);
/* Returns the route of the rows before each run of evenkeel_layout_sequence_runs, for causal convolutions of
 * this width. The rows are received in a tensor of zeros with width - 1 rows per run. Returns INPUT for a
 * width below 1, or if the layout cannot be cut in this way. */
EVENKEEL_API evenkeel_status evenkeel_layout_halo_route(const evenkeel_layout* layout, int32_t cut,
                                                        int64_t width, const evenkeel_member* member,
                                                        int32_t dtype, evenkeel_arrays** arrays);
/* Returns the runs of a member's rows in a cut. The rows of a run belong to one sequence, and are consecutive
 * both in the sequence and on the member. Together, the runs contain all of the member's rows. The result has
 * these int64 arrays, with one number per run:
 * - sequence: the number of the sequence
 * - begin, end: the run's rows on the member, including pad rows
 * - first: the row of the sequence at which the run begins
 * - tokens: the number of true rows, which come before pad rows
 * - member_before, run_before, row_before, sequence_before: the origin of the state with which a recurrent
 *   layer begins the run. It is the state after all tokens of run run_before of member member_before. The
 *   last of these tokens is row row_before on that member, and belongs to sequence sequence_before. All four
 *   are -1 if the state begins with zero.
 * Returns INPUT if the layout cannot be cut in this way. */
EVENKEEL_API evenkeel_status evenkeel_layout_sequence_runs(const evenkeel_layout* layout, int32_t cut,
                                                           const evenkeel_member* member,
                                                           evenkeel_arrays** arrays);

/* ---- padding ---- */

/* A mask [batch, seq] of bytes: 1 for a real token, 0 for padding. Functions return INPUT for other
 * values. */
typedef struct evenkeel_mask {
  int64_t batch;
  int64_t seq;
  const uint8_t* values;
} evenkeel_mask;

/* Returns the true length of each row. `lengths` has room for `batch` numbers. */
EVENKEEL_API evenkeel_status evenkeel_mask_lengths(const evenkeel_mask* mask, int64_t* lengths);
/* Converts between padded rows [batch, seq], of row_bytes bytes each, and ragged rows.
 * evenkeel_restore_padding writes the row `pad` to places without a token. Both functions return INPUT for a
 * wrong number of bytes. */
EVENKEEL_API evenkeel_status evenkeel_remove_padding(const evenkeel_mask* mask, int64_t row_bytes,
                                                     const evenkeel_rows* padded,
                                                     const evenkeel_rows* ragged);
EVENKEEL_API evenkeel_status evenkeel_restore_padding(const evenkeel_mask* mask, int64_t row_bytes,
                                                      const evenkeel_rows* ragged, const evenkeel_rows* pad,
                                                      const evenkeel_rows* padded);
/* Converts ragged rows to right-padded rows [count, seq]. Keeps rows begins[i] .. ends[i] - 1 of sequence i.
 * A begin of -1 stands for a row before the first one, which is filled with `pad`. Returns INPUT for a range
 * that is not within the sequence or has more than `seq` rows. */
EVENKEEL_API evenkeel_status evenkeel_pad_right(const int64_t* lengths, const int64_t* begins,
                                                const int64_t* ends, int64_t count, int64_t seq,
                                                int64_t row_bytes, const evenkeel_rows* ragged,
                                                const evenkeel_rows* pad, const evenkeel_rows* padded);
/* Returns the rows at which a model predicts each sequence's response tokens, for evenkeel_pad_right. Returns
 * INPUT for a prompt that is negative or longer than its sequence. */
EVENKEEL_API evenkeel_status evenkeel_response_prediction_rows(const int64_t* lengths, const int64_t* prompts,
                                                               int64_t count, int64_t* begins, int64_t* ends);

#ifdef __cplusplus
}
#endif

#endif
