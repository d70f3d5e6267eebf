#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "evenkeel/base/grid.hpp"
#include "source/dump/dump_schema.hpp"

namespace evenkeel {

/// One rank's part of a micro-batch of a dump: its files, one a pipeline stage.
struct DumpedPart {
  std::int64_t step = 0;
  std::int64_t samples = 0;  ///< of the step, over all ranks
  std::int64_t number = 0;   ///< of the file in its folder
  std::int32_t place = 0;    ///< along dp and cp
  std::int32_t cp = 0;       ///< of the mesh; 0 where groups have sizes of their own
  std::int32_t stages = 1;
  std::int32_t size = 1;  ///< the parts of the micro-batch, which follow each other
};

/// The steps of a dump: those from `first` on, up to `end`.
struct DumpedSteps {
  std::int64_t first = 0;
  std::int64_t end = 0;
};

/// The file of one part, as the first tensor-parallel rank wrote it.
[[nodiscard]] std::filesystem::path dumped_file(const std::filesystem::path& folder, const DumpedPart& part,
                                                std::int64_t stage);

/// The file that tells whose the folder is and whether its run has ended; with several profiles it lies in
/// the folder above theirs.
[[nodiscard]] std::filesystem::path dump_marker(const std::filesystem::path& folder);

/// Throws InputError where no run wrote a dump there, the run has not ended, it wrote no step, or the folder
/// has one for each profile and this is not one of them.
[[nodiscard]] DumpedSteps steps_of_dump(const std::filesystem::path& folder);

/// What the first file of a step that there is says. Throws InputError that names a file that is missing.
[[nodiscard]] DumpSchema schema_of_step(const std::filesystem::path& folder, std::int64_t step);

/// All micro-batches of a step, part by part. Looks for every file that the ranks of the step wrote, and
/// reads the headers of one a part. Throws InputError that names the first that is missing.
[[nodiscard]] std::vector<DumpedPart> list_dumped_step(const std::filesystem::path& folder,
                                                       std::int64_t step);

/// Throws InputError unless the file says that it is this one, which a file that was moved does not.
void require_is(const DumpSchema& schema, const DumpedPart& part, std::int64_t stage,
                const std::string& path);

/// `prefix` and `number` with at least `digits` digits, such as step-000012.
[[nodiscard]] inline std::string numbered_name(const char* prefix, std::int64_t number, std::size_t digits) {
  std::string text = std::to_string(number);
  if (text.size() < digits) text.insert(0, digits - text.size(), '0');
  return prefix + text;
}

/// The folder of a place along dp and cp: DIR/step-000000/dp-000/cp-000, or DIR/step-000000/data-000 where
/// micro-batches have groups of their own.
[[nodiscard]] inline std::filesystem::path dumped_place(const std::filesystem::path& dir, std::int64_t step,
                                                        const GridPoint& place, bool flexible) {
  const std::filesystem::path of_step = dir / numbered_name("step-", step, 6);
  if (flexible) return of_step / numbered_name("data-", place.dp, 3);
  return of_step / numbered_name("dp-", place.dp, 3) / numbered_name("cp-", place.cp, 3);
}

/// The folder of one rank's micro-batches, inside that of its place: tp-000/pp-000.
[[nodiscard]] inline std::filesystem::path dumped_copy(std::int64_t tp, std::int64_t pp) {
  return std::filesystem::path(numbered_name("tp-", tp, 3)) / numbered_name("pp-", pp, 3);
}

[[nodiscard]] inline std::string dumped_name(std::int64_t micro_batch) {
  return numbered_name("mb-", micro_batch, 5) + ".safetensors";
}

}  // namespace evenkeel
