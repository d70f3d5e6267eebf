#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/narrow.hpp"
#include "c/arrays.hpp"
#include "c/layouts.hpp"
#include "c/named_arrays.hpp"
#include "evenkeel/c/prefix.h"
#include "evenkeel/pack/prefix/predictions.hpp"

namespace evenkeel::c {
namespace {

using Numbers = std::vector<std::int64_t>;

void add_intervals(evenkeel_arrays& arrays, AncestorIntervals intervals) {
  arrays.add("tin", std::move(intervals.tin));
  arrays.add("tout", std::move(intervals.tout));
}

/// Adds an array of shape [size, 2] with the two numbers of pair(entry) for every entry of a list.
template <typename List, typename Pair>
void add_pairs(evenkeel_arrays& arrays, const char* name, const List& list, Pair pair) {
  std::vector<std::int32_t> values;
  values.reserve(2 * list.size());
  for (const auto& each : list) {
    const RowRange range = pair(each);
    values.push_back(narrow<std::int32_t>(range.begin, "row"));
    values.push_back(narrow<std::int32_t>(range.end, "row"));
  }
  arrays.add(name, std::move(values), {std::ssize(list), 2});
}

KeyOrder key_order_of(std::int32_t keys) {
  if (keys == EVENKEEL_KEYS_PACKED) return KeyOrder::packed;
  if (keys == EVENKEEL_KEYS_GATHERED) return KeyOrder::gathered;
  throw WrongArgument("argument keys", "is " + std::to_string(keys) +
                                           "; it must be EVENKEEL_KEYS_PACKED or EVENKEEL_KEYS_GATHERED");
}

/// The layout of a tree in a packed micro-batch, and one CP rank of its group.
struct TreeOnRank {
  PackedTreeLayout layout;
  CpRank rank;

  TreeOnRank(const evenkeel_layout* of, std::int32_t cp_rank)
      : layout(tree_layout_of(of)), rank(checked_cp_rank(layout.segments().cp(), cp_rank)) {}
};

}  // namespace

}  // namespace evenkeel::c

using namespace evenkeel;
using namespace evenkeel::c;

int64_t evenkeel_arrays_count(const evenkeel_arrays* arrays) {
  return arrays == nullptr ? 0 : std::ssize(arrays->arrays);
}

evenkeel_status evenkeel_arrays_at(const evenkeel_arrays* arrays, int64_t index, evenkeel_array* array) {
  return run_guarded([&] {
    require(array, "array");
    require_index(index, evenkeel_arrays_count(arrays), "index", "arrays");
    const evenkeel_arrays::Array& found = arrays->arrays[static_cast<std::size_t>(index)];
    *array = {found.name.c_str(), found.dtype, std::ssize(found.shape), found.shape.data(),
              std::visit([](const auto& values) -> const void* { return values.data(); }, found.values)};
  });
}

void evenkeel_arrays_destroy(evenkeel_arrays* arrays) {
  delete arrays;
}

evenkeel_status evenkeel_tree_of_tokens(const int64_t* tokens, const int64_t* offsets, int64_t num_samples,
                                        int64_t ahead, evenkeel_arrays** arrays) {
  return create_arrays(arrays, [&](evenkeel_arrays& made) {
    require_list(offsets, num_samples, "offsets");
    require(offsets, "offsets");
    const std::span<const std::int64_t> all = array_of(tokens, offsets[num_samples], "tokens");
    if (ahead < 0) throw InputError("ahead", "is " + std::to_string(ahead) + "; it must be at least 0");
    std::vector<std::span<const std::int64_t>> samples;
    for (std::int64_t i = 0; i < num_samples; ++i) {
      if (offsets[i] < 0 || offsets[i + 1] < offsets[i] || offsets[i + 1] > std::ssize(all))
        throw InputError("offsets[" + std::to_string(i) + "]",
                         "is " + std::to_string(offsets[i]) + ", and the next offset is " +
                             std::to_string(offsets[i + 1]) + "; offsets must be from 0 to the last one, " +
                             std::to_string(std::ssize(all)) + ", and must not decrease");
      samples.push_back(all.subspan(static_cast<std::size_t>(offsets[i]),
                                    static_cast<std::size_t>(offsets[i + 1] - offsets[i])));
    }
    add_tree_structure(made, PrefixTree::from_tokens(samples, ahead));
  });
}

