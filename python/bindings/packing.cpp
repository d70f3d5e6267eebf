// Rows into packed, cut tensors and back, and what follows from tokens (src/pack: pack_rows.hpp,
// derived_fields.hpp). All take C-contiguous arrays whose first dimension is rows, and write into arrays that
// Python has made.

#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/bindings.hpp"
#include "bindings/layout.hpp"
#include "evenkeel/base/error.hpp"
#include "pack/derived_fields.hpp"
#include "pack/pack_rows.hpp"

namespace evenkeel::python {
namespace py = pybind11;
namespace {

void require_threads(std::int64_t threads) {
  if (threads < 1) throw InputError("threads", std::to_string(threads) + " is below 1");
}

void pack_one(const PackedLayout& layout, int cp_rank, const py::array& ragged, const py::array& pad_row,
              py::array local, std::int64_t threads) {
  const CpRank rank = checked_rank(layout.cp(), cp_rank);
  require_threads(threads);
  const auto source = bytes_of(ragged, "values");
  const auto pad = bytes_of(pad_row, "pad");
  const auto target = writable_bytes_of(local, "out");
  const py::gil_scoped_release release;
  pack_rows(layout, rank, source, pad, target, threads);
}

void pack_parts(const PackedLayout& layout, int cp_rank, const std::vector<py::array>& sequences,
                const py::array& pad_row, py::array local, std::int64_t threads) {
  const CpRank rank = checked_rank(layout.cp(), cp_rank);
  require_threads(threads);
  std::vector<std::span<const std::byte>> sources;
  for (const py::array& sequence : sequences)
    sources.push_back(bytes_of(sequence, "values[" + std::to_string(sources.size()) + "]"));
  const auto pad = bytes_of(pad_row, "pad");
  const auto target = writable_bytes_of(local, "out");
  const py::gil_scoped_release release;
  pack_sequences(layout, rank, sources, pad, target, threads);
}

void pack_all(const PackedLayout& layout, const py::array& ragged, const py::array& pad_row,
              std::vector<py::array> locals, std::int64_t threads) {
  require_threads(threads);
  const auto source = bytes_of(ragged, "values");
  const auto pad = bytes_of(pad_row, "pad");
  std::vector<std::span<std::byte>> targets;
  for (py::array& local : locals) targets.push_back(writable_bytes_of(local, "out"));
  const py::gil_scoped_release release;
  pack_all_ranks(layout, source, pad, targets, threads);
}

void unpack_one(const PackedLayout& layout, int cp_rank, const py::array& local, py::array ragged,
                std::int64_t threads) {
  const CpRank rank = checked_rank(layout.cp(), cp_rank);
  require_threads(threads);
  const auto source = bytes_of(local, "local");
  const auto target = writable_bytes_of(ragged, "out");
  const py::gil_scoped_release release;
  unpack_rows(layout, rank, source, target, threads);
}

void merge_all(const PackedLayout& layout, const std::vector<py::array>& locals, py::array ragged,
               std::int64_t threads) {
  require_threads(threads);
  std::vector<std::span<const std::byte>> sources;
  for (const py::array& local : locals) sources.push_back(bytes_of(local, "locals"));
  const auto target = writable_bytes_of(ragged, "out");
  const py::gil_scoped_release release;
  unpack_all_ranks(layout, sources, target, threads);
}

void fill_padding_rows(const PackedLayout& layout, int cp_rank, const py::array& pad_row, py::array local) {
  const CpRank rank = checked_rank(layout.cp(), cp_rank);
  const auto pad = bytes_of(pad_row, "pad");
  const auto target = writable_bytes_of(local, "local");
  const py::gil_scoped_release release;
  fill_pad_rows(layout, rank, pad, target);
}

py::array_t<std::int64_t> positions(const PackedLayout& layout, int cp_rank) {
  const CpRank rank = checked_rank(layout.cp(), cp_rank);
  std::vector<std::int64_t> positions(static_cast<std::size_t>(layout.local_rows()));
  derive_position_ids(layout, rank, positions);
  return array_of(std::move(positions));
}

/// The token after each run of a rank, out of the tokens of all ranks; 0 where a run ends its sequence.
std::vector<std::int64_t> tokens_after_runs(const PackedLayout& layout, CpRank rank,
                                            std::span<const std::int64_t> tokens) {
  std::vector<std::int64_t> after;
  for (const PackedRun& run : packed_runs(layout, rank)) {
    const std::int64_t next = layout.cu_seqlens()[static_cast<std::size_t>(run.index)] + run.sequence.end;
    const bool ends = run.sequence.end == layout.length(run.index);
    after.push_back(ends ? 0 : tokens[static_cast<std::size_t>(next)]);
  }
  return after;
}

void labels(const PackedLayout& layout, int cp_rank, const py::array& ragged, std::int64_t label_pad,
            py::array out) {
  const CpRank rank = checked_rank(layout.cp(), cp_rank);
  const auto tokens = values_of<std::int64_t>(ragged, "tokens");
  const auto target = writable_values_of<std::int64_t>(out, "out");
  if (std::ssize(tokens) != layout.num_tokens())
    throw InputError("tokens", "there are " + std::to_string(tokens.size()) + "; the layout has " +
                                   std::to_string(layout.num_tokens()));
  const py::gil_scoped_release release;
  std::vector<std::int64_t> local(static_cast<std::size_t>(layout.local_rows()));
  pack_rows(layout, rank, std::as_bytes(tokens), {}, std::as_writable_bytes(std::span(local)));
  derive_labels(layout, rank, local, tokens_after_runs(layout, rank, tokens), label_pad, target);
}

py::array_t<float> mask_of_responses(const PackedLayout& layout, py::handle prompts, int cp_rank) {
  const CpRank rank = checked_rank(layout.cp(), cp_rank);
  std::vector<float> mask(static_cast<std::size_t>(layout.local_rows()));
  derive_loss_mask(layout, rank, integers_of(prompts, "prompt_lengths"), mask);
  return array_of(std::move(mask));
}

py::array_t<float> weights_of_rows(const PackedLayout& layout, const py::array& token_weights,
                                   const py::array& mask) {
  std::vector<float> weights(static_cast<std::size_t>(layout.local_rows()));
  const std::span<const std::byte> set = bytes_of(mask, "mask");
  derive_loss_weights(layout, values_of<double>(token_weights, "token_weights"),
                      {reinterpret_cast<const std::uint8_t*>(set.data()), set.size()}, weights);
  return array_of(std::move(weights));
}

}  // namespace

void bind_packing(py::module_& module) {
  const auto whole = py::arg("values").noconvert();
  module.def("pack", &pack_one, py::arg("layout"), py::arg("cp_rank"), whole, py::arg("pad").noconvert(),
             py::arg("out").noconvert(), py::arg("threads"));
  module.def("pack_sequences", &pack_parts, py::arg("layout"), py::arg("cp_rank"),
             py::arg("sequences").noconvert(), py::arg("pad").noconvert(), py::arg("out").noconvert(),
             py::arg("threads"));
  module.def("pack_all", &pack_all, py::arg("layout"), whole, py::arg("pad").noconvert(),
             py::arg("outs").noconvert(), py::arg("threads"));
  module.def("unpack", &unpack_one, py::arg("layout"), py::arg("cp_rank"), py::arg("local").noconvert(),
             py::arg("out").noconvert(), py::arg("threads"));
  module.def("merge", &merge_all, py::arg("layout"), py::arg("locals").noconvert(),
             py::arg("out").noconvert(), py::arg("threads"));
  module.def("fill_padding", &fill_padding_rows, py::arg("layout"), py::arg("cp_rank"),
             py::arg("pad").noconvert(), py::arg("local").noconvert());
  module.def("position_ids", &positions, py::arg("layout"), py::arg("cp_rank"));
  module.def("labels", &labels, py::arg("layout"), py::arg("cp_rank"), py::arg("tokens").noconvert(),
             py::arg("label_pad"), py::arg("out").noconvert());
  module.def("loss_weights", &weights_of_rows, py::arg("layout"), py::arg("token_weights").noconvert(),
             py::arg("mask").noconvert());
  module.def("loss_mask", &mask_of_responses, py::arg("layout"), py::arg("prompt_lengths"),
             py::arg("cp_rank"));
}

}  // namespace evenkeel::python
