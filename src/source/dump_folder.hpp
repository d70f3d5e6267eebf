#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace evenkeel {

/// Which micro-batches a dump holds (`evenkeel run --dump`), and from how many context-parallel ranks.
struct DumpFolder {
  /// One of a DP rank.
  struct MicroBatch {
    std::int64_t step = 0;
    std::int64_t dp = 0;
    std::int64_t number = 0;
  };
  std::vector<MicroBatch> micro_batches;  ///< by step, DP rank and number
  std::int64_t cp = 1;
  std::int64_t stage = 0;  ///< the last pipeline stage, which has every field
};

/// The file of one micro-batch of the first tensor-parallel rank.
[[nodiscard]] std::filesystem::path dumped_file(const std::filesystem::path& folder,
                                                const DumpFolder::MicroBatch& micro_batch, std::int64_t cp,
                                                std::int64_t stage);

/// The file that tells whose the folder is and whether its run has ended; with several profiles it lies in
/// the folder above theirs.
[[nodiscard]] std::filesystem::path dump_marker(const std::filesystem::path& folder);

/// Looks into the folder, by names alone. Throws InputError where no run wrote a dump there, the run has not
/// ended, it has a folder a profile and this is not one of them, or files are missing, with the first of
/// them.
[[nodiscard]] DumpFolder list_dump(const std::filesystem::path& folder);

}  // namespace evenkeel