evenkeel_status evenkeel_tree_subtree(const evenkeel_tree* tree, const int64_t* samples, int64_t count,
                                      evenkeel_arrays** arrays) {
  return create_arrays(arrays, [&](evenkeel_arrays& made) {
    add_tree_structure(made, tree_of(tree).subtree(array_of(samples, count, "samples")));
  });
}

evenkeel_status evenkeel_tree_of_sequences(const evenkeel_layout* layout, evenkeel_arrays** arrays) {
  return create_arrays(arrays, [&](evenkeel_arrays& made) {
    add_tree_structure(made, PackedTreeLayout(layout_of(layout)).tree());
  });
}

evenkeel_status evenkeel_tree_segments(const evenkeel_tree* tree, evenkeel_arrays** arrays) {
  return create_arrays(arrays, [&](evenkeel_arrays& made) {
    const PrefixTree of = tree_of(tree);
    made.add_mapped("depths", of.segments(), &TreeSegment::depth);
    made.add_mapped("first_samples", of.segments(), &TreeSegment::first_sample);
    made.add_mapped("samples_through", of.segments(), &TreeSegment::num_samples);
  });
}

evenkeel_status evenkeel_tree_rows(const evenkeel_tree* tree, evenkeel_arrays** arrays) {
  return create_arrays(arrays, [&](evenkeel_arrays& made) {
    const PrefixTree of = tree_of(tree);
    made.add("position_ids", position_ids(of));
    add_intervals(made, ancestor_intervals(of));
  });
}

evenkeel_status evenkeel_tree_sample(const evenkeel_tree* tree, int64_t sample, evenkeel_arrays** arrays) {
  return create_arrays(arrays, [&](evenkeel_arrays& made) {
    const PrefixTree of = tree_of(tree);
    require_index(sample, of.num_samples(), "sample", "samples");
    made.add("rows", of.rows_of(sample));
    made.add("prediction_rows", of.prediction_rows(sample));
  });
}

evenkeel_status evenkeel_tree_branch_states(const evenkeel_tree* tree, evenkeel_arrays** arrays) {
  return create_arrays(arrays, [&](evenkeel_arrays& made) {
    BranchStates states = branch_states(tree_of(tree));
    made.add("from", std::move(states.from));
    made.add("uses", std::move(states.uses));
    made.add("last_use", std::move(states.last_use));
    made.add("peak_kept", states.peak_kept);
  });
}

evenkeel_status evenkeel_tree_savings(const evenkeel_tree* tree, evenkeel_arrays** arrays) {
  return create_arrays(arrays, [&](evenkeel_arrays& made) {
    const SharingSavings savings = sharing_savings(tree_of(tree));
    made.add("tokens", savings.tokens);
    made.add("repeated_tokens", savings.repeated_tokens);
    made.add("score_entries", savings.score_entries);
    made.add("repeated_score_entries", savings.repeated_score_entries);
  });
}

evenkeel_status evenkeel_tree_intervals(const evenkeel_layout* layout, int32_t cp_rank,
                                        evenkeel_arrays** arrays) {
  return create_arrays(arrays, [&](evenkeel_arrays& made) {
    const TreeOnRank of(layout, cp_rank);
    add_intervals(made, ancestor_intervals(of.layout, of.rank));
  });
}

evenkeel_status evenkeel_tree_attention(const evenkeel_layout* layout, int32_t cp_rank,
                                        evenkeel_arrays** arrays) {
  return create_arrays(arrays, [&](evenkeel_arrays& made) {
    const TreeOnRank of(layout, cp_rank);
    PrefixAttentionPlan plan = plan_prefix_attention(of.layout, of.rank);
    Numbers key_rows;
    for (const RowRange& range : plan.key_rows)
      for (std::int64_t row = range.begin; row < range.end; ++row) key_rows.push_back(row);
    made.add("cu_seqlens_q", std::move(plan.cu_seqlens_q));
    made.add("cu_seqlens_q_padded", std::move(plan.cu_seqlens_q_padded));
    made.add("cu_seqlens_k", std::move(plan.cu_seqlens_k));
    made.add("cu_seqlens_k_padded", std::move(plan.cu_seqlens_k_padded));
    made.add("max_seqlen_q", std::int64_t{plan.max_seqlen_q});
    made.add("max_seqlen_k", std::int64_t{plan.max_seqlen_k});
    made.add("segment", std::move(plan.segment));
    made.add("key_rows", std::move(key_rows));
  });
}

