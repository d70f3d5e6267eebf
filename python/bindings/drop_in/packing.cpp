// Where tokens stand in packed tensors and in context-parallel shares, as index arrays for torch: it moves
// the tokens, on any device and with gradients.

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <array>
#include <optional>
#include <span>

#include "bindings/arrays.hpp"
#include "bindings/drop_in/drop_in.hpp"
#include "bindings/layout.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/packed_layout.hpp"
#include "evenkeel/pack/padded.hpp"
#include "pack/mindspeed_cp.hpp"

namespace evenkeel::python {
namespace py = pybind11;
namespace {

using Numbers = std::vector<std::int64_t>;

PackedLayout layout_of(const Numbers& lengths, std::int64_t alignment, int cp_size,
                       std::optional<std::int64_t> rows) {
  const PackedLayout layout(lengths, alignment, {cp_size, CpLayout::zigzag});
  return rows ? layout.padded_to(*rows) : layout;
}

/// Of one CP rank: (the number of each true token among all of them back to back, its row in the rank's
/// packed tensor, the tensor's rows, cu_seqlens, cu_seqlens_padded, max_seqlen).
py::tuple packed_rows(py::handle lengths, std::int64_t alignment, int cp_size, int cp_rank,
                      std::optional<std::int64_t> rows) {
  const PackedLayout layout = layout_of(whole_numbers(lengths, "lengths"), alignment, cp_size, rows);
  Numbers tokens;
  Numbers packed;
  for (const PackedRun& run : packed_runs(layout, checked_rank(layout.cp(), cp_rank))) {
    const std::int64_t first = layout.cu_seqlens()[static_cast<std::size_t>(run.index)] + run.sequence.begin;
    for (std::int64_t i = 0; i < run.sequence.size(); ++i) {
      tokens.push_back(first + i);
      packed.push_back(run.local + i);
    }
  }
  return py::make_tuple(array_of(std::move(tokens)), array_of(std::move(packed)), layout.local_rows(),
                        copy_of(layout.cu_seqlens()), copy_of(layout.cu_seqlens_padded()),
                        layout.max_seqlen());
}

/// [begin, end) of the rows that predict each response; begin is -1 where nothing predicts its first token.
py::list prediction_rows(py::handle lengths, py::handle prompt_lengths) {
  py::list rows;
  for (const RowRange& range : response_prediction_rows(whole_numbers(lengths, "seqlens_in_batch"),
                                                        whole_numbers(prompt_lengths, "prompt_length")))
    rows.append(py::make_tuple(range.begin, range.end));
  return rows;
}

MindSpeedCpAlgorithm algorithm_of(const std::string& word) {
  constexpr std::array known{std::pair{"megatron_cp_algo", MindSpeedCpAlgorithm::ring},
                             std::pair{"ulysses_cp_algo", MindSpeedCpAlgorithm::ulysses},
                             std::pair{"hybrid_cp_algo", MindSpeedCpAlgorithm::hybrid}};
  for (const auto& [name, algorithm] : known) {
    if (word == name) return algorithm;
  }
  throw InputError("context_parallel_algo",
                   "is '" + word + "'; it can be megatron_cp_algo, ulysses_cp_algo or hybrid_cp_algo");
}

void bind_context_parallel(py::module_& module) {
  py::class_<MindSpeedCp>(module, "MindSpeedCp")
      .def(py::init([](int size, const std::string& algorithm, int ulysses_degree, bool cut_each_sequence) {
             return MindSpeedCp{size, algorithm_of(algorithm), ulysses_degree, cut_each_sequence};
           }),
           py::arg("size"), py::arg("algorithm"), py::arg("ulysses_degree"), py::arg("cut_each_sequence"))
      .def("ring_degree", &ring_degree)
      .def(
          "columns",
          [](const MindSpeedCp& self, std::int64_t columns, py::handle ends, int rank) {
            return array_of(mindspeed_columns(self, columns, whole_numbers(ends, "actual_seq_len"),
                                              checked_rank(CpGroup{self.size}, rank)));
          },
          py::arg("columns"), py::arg("sequence_ends"), py::arg("cp_rank"));
}

}  // namespace

void bind_drop_in_packing(py::module_& module) {
  module.def(
      "sequence_alignment",
      [](int tp_size, int cp_size, std::int64_t extra) {
        return sequence_alignment(tp_size, {cp_size, CpLayout::zigzag}, extra);
      },
      py::arg("tp_size"), py::arg("cp_size"), py::arg("extra"));
  module.def("packed_rows", &packed_rows, py::arg("lengths"), py::arg("alignment"), py::arg("cp_size"),
             py::arg("cp_rank"), py::arg("rows"));
  module.def("prediction_rows", &prediction_rows, py::arg("lengths"), py::arg("prompt_lengths"));
  bind_context_parallel(module);
}

}  // namespace evenkeel::python
