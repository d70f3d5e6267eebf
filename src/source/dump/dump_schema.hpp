#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/grid.hpp"
#include "evenkeel/batch/field.hpp"
#include "evenkeel/pack/cp_layout.hpp"
#include "io/samples/tensor_file.hpp"

namespace evenkeel {

/// A field that the samples of a dump bring.
struct DumpedField {
  FieldSpec spec;  ///< of whole rows, with all layers, of the type that was delivered
  /// The layers that the file's pipeline stage has, in this order; none where rows are not split by layers.
  std::optional<std::vector<std::int64_t>> layers{};
  /// The field of token ranges that says which rows each context-parallel rank has; empty: all have all.
  std::string cut_by{};

  friend bool operator==(const DumpedField&, const DumpedField&) = default;
};

/// Which ranks run a micro-batch together, and which of the micro-batches of that group it is.
struct DumpedContext {
  std::int64_t first = 0;  ///< the place along dp and cp (DataPlace) of its first rank
  std::int64_t size = 1;
  std::int64_t rank = 0;
  std::int64_t number = 0;  ///< counts those that the same group runs in the step

  friend auto operator<=>(const DumpedContext&, const DumpedContext&) = default;
};

/// What every file of a dump says of itself and of the job that wrote it, in its metadata, so that whoever
/// reads it back has nothing to infer. docs/formats.md describes it.
struct DumpSchema {
  static constexpr std::string_view metadata_name = "evenkeel_dump";
  static constexpr std::int64_t current_format = 1;

  std::int64_t step = 0;
  std::int64_t samples = 0;  ///< of the step, over all ranks
  std::string profile;       ///< of the pass
  bool flexible = false;     ///< mesh.cp: flexible, where each micro-batch has a group of its own
  GridPoint mesh{1, 1, 1, 1};
  GridPoint place;                 ///< of the rank that wrote the file
  std::int64_t writers = 1;        ///< the ranks that write to the same folder; nodes may have one each
  std::int64_t micro_batches = 1;  ///< of this rank in this step, and so its files
  std::int64_t micro_batch = 0;    ///< which of them this is
  DumpedContext context;
  CpLayout cut = CpLayout::zigzag;
  std::vector<DumpedField> fields;                   ///< by name, without input_ids
  std::vector<std::int64_t> prompts;                 ///< prompt tokens of each sample in the file
  std::vector<std::optional<std::uint64_t>> groups;  ///< of each sample; none: a group of its own
};

[[nodiscard]] std::string text_of(const DumpSchema& schema);

/// Throws InputError that names the file where it has no such metadata, or none that text_of() makes.
[[nodiscard]] DumpSchema schema_of(const TensorFile& file);

}  // namespace evenkeel
