/* Sequences in packed tensors, cut for context parallelism: layouts, rows, routes, padding. All functions are
 * local. */
#ifndef EVENKEEL_C_PACK_H
#define EVENKEEL_C_PACK_H

#include "evenkeel/c/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- layouts ---- */

/* How the rows of a micro-batch are spread over its group: each sequence in 2*cp chunks of which each rank
 * has two, each sequence in cp parts, or all rows of the micro-batch in cp parts. */
enum {
  EVENKEEL_ZIGZAG = 0,
  EVENKEEL_CONTIGUOUS = 1,
  EVENKEEL_FLAT = 2,
};

/* Samples that share prefixes, each shared token once: segments, depth first. The caller owns its arrays. */
typedef struct evenkeel_tree {
  int64_t num_segments;
  const int64_t* parents; /* of each segment, an earlier one; -1: a root */
  const int64_t* tokens;  /* of each segment */
  int64_t num_samples;
  const int64_t* sample_ends; /* the segment where each sample ends; -1: an empty sample */
} evenkeel_tree;

/* Where sequences are in a packed micro-batch: back to back, each aligned, each cut over the CP ranks on its
 * own. The caller owns its arrays, which evenkeel_layout_fill can fill in. */
typedef struct evenkeel_layout {
  int64_t num_sequences;
  const int32_t* cu_seqlens;        /* num_sequences + 1 sums of true lengths, from 0 */
  const int32_t* cu_seqlens_padded; /* the same of aligned lengths, over the whole CP group */
  int64_t alignment;                /* what each aligned length is a multiple of */
  int32_t cp_size;
  int32_t cp_layout;         /* EVENKEEL_ZIGZAG or EVENKEEL_CONTIGUOUS */
  const evenkeel_tree* tree; /* sequences are its segments; NULL: they share nothing */
} evenkeel_layout;

/* Every function with a layout returns INPUT for arrays that are not one, and for a CP rank that does not
 * exist.
 *
 * The multiple that lengths are rounded up to: 2 * cp * tp for zigzag, cp * tp for contiguous, tp without
 * context parallelism, then the least common multiple with `extra`. INPUT for a size below 1. */
EVENKEEL_API evenkeel_status evenkeel_sequence_alignment(int32_t tp, int32_t cp_size, int32_t cp_layout,
                                                         int64_t extra, int64_t* alignment);
/* Fills in both sums of a layout, each with room for count + 1, and its longest aligned length. `aligned` has
 * the aligned lengths; NULL: `lengths` rounded up. INPUT for a negative length or an alignment that the cut
 * does not divide, LIMIT above 2^31 - 1 rows. */
EVENKEEL_API evenkeel_status evenkeel_layout_fill(const int64_t* lengths, const int64_t* aligned,
                                                  int64_t count, int64_t alignment, int32_t cp_size,
                                                  int32_t cp_layout, int32_t* cu_seqlens,
                                                  int32_t* cu_seqlens_padded, int32_t* max_seqlen);
/* Makes a layout `rows` rows long: fills in cu_seqlens_padded, in which the last sequence takes up the
 * difference. INPUT if rows would be cut off. */
EVENKEEL_API evenkeel_status evenkeel_layout_pad_to(const evenkeel_layout* layout, int64_t rows,
                                                    int32_t* cu_seqlens_padded, int32_t* max_seqlen);
/* The runs of a CP rank, in local order, as runs [n, 4] (int64): rows begin .. end - 1 of a sequence, which
 * are true ones, are on the rank from row `local` on; each run is sequence, begin, end, local. */
EVENKEEL_API evenkeel_status evenkeel_layout_runs(const evenkeel_layout* layout, int32_t cp_rank,
                                                  evenkeel_arrays** arrays);
/* The rows of one aligned sequence that a CP rank has: one or two pairs of begin and end. `bounds` has room
 * for 4. */
EVENKEEL_API evenkeel_status evenkeel_cp_runs(int64_t aligned_length, int32_t cp_size, int32_t cp_layout,
                                              int32_t cp_rank, int64_t* bounds, int64_t* num_runs);
/* Transformer Engine's thd_get_partitioned_indices: the rows of the whole packed tensor that a CP rank has.
 * There are `count` sums, and `indices` has room for the last of them over cp_size. INPUT. */
