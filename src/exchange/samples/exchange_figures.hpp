#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "evenkeel/exchange/results.hpp"

namespace evenkeel {

/// What one rank got of one field in an exchange, in bytes.
struct FieldVolume {
  std::string name;           ///< as consumers call it
  bool changed = false;       ///< whether it travels otherwise than it is brought
  std::int64_t received = 0;  ///< from owners, itself among them: as many as they sent or kept
  std::int64_t copied = 0;    ///< from the rank of this node that received them for it

  friend bool operator==(const FieldVolume&, const FieldVolume&) = default;
};

/// Adds to what is there of the field of that name, which is added where it is not.
void add_volume(std::vector<FieldVolume>& volumes, const FieldVolume& more);

/// What one rank moved in exchanges, in bytes.
struct ExchangeFigures {
  ExchangeVolume volume;
  std::vector<std::int64_t> bytes_to;  ///< that it sent to each rank, itself included
  /// Of each field that it got: an entry for each that travels, the same entries on all ranks.
  std::vector<FieldVolume> volumes;

  ExchangeFigures& operator+=(const ExchangeFigures& more);
};

}  // namespace evenkeel
