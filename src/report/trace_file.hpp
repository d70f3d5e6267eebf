#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/base/grid.hpp"
#include "io/files/appended_file.hpp"
#include "page/step_picture.hpp"

namespace evenkeel {

/// What one rank did for one pass over a step, in seconds of the common clock. Copied byte for byte.
struct RankTrace {
  /// Bytes that went to a rank.
  struct Sent {
    std::int64_t rank = -1;  ///< none
    std::int64_t bytes = 0;
  };
  static constexpr std::size_t most_sent = 16;

  double made_at = 0;                  ///< when the step was ready
  PhaseTimes phases{};                 ///< that it took, one after the other
  std::int64_t made_ahead = 0;         ///< not 0: by a thread of its own, beside the trainer
  double asked_at = 0;                 ///< when the trainer asked for it,
  double handed_at = 0;                ///< got it,
  double used_at = 0;                  ///< and had used it
  std::array<Sent, most_sent> sent{};  ///< to the ranks that got most
  std::int64_t sent_to = 0;            ///< to how many ranks
  std::int64_t sent_bytes = 0;         ///< to all ranks but itself
};

/// A trace in Chrome's event format, which Perfetto opens: a process a rank, with a track for making steps
/// and one for the trainer. Written step after step, so that it takes no memory; a trace that was cut short
/// opens as well. Local.
class TraceFile {
 public:
  TraceFile(const std::filesystem::path& path, const Grid& grid);

  /// `ranks` has one a rank.
  void add(std::int64_t step, const std::string& profile, std::span<const RankTrace> ranks);
  /// Call once, last.
  void close();

 private:
  AppendedFile file_;
  std::int64_t flows_ = 0;
};

}  // namespace evenkeel