EVENKEEL_API evenkeel_status evenkeel_partitioned_indices(const int32_t* cu_seqlens_padded, int64_t count,
                                                          int32_t cp_size, int32_t cp_layout, int32_t cp_rank,
                                                          int64_t* indices);
/* Transformer Engine's get_cu_seqlens_on_cp_rank, zigzag: true tokens of the first half of a CP rank's rows,
 * of the second half, and of all, as `count` sums each. INPUT. */
EVENKEEL_API evenkeel_status evenkeel_cu_seqlens_on_cp_rank(const int32_t* cu_seqlens,
                                                            const int32_t* cu_seqlens_padded, int64_t count,
                                                            int32_t cp_size, int32_t cp_rank, int32_t* first,
                                                            int32_t* second, int32_t* both);

/* ---- rows ---- */

/* Rows of any type move as bytes: a buffer has `bytes` bytes, and the bytes of a row follow from how many
 * rows the layout has. `pad` is a row for alignment, of `pad_bytes` bytes; 0: zeros. Up to `threads` threads
 * share the work. INPUT for a wrong number of bytes or threads. */
typedef struct evenkeel_rows {
  void* data;
  int64_t bytes;
} evenkeel_rows;

/* Ragged rows (the true rows of all sequences, back to back) into the rows of a CP rank. */
EVENKEEL_API evenkeel_status evenkeel_pack_rows(const evenkeel_layout* layout, int32_t cp_rank,
                                                const evenkeel_rows* ragged, const evenkeel_rows* pad,
                                                const evenkeel_rows* local, int64_t threads);
/* The same from one buffer per sequence. */
EVENKEEL_API evenkeel_status evenkeel_pack_sequences(const evenkeel_layout* layout, int32_t cp_rank,
                                                     const evenkeel_rows* sequences, int64_t count,
                                                     const evenkeel_rows* pad, const evenkeel_rows* local,
                                                     int64_t threads);
/* The same for all CP ranks: `locals` has one buffer each. */
EVENKEEL_API evenkeel_status evenkeel_pack_all_ranks(const evenkeel_layout* layout,
                                                     const evenkeel_rows* ragged, const evenkeel_rows* pad,
                                                     const evenkeel_rows* locals, int64_t count,
                                                     int64_t threads);
/* The rows of a CP rank into its share of ragged rows; other rows stay. */
EVENKEEL_API evenkeel_status evenkeel_unpack_rows(const evenkeel_layout* layout, int32_t cp_rank,
                                                  const evenkeel_rows* local, const evenkeel_rows* ragged,
                                                  int64_t threads);
/* The rows of all CP ranks into ragged rows. */
EVENKEEL_API evenkeel_status evenkeel_unpack_all_ranks(const evenkeel_layout* layout,
                                                       const evenkeel_rows* locals, int64_t count,
                                                       const evenkeel_rows* ragged, int64_t threads);
/* Fills only the pad rows of a CP rank. */
EVENKEEL_API evenkeel_status evenkeel_fill_pad_rows(const evenkeel_layout* layout, int32_t cp_rank,
                                                    const evenkeel_rows* pad, const evenkeel_rows* local);

/* One value per row of a CP rank. Each position counts from 0 in its sequence, or from its segment's depth in
 * a tree. */
EVENKEEL_API evenkeel_status evenkeel_position_ids(const evenkeel_layout* layout, int32_t cp_rank,
                                                   int64_t* ids);
/* The next token of the same sequence; label_pad at its end and in pad rows. `tokens` are ragged. INPUT. */
EVENKEEL_API evenkeel_status evenkeel_labels(const evenkeel_layout* layout, int32_t cp_rank,
                                             const int64_t* tokens, int64_t num_tokens, int64_t label_pad,
                                             int64_t* labels);
/* 1 where the label is a response token. `prompts` has one length per sequence. INPUT. */
EVENKEEL_API evenkeel_status evenkeel_loss_mask(const evenkeel_layout* layout, int32_t cp_rank,
                                                const int64_t* prompts, int64_t count, float* mask);
/* The weight of the row's sequence where `mask`, of num_rows bytes, is not 0. INPUT. */
EVENKEEL_API evenkeel_status evenkeel_loss_weights(const evenkeel_layout* layout, const double* token_weights,
                                                   int64_t count, const uint8_t* mask, int64_t num_rows,
                                                   float* weights);