evenkeel_status evenkeel_tree_depth_first(const evenkeel_layout* layout, int64_t max_kept,
                                          evenkeel_arrays** arrays) {
  return create_arrays(arrays, [&](evenkeel_arrays& made) {
    const DepthFirstSchedule schedule = depth_first_schedule(
        tree_layout_of(layout), max_kept == INT64_MAX ? std::nullopt : std::optional(max_kept));
    add_schedule(made, schedule);
  });
}

evenkeel_status evenkeel_tree_predictions(const evenkeel_layout* layout, const int64_t* prompts,
                                          int64_t count, evenkeel_arrays** arrays) {
  return create_arrays(arrays, [&](evenkeel_arrays& made) {
    PredictionMap map = predictions(tree_layout_of(layout), array_of(prompts, count, "prompts"));
    made.add("offsets", std::move(map.offsets));
    made.add_mapped("rank", map.rank, [](CpRank rank) { return std::int32_t{rank.value()}; });
    made.add("row", std::move(map.row));
  });
}

evenkeel_status evenkeel_tree_block_mask(const evenkeel_layout* layout, int32_t cp_rank, int32_t keys,
                                         int64_t tile_queries, int64_t tile_keys, evenkeel_arrays** arrays) {
  return create_arrays(arrays, [&](evenkeel_arrays& made) {
    const TreeOnRank of(layout, cp_rank);
    BlockMask mask = block_mask(of.layout, of.rank, key_order_of(keys), {tile_queries, tile_keys});
    const auto add = [&](const char* counts_name, std::vector<std::int32_t> counts, const char* indices_name,
                         std::vector<std::int32_t> indices, std::int64_t rows, std::int64_t columns) {
      made.add(counts_name, std::move(counts), {1, 1, rows});
      made.add(indices_name, std::move(indices), {1, 1, rows, columns});
    };
    const std::int64_t m = mask.query_tiles;
    const std::int64_t n = mask.key_tiles;
    add("kv_num_blocks", std::move(mask.kv_num_blocks), "kv_indices", std::move(mask.kv_indices), m, n);
    add("full_kv_num_blocks", std::move(mask.full_kv_num_blocks), "full_kv_indices",
        std::move(mask.full_kv_indices), m, n);
    add("q_num_blocks", std::move(mask.q_num_blocks), "q_indices", std::move(mask.q_indices), n, m);
    add("full_q_num_blocks", std::move(mask.full_q_num_blocks), "full_q_indices",
        std::move(mask.full_q_indices), n, m);
  });
}

evenkeel_status evenkeel_tree_column_mask(const evenkeel_layout* layout, int32_t cp_rank, int32_t keys,
                                          evenkeel_arrays** arrays) {
  return create_arrays(arrays, [&](evenkeel_arrays& made) {
    const TreeOnRank of(layout, cp_rank);
    const ColumnIntervals columns = column_intervals(of.layout, of.rank, key_order_of(keys));
    std::size_t key = 0;
    add_pairs(made, "startend", columns.begin, [&](std::int32_t begin) {
      return RowRange{columns.end[key++], begin};
    });
  });
}

evenkeel_status evenkeel_tree_slices(const evenkeel_layout* layout, int32_t cp_rank, int32_t keys,
                                     evenkeel_arrays** arrays) {
  return create_arrays(arrays, [&](evenkeel_arrays& made) {
    const TreeOnRank of(layout, cp_rank);
    const std::vector<AttentionSlice> slices = attention_slices(of.layout, of.rank, key_order_of(keys));
    add_pairs(made, "q_ranges", slices, [](const AttentionSlice& slice) { return slice.queries; });
    add_pairs(made, "k_ranges", slices, [](const AttentionSlice& slice) { return slice.keys; });
    made.add_mapped("kinds", slices,
                    [](const AttentionSlice& slice) { return static_cast<std::int32_t>(slice.kind); });
  });
}

evenkeel_status evenkeel_tree_additive_mask(const evenkeel_layout* layout, int32_t cp_rank, int32_t keys,
                                            evenkeel_arrays** arrays) {
  return create_arrays(arrays, [&](evenkeel_arrays& made) {
    const TreeOnRank of(layout, cp_rank);
    made.add("mask", additive_mask(of.layout, of.rank, key_order_of(keys)),
             {of.layout.segments().local_rows(), of.layout.segments().num_rows()});
  });
}
