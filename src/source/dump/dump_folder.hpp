#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "evenkeel/base/grid.hpp"
#include "source/dump/dump_schema.hpp"

namespace evenkeel {

/// One CP rank's part of a micro-batch in a dump, stored in one file per pipeline stage.
struct DumpedPart {
  std::int64_t step = 0;
  std::int64_t samples = 0;  ///< number of samples in the step, over all ranks
  /// Number of the micro-batch among the rank's micro-batches in this step; also the number in the file's
  /// name.
  std::int64_t number = 0;
  std::int32_t place = 0;  ///< place of the rank along dp and cp (DataPlace)
  std::int32_t cp = 0;     ///< size of the mesh along cp; 0 if context groups may have different sizes
  std::int32_t stages = 1;
  std::int32_t size = 1;  ///< number of parts of the micro-batch: the size of its context group
};

/// Half-open range of the steps of a dump.
struct DumpedSteps {
  std::int64_t first = 0;
  std::int64_t end = 0;
};

/// Returns the path of a part's file for a pipeline stage, as written by the first tensor-parallel rank.
[[nodiscard]] std::filesystem::path dumped_file_path(const std::filesystem::path& folder,
                                                     const DumpedPart& part, std::int64_t stage);

/// Returns the path of the marker file, which identifies the run that owns the folder and states whether this
/// run has ended. If the run has several profiles, the marker file is in the parent folder. Throws IoError if
/// the folder does not exist, and InputError if it is a file or has no marker file.
[[nodiscard]] std::filesystem::path dump_marker(const std::filesystem::path& folder);

/// Returns the steps of a dump. Throws IoError if the folder does not exist. Throws InputError if the folder
/// does not contain a dump; if its run has failed, has not ended or has not written any step; or if the
/// folder contains several dumps, one per profile.
[[nodiscard]] DumpedSteps steps_of_dump(const std::filesystem::path& folder);

/// Returns the schema in the first existing file of a step. Throws InputError naming a file if the step has
/// no files, or if a file has no valid schema for its location.
[[nodiscard]] DumpSchema schema_of_step(const std::filesystem::path& folder, std::int64_t step);

/// Returns the parts of all micro-batches of a step. The parts of one micro-batch are consecutive, in the
/// order of its CP ranks. Checks that every file that the step's ranks should have written exists, and reads
/// at most one header per part. Throws InputError naming the first missing file.
[[nodiscard]] std::vector<DumpedPart> list_dumped_parts(const std::filesystem::path& folder,
                                                        std::int64_t step);

/// Throws InputError if the file's schema does not match its location. This happens if a file was moved.
void require_matching_place(const DumpSchema& schema, const DumpedPart& part, std::int64_t stage,
                            const std::string& path);

/// Returns `prefix` followed by `number`, zero-padded to `digits` digits, such as step-000012.
[[nodiscard]] inline std::string numbered_name(const char* prefix, std::int64_t number, std::size_t digits) {
  std::string text = std::to_string(number);
  if (text.size() < digits) text.insert(0, digits - text.size(), '0');
  return prefix + text;
}

/// Returns the folder of a place along dp and cp: DIR/step-000000/dp-000/cp-000, or DIR/step-000000/data-000
/// if context groups may have different sizes.
[[nodiscard]] inline std::filesystem::path dumped_place_folder(const std::filesystem::path& dir,
                                                               std::int64_t step, const GridPoint& place,
                                                               bool flexible) {
  const std::filesystem::path of_step = dir / numbered_name("step-", step, 6);
  if (flexible) return of_step / numbered_name("data-", place.dp, 3);
  return of_step / numbered_name("dp-", place.dp, 3) / numbered_name("cp-", place.cp, 3);
}

/// Returns the folder of one rank's micro-batches inside the folder of its place: tp-000/pp-000.
[[nodiscard]] inline std::filesystem::path dumped_rank_folder(std::int64_t tp, std::int64_t pp) {
  return std::filesystem::path(numbered_name("tp-", tp, 3)) / numbered_name("pp-", pp, 3);
}

[[nodiscard]] inline std::string dumped_file_name(std::int64_t micro_batch) {
  return numbered_name("mb-", micro_batch, 5) + ".safetensors";
}

}  // namespace evenkeel