/* ---- routes: rows in another cut (docs/hybrid-models.md) ---- */

/* A member of a group. tp_rank 0 of tp_size 1 has all rows of the CP rank; otherwise sequence parallelism has
 * cut them into tp_size equal parts. */
typedef struct evenkeel_member {
  int32_t cp_rank;
  int32_t tp_rank;
  int32_t tp_size;
} evenkeel_member;

/* From one cut to another. Returns, in this order: send_rows, the member's rows in the order to send them,
 * and receive_rows, where the rows that arrive land, both permutations of its rows (of `dtype`,
 * EVENKEEL_INT32 or EVENKEEL_INT64); send_counts and receive_counts, how many of them each member gets and
 * sends (int32). The way back has send and receive exchanged. Members are cp, or tp * cp with sequence
 * parallelism: member cp_rank * tp_size + tp_rank. INPUT if the layout cannot be cut so. */
EVENKEEL_API evenkeel_status evenkeel_layout_route(const evenkeel_layout* layout, int32_t from, int32_t to,
                                                   const evenkeel_member* member, int32_t dtype,
                                                   evenkeel_arrays** arrays);
/* The rows before each run of evenkeel_layout_sequence_runs, for causal convolutions of this width: they land
 * in zeros, width - 1 rows a run. INPUT. */
EVENKEEL_API evenkeel_status evenkeel_layout_halo_route(const evenkeel_layout* layout, int32_t cut,
                                                        int64_t width, const evenkeel_member* member,
                                                        int32_t dtype, evenkeel_arrays** arrays);
/* The member's runs in a cut, which together are all of its rows: rows of one sequence that follow each other
 * in it and on the member. Returns, of each (int64): sequence; begin and end, its rows on the member, pad
 * rows included; first, which row of the sequence the first of them is; tokens, its true rows, which the
 * others follow; and whose state a recurrent layer begins with here: run run_before of member member_before,
 * after all its tokens, the last of which is row row_before there, of sequence sequence_before; all -1: from
 * zero. INPUT. */
EVENKEEL_API evenkeel_status evenkeel_layout_sequence_runs(const evenkeel_layout* layout, int32_t cut,
                                                           const evenkeel_member* member,
                                                           evenkeel_arrays** arrays);

/* ---- padding ---- */

/* A mask [batch, seq] of bytes, 1 where a token is real. INPUT for other values than 0 and 1. */
typedef struct evenkeel_mask {
  int64_t batch;
  int64_t seq;
  const uint8_t* values;
} evenkeel_mask;

/* The true length of each row. `lengths` has room for `batch`. */
EVENKEEL_API evenkeel_status evenkeel_mask_lengths(const evenkeel_mask* mask, int64_t* lengths);
/* Padded rows [batch, seq] of row_bytes bytes into ragged rows, and back; `pad` is a row for other places.
 * INPUT for a wrong number of bytes. */
EVENKEEL_API evenkeel_status evenkeel_remove_padding(const evenkeel_mask* mask, int64_t row_bytes,
                                                     const evenkeel_rows* padded,
                                                     const evenkeel_rows* ragged);
EVENKEEL_API evenkeel_status evenkeel_restore_padding(const evenkeel_mask* mask, int64_t row_bytes,
                                                      const evenkeel_rows* ragged, const evenkeel_rows* pad,
                                                      const evenkeel_rows* padded);
/* Ragged rows as right-padded ones [count, seq]. Sequence i keeps its rows from begins[i] to before ends[i];
 * a begin of -1 is a row before the first, which is `pad`. INPUT. */
EVENKEEL_API evenkeel_status evenkeel_pad_right(const int64_t* lengths, const int64_t* begins,
                                                const int64_t* ends, int64_t count, int64_t seq,
                                                int64_t row_bytes, const evenkeel_rows* ragged,
                                                const evenkeel_rows* pad, const evenkeel_rows* padded);
/* The rows at which a model predicts each sequence's response tokens, for evenkeel_pad_right. INPUT. */
EVENKEEL_API evenkeel_status evenkeel_response_prediction_rows(const int64_t* lengths, const int64_t* prompts,
                                                               int64_t count, int64_t* begins, int64_t* ends);

#ifdef __cplusplus
}
#endif

#endif
