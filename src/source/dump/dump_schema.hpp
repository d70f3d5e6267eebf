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
#include "io/safetensors/tensor_file.hpp"

namespace evenkeel {

/// A field of the samples in a dump.
struct DumpedField {
  FieldSpec spec;  ///< spec of complete rows, with all layers and the delivered type
  /// Layers stored in this file, which are those of its pipeline stage, in stored order; unset if rows are
  /// not split by layers.
  std::optional<std::vector<std::int64_t>> layers{};
  /// Name of the field with the token ranges that determine the rows of each CP rank; empty if every CP rank
  /// has all rows.
  std::string cut_by{};

  friend bool operator==(const DumpedField&, const DumpedField&) = default;
};

/// A rank's file in terms of the context group that runs its micro-batch: the group, the rank's position in
/// the group, and the micro-batch's number.
struct DumpedContext {
  std::int64_t first = 0;  ///< place along dp and cp (DataPlace) of the group's first rank
  std::int64_t size = 1;
  std::int64_t rank = 0;
  std::int64_t number = 0;  ///< index among the group's micro-batches in the step

  friend auto operator<=>(const DumpedContext&, const DumpedContext&) = default;
};

/// Description of a dump's file and of the job that wrote it, stored in the file's metadata, so that readers
/// need not infer anything. See docs/formats.md.
struct DumpSchema {
  static constexpr std::string_view metadata_name = "evenkeel_dump";
  static constexpr std::int64_t current_format = 1;

  std::int64_t step = 0;
  std::int64_t samples = 0;  ///< number of samples in the step, over all ranks
  std::string profile;       ///< name of the profile with which the step was planned
  bool flexible = false;     ///< whether mesh.cp is flexible, so micro-batches may have different groups
  GridPoint mesh{1, 1, 1, 1};
  GridPoint place;  ///< coordinates in the mesh of the rank that wrote the file
  /// Number of ranks that write to the same folder. May be less than the number of all ranks, since nodes may
  /// have separate folders.
  std::int64_t writers = 1;
  std::int64_t micro_batches = 1;  ///< number of this rank's files in this step
  std::int64_t micro_batch = 0;    ///< index of this file among the rank's files in this step
  DumpedContext context;
  CpLayout cut = CpLayout::zigzag;
  std::vector<DumpedField> fields;    ///< fields in the file, sorted by name, without input_ids
  std::vector<std::int64_t> prompts;  ///< number of prompt tokens of each sample in the file
  /// Group of each sample; unset for samples that form their own groups.
  std::vector<std::optional<std::uint64_t>> groups;
};

[[nodiscard]] std::string text_of(const DumpSchema& schema);

/// Throws InputError naming the file if its metadata has no valid dump schema.
[[nodiscard]] DumpSchema parse_dump_schema(const TensorFile& file);

}  // namespace evenkeel
