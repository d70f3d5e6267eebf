#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "evenkeel/base/assertions.hpp"

namespace evenkeel {

/// An integer that cannot be confused with integers of other meanings: a DP rank is not a world rank, and a
/// sample's number is not a position in a vector. Converts explicitly from an integer and, with `value()`, to
/// an integer; ordered and hashable.
template <typename Tag, typename Integer = std::int64_t>
class Id {
 public:
  using value_type = Integer;

  constexpr Id() noexcept = default;
  constexpr explicit Id(Integer value) noexcept : value_(value) {}

  [[nodiscard]] constexpr Integer value() const noexcept { return value_; }
  /// Returns the value as an index. Precondition: not negative.
  [[nodiscard]] constexpr std::size_t index() const noexcept {
    EVENKEEL_PRECONDITION(thorough, value_ >= 0, value_);
    return static_cast<std::size_t>(value_);
  }

  friend constexpr auto operator<=>(Id, Id) noexcept = default;

  template <class Archive>
  void serialize(Archive& archive, unsigned /*version*/) {
    archive& value_;
  }

 private:
  Integer value_ = 0;
};

using SampleId = Id<struct SampleIdTag>;         ///< a sample's number (SampleShape::id); -1 for filler
using WorldRank = Id<struct WorldRankTag, int>;  ///< rank in the service's communicator
using DpRank = Id<struct DpRankTag, int>;        ///< coordinate along data parallelism
using CpRank = Id<struct CpRankTag, int>;  ///< number of a rank among those over which a sequence is cut
using DataPlace = Id<struct DataPlaceTag, int>;  ///< a pair (dp, cp) of the grid: dp * its size along cp + cp

using EntryId = Id<struct EntryIdTag>;  ///< a sample's position in its step's length table
using UnitId = Id<struct UnitIdTag>;    ///< number of a unit that is packed as a whole, 0-based in the step
using SegmentId = Id<struct SegmentIdTag>;      ///< number of a run of rows that forms a sequence
using MiniBatchId = Id<struct MiniBatchIdTag>;  ///< number of an optimizer update, 0-based in the step

/// The sample id of filler, which is the only sequence of an empty micro-batch.
inline constexpr SampleId filler_sample{-1};

/// Half-open range of rows.
struct RowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  [[nodiscard]] constexpr std::int64_t size() const noexcept { return end - begin; }
  [[nodiscard]] constexpr bool empty() const noexcept { return begin == end; }
  friend constexpr bool operator==(RowRange, RowRange) = default;
};

}  // namespace evenkeel

template <typename Tag, typename Integer>
struct std::hash<evenkeel::Id<Tag, Integer>> {
  std::size_t operator()(evenkeel::Id<Tag, Integer> id) const noexcept {
    return std::hash<Integer>{}(id.value());
  }
};
