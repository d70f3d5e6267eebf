#include "bindings/attention_masks.hpp"

#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "base/narrow.hpp"
#include "bindings/arrays.hpp"
#include "bindings/layout.hpp"
#include "bindings/words.hpp"

namespace evenkeel::python {
namespace py = pybind11;
namespace {

constexpr std::array key_orders{
    Word<KeyOrder>{KeyOrder::packed, "packed"},
    Word<KeyOrder>{KeyOrder::gathered, "gathered"},
};

/// make(rank, order) without the GIL.
template <typename Make>
auto made(const PackedTreeLayout& layout, int cp_rank, std::string_view keys, Make make) {
  const CpRank rank = checked_rank(layout.segments().cp(), cp_rank);
  const KeyOrder order = value_of(key_orders, keys, "keys");
  const py::gil_scoped_release release;
  return make(rank, order);
}

/// Two numbers of each, side by side: [size, 2] int32.
template <typename List, typename Pair>
py::array pairs_of(const List& list, Pair pair) {
  std::vector<std::int32_t> values;
  values.reserve(2 * list.size());
  for (const auto& each : list) {
    const RowRange range = pair(each);
    values.push_back(narrow<std::int32_t>(range.begin, "row"));
    values.push_back(narrow<std::int32_t>(range.end, "row"));
  }
  return array_of(std::move(values)).reshape({static_cast<py::ssize_t>(list.size()), py::ssize_t{2}});
}

py::array startend_row_indices(const PackedTreeLayout& layout, int cp_rank, std::string_view keys) {
  const ColumnIntervals columns = made(layout, cp_rank, keys, [&](CpRank rank, KeyOrder order) {
    return column_intervals(layout, rank, order);
  });
  std::size_t key = 0;
  return pairs_of(columns.begin, [&](std::int32_t begin) { return RowRange{columns.end[key++], begin}; });
}

py::dict block_mask_of(const PackedTreeLayout& layout, int cp_rank, std::string_view keys,
                       std::pair<std::int64_t, std::int64_t> block_size) {
  BlockMask mask = made(layout, cp_rank, keys, [&](CpRank rank, KeyOrder order) {
    return block_mask(layout, rank, order, {block_size.first, block_size.second});
  });
  const py::ssize_t m = mask.query_tiles;
  const py::ssize_t n = mask.key_tiles;
  py::dict tensors;
  const auto add = [&](const char* counts_name, std::vector<std::int32_t> counts, const char* indices_name,
                       std::vector<std::int32_t> indices, py::ssize_t rows, py::ssize_t columns) {
    tensors[counts_name] = array_of(std::move(counts)).reshape({py::ssize_t{1}, py::ssize_t{1}, rows});
    tensors[indices_name] =
        array_of(std::move(indices)).reshape({py::ssize_t{1}, py::ssize_t{1}, rows, columns});
  };
  add("kv_num_blocks", std::move(mask.kv_num_blocks), "kv_indices", std::move(mask.kv_indices), m, n);
  add("full_kv_num_blocks", std::move(mask.full_kv_num_blocks), "full_kv_indices",
      std::move(mask.full_kv_indices), m, n);
  add("q_num_blocks", std::move(mask.q_num_blocks), "q_indices", std::move(mask.q_indices), n, m);
  add("full_q_num_blocks", std::move(mask.full_q_num_blocks), "full_q_indices",
      std::move(mask.full_q_indices), n, m);
  return tensors;
}

py::tuple slices_of(const PackedTreeLayout& layout, int cp_rank, std::string_view keys) {
  const std::vector<AttentionSlice> slices = made(layout, cp_rank, keys, [&](CpRank rank, KeyOrder order) {
    return attention_slices(layout, rank, order);
  });
  std::vector<std::int32_t> kinds;
  kinds.reserve(slices.size());
  for (const AttentionSlice& slice : slices) kinds.push_back(static_cast<std::int32_t>(slice.kind));
  return py::make_tuple(pairs_of(slices, [](const AttentionSlice& slice) { return slice.queries; }),
                        pairs_of(slices, [](const AttentionSlice& slice) { return slice.keys; }),
                        array_of(std::move(kinds)));
}

py::array additive_mask_of(const PackedTreeLayout& layout, int cp_rank, std::string_view keys) {
  std::vector<float> mask = made(
      layout, cp_rank, keys, [&](CpRank rank, KeyOrder order) { return additive_mask(layout, rank, order); });
  return array_of(std::move(mask)).reshape({layout.segments().local_rows(), layout.segments().num_rows()});
}

}  // namespace

void bind_attention_masks(py::class_<PackedTreeLayout>& layout) {
  layout
      .def("block_mask", &block_mask_of, py::kw_only(), py::arg("cp_rank") = 0, py::arg("keys") = "packed",
           py::arg("block_size") = std::pair<std::int64_t, std::int64_t>{128, 128},
           R"(FlexAttention's mask of a CP rank: the eight int32 tensors of torch's BlockMask, by name.

Queries are the rank's rows, keys all rows of the micro-batch: ``packed``, one segment after the other, or ``gathered``,
the rows of one CP rank after those of another. ``block_size`` is (queries, keys) of a tile. Pass the arrays to
``BlockMask`` with a ``mask_mod`` that compares ``ancestor_intervals()``: it is asked in partial tiles alone.)")
      .def("startend_row_indices", &startend_row_indices, py::kw_only(), py::arg("cp_rank") = 0,
           py::arg("keys") = "packed",
           "FlashMask's mask of a CP rank, without ``causal``: for every key the first row below that is "
           "masked, and the end of those above: [keys, 2] int32.")
      .def("attention_slices", &slices_of, py::kw_only(), py::arg("cp_rank") = 0, py::arg("keys") = "packed",
           "MagiAttention's mask of a CP rank: q_ranges [n, 2], k_ranges [n, 2] and attn_type_map [n], all "
           "int32; 0 is full, 1 is causal. Slices do not overlap.")
      .def("additive_mask", &additive_mask_of, py::kw_only(), py::arg("cp_rank") = 0,
           py::arg("keys") = "packed",
           "0 where a query sees a key, minus infinity elsewhere: [queries, keys] float32. For small ones.");
}

}  // namespace evenkeel::python
