#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/cp_layout.hpp"
#include "evenkeel/pack/packed_layout.hpp"
#include "evenkeel/pack/padded.hpp"
#include "golden/families.hpp"
#include "golden/nested_lists.hpp"
#include "pack/derived_fields.hpp"
#include "pack/pack_rows.hpp"

namespace evenkeel::golden {
namespace {

Integers differences(const Integers& cumulative) {
  Integers lengths;
  for (std::size_t i = 1; i < cumulative.size(); ++i) lengths.push_back(cumulative[i] - cumulative[i - 1]);
  return lengths;
}

Integers pack(const PackedLayout& layout, CpRank rank, const Integers& ragged, std::int64_t pad) {
  Integers local(static_cast<std::size_t>(layout.local_rows()));
  pack_rows(layout, rank, std::as_bytes(std::span(ragged)), std::as_bytes(std::span(&pad, 1)),
            std::as_writable_bytes(std::span(local)));
  return local;
}

Integers position_ids(const PackedLayout& layout) {
  Integers positions(static_cast<std::size_t>(layout.local_rows()));
  derive_position_ids(layout, CpRank{0}, positions);
  return positions;
}

json preprocess(const json& input) {
  const Mask mask(input.at("attention_mask_1d"));
  const PackedLayout layout(mask.lengths(), input.at("tp_size"), {});
  const auto packed = [&](const char* field) {
    return json::array({pack(layout, CpRank{0}, mask.remove_padding_of(input.at(field)), 0)});
  };
  return {{"input_ids_packed", packed("input_ids")},
          {"labels_packed", packed("labels")},
          {"position_ids_packed", json::array({position_ids(layout)})},
          {"seqlens_in_batch", mask.lengths()},
          {"cu_seqlens_padded", layout.cu_seqlens_padded()}};
}

/// Returns the rows of each sequence to keep: all true ones, or those that predict its response.
std::vector<RowRange> kept_rows(const json& input) {
  const Integers lengths = input.at("seqlens_in_batch");
  if (!input.at("prompt_length").is_null()) {
    return response_prediction_rows(lengths, input.at("prompt_length").get<Integers>());
  }
  std::vector<RowRange> all;
  for (const std::int64_t length : lengths) all.push_back({0, length});
  return all;
}

json postprocess(const json& input) {
  const json& packed = input.at("output");
  if (packed.size() != 1)
    throw InputError("output", "has " + std::to_string(packed.size()) + " packed rows; it must have 1");
  const bool has_trailing = !packed[0].empty() && packed[0][0].is_array();
  const Integers aligned_lengths = differences(input.at("cu_seqlens_padded"));
  const std::int64_t seq_len = input.at("seq_len");
  std::vector<std::size_t> shape{aligned_lengths.size(), static_cast<std::size_t>(seq_len)};
  if (has_trailing) shape.push_back(packed[0][0].size());

  const std::size_t row_elements = has_trailing ? shape.back() : 1;
  const std::vector<double> rows = flatten<double>(packed);
  std::vector<double> padded(shape[0] * shape[1] * row_elements);
  pad_right(aligned_lengths, kept_rows(input), seq_len, row_elements * sizeof(double),
            std::as_bytes(std::span(rows)), {}, std::as_writable_bytes(std::span(padded)));
  return {{"output", nest<double>(padded, shape)}, {"shape", shape}};
}

json remove_padding_family(const json& input) {
  return input.at("op") == "preprocess" ? preprocess(input) : postprocess(input);
}

/// Returns the rows of each sequence in one CP rank's packed tensor.
json split_by_sequence(const PackedLayout& layout, const Integers& local) {
  json sequences = json::array();
  for (std::int64_t i = 0; i < layout.size(); ++i) {
    const RowRange range = layout.local_range(i);
    sequences.push_back(Integers(local.begin() + range.begin, local.begin() + range.end));
  }
  return sequences;
}

PackedLayout roll_layout(const json& input, const Integers& lengths, CpGroup cp, std::int64_t alignment) {
  const PackedLayout layout(lengths, alignment, cp);
  const json& total = input.at("pad_packed_seq_to");
  return total.is_null() ? layout : layout.padded_to(total);
}

json roll_pack_aligned(const json& input, CpGroup cp, std::int64_t alignment) {
  const Mask mask(input.at("attention_mask"));
  const PackedLayout layout = roll_layout(input, mask.lengths(), cp, alignment);
  const Integers tokens = mask.remove_padding_of(input.at("input_tensor"));
  json packed = json::array();
  json unpacked = json::array();
  for (int rank = 0; rank < cp.size; ++rank) {
    const Integers local = pack(layout, CpRank{rank}, tokens, input.at("pad_val"));
    packed.push_back(local);
    unpacked.push_back(split_by_sequence(layout, local));
  }
  return {{"packed_per_cp_rank", packed},
          {"unpacked_per_cp_rank", unpacked},
          {"cu_seqlens", layout.cu_seqlens()},
          {"cu_seqlens_padded", layout.cu_seqlens_padded()},
          {"max_seqlen", layout.max_seqlen()}};
}

/// The reference's factor is known even where its packing fails.
json roll_pack(const json& input) {
  const CpGroup cp{input.at("cp"), CpLayout::zigzag};
  const json& forced = input.at("align_override");
  const std::int64_t alignment =
      forced.is_null() ? sequence_alignment(input.at("tp"), cp, 16) : forced.get<std::int64_t>();
  json result;
  try {
    result = roll_pack_aligned(input, cp, alignment);
  } catch (const InputError& error) {
    result["error"] = error.what();
  }
  result["pad_factor"] = alignment;
  return result;
}

json partitioned_indices_per_rank(const json& input) {
  const std::vector<std::int32_t> cu_seqlens_padded = input.at("cu_seqlens_padded");
  const CpGroup cp{input.at("cp_size"), CpLayout::zigzag};
  json indices = json::array();
  for (int rank = 0; rank < cp.size; ++rank) {
    indices.push_back(partitioned_indices(cu_seqlens_padded, cp, CpRank{rank}));
  }
  return {{"te_kernel_indices", indices}, {"te_python_indices", indices}};
}

json cu_seqlens_per_rank(const json& input) {
  const std::vector<std::int32_t> cu_seqlens = input.at("cu_seqlens");
  const std::vector<std::int32_t> cu_seqlens_padded = input.at("cu_seqlens_padded");
  const int cp_size = input.at("cp_size");
  json ranks = json::array();
  for (int rank = 0; rank < cp_size; ++rank) {
    const CuSeqlensOnRank on = cu_seqlens_on_cp_rank(cu_seqlens, cu_seqlens_padded, cp_size, CpRank{rank});
    ranks.push_back({{"first", on.first}, {"second", on.second}, {"both", on.both}});
  }
  return {{"cu_seqlens_on_cp_rank", ranks}};
}

json pad_thd(const json& input) {
  const PackedLayout layout(differences(input.at("cu_seqlens")), input.at("divisibility_factor"), {});
  return {{"input_ids_padded", pack(layout, CpRank{0}, input.at("input_ids"), input.at("padding_token_id"))},
          {"labels_padded", pack(layout, CpRank{0}, input.at("labels"), input.at("padding_label_id"))},
          {"cu_seqlens_padded", layout.cu_seqlens_padded()},
          {"position_ids_padded", position_ids(layout)}};
}

/// Sequences of equal length, each split separately: one [b, s / cp] tensor per rank.
json per_sequence_zigzag(const json& input) {
  const json& tokens = input.at("tokens");
  const CpGroup cp{input.at("cp_size"), CpLayout::zigzag};
  Integers lengths;
  for (const json& sequence : tokens) lengths.push_back(static_cast<std::int64_t>(sequence.size()));
  const PackedLayout layout(lengths, cp.chunks(), cp);
  json ranks = json::array();
  for (int rank = 0; rank < cp.size; ++rank) {
    ranks.push_back(split_by_sequence(layout, pack(layout, CpRank{rank}, flatten<std::int64_t>(tokens), 0)));
  }
  return {{"tokens_per_cp_rank", ranks}};
}

json cp_thd_indices(const json& input) {
  static const std::map<std::string, Family> operations{
      {"partitioned_indices", partitioned_indices_per_rank},
      {"cu_seqlens_on_cp_rank", cu_seqlens_per_rank},
      {"pad_thd", pad_thd},
      {"megatron_per_sequence_zigzag", per_sequence_zigzag}};
  return operations.at(input.at("op"))(input);
}

}  // namespace

std::map<std::string, Family> pack_families() {
  return {{"remove_padding", remove_padding_family},
          {"roll_pack", roll_pack},
          {"cp_thd_indices", cp_thd_indices}};
}

}  // namespace evenkeel::golden
