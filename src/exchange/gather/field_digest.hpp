#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "evenkeel/batch/field.hpp"
#include "evenkeel/mesh/communicator.hpp"

namespace evenkeel {

/// What a rank tells the others of its fields before anything else: two words, which can travel with others.
struct FieldDigest {
  std::int64_t has_data = 0;  ///< 0 or 1
  std::int64_t hash = 0;
};

/// A rank's fields on the way to those of all ranks.
class OwnFields {
 public:
  OwnFields() = default;
  /// Nothing when the rank has no data.
  explicit OwnFields(std::optional<std::vector<FieldSpec>> mine);

  [[nodiscard]] FieldDigest digest() const noexcept { return digest_; }
  /// agree_on_fields() once every rank has every rank's digest: as a rule nothing is sent then. Collective.
  [[nodiscard]] std::vector<FieldSpec> agree(const Communicator& comm,
                                             std::span<const FieldDigest> digests) &&;

 private:
  std::vector<FieldSpec> fields_;  // by name
  FieldDigest digest_;
};

}  // namespace evenkeel
