#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "evenkeel/exchange/results.hpp"

namespace evenkeel {

/// Bytes of one field that one rank received or copied in an exchange.
struct FieldVolume {
  std::string name;  ///< name of the consumer's column
  /// Whether the field is changed on the way (is_field_changed()), or its equal values are stored once.
  bool changed = false;
  /// Bytes received from owners, including bytes that this rank keeps for itself. The sum over all ranks
  /// equals the bytes that owners sent or kept.
  std::int64_t received = 0;
  /// Bytes copied from another rank of the node, which received them on this rank's behalf.
  std::int64_t copied = 0;

  friend bool operator==(const FieldVolume&, const FieldVolume&) = default;
};

/// Adds the bytes in `more` to the element of `volumes` for the same field. If there is no such element,
/// appends `more`.
void add_volume(std::vector<FieldVolume>& volumes, const FieldVolume& more);

/// Bytes that one rank moved in exchanges.
struct ExchangeFigures {
  ExchangeVolume volume;
  std::vector<std::int64_t> bytes_to;  ///< bytes sent to each rank, including itself
  /// Bytes of each field that the rank received or copied. There is one entry per transferred field, so all
  /// ranks have entries for the same fields.
  std::vector<FieldVolume> volumes;

  ExchangeFigures& operator+=(const ExchangeFigures& more);
};

}  // namespace evenkeel
