#pragma once

#include <cstdint>
#include <vector>

#include "evenkeel/exchange/results.hpp"
#include "exchange/samples/field_volume.hpp"

namespace evenkeel {

/// What one rank moved in exchanges, in bytes.
struct ExchangeFigures {
  ExchangeVolume volume;
  std::vector<std::int64_t> bytes_to;  ///< that it sent to each rank, itself included
  /// Of each field that it got: an entry for each that travels, the same entries on all ranks.
  std::vector<FieldVolume> volumes;

  ExchangeFigures& operator+=(const ExchangeFigures& more);
};

}  // namespace evenkeel
