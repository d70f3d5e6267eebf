#pragma once

#include <optional>
#include <span>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/batch/field.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "exchange/gather/announcement.hpp"

namespace evenkeel {

/// This rank's fields, before the ranks agree on them.
class OwnFields {
 public:
  OwnFields() = default;
  /// `mine` is nullopt if the rank does not have data.
  explicit OwnFields(std::optional<std::vector<FieldSpec>> mine);

  [[nodiscard]] FieldDigest digest() const noexcept { return digest_; }
  /// Same as agree_on_fields(), given the digests of all ranks. Communicates only if digests differ or a rank
  /// does not have data. Collective.
  [[nodiscard]] std::vector<FieldSpec> agree(const Communicator& comm,
                                             std::span<const FieldDigest> digests) &&;

 private:
  std::vector<FieldSpec> fields_;  // this rank's fields, sorted by name
  FieldDigest digest_;
};

/// A rank's input to an agreement on fields.
struct FieldAgreementInput {
  std::optional<std::vector<FieldSpec>> fields{};  ///< nullopt if the rank does not have data
  CallKey call{};  ///< the call that this rank makes; must be equal on all ranks
};

/// Collective over `comm`: returns the fields of the ranks that have data, sorted by name; an empty list if
/// no rank has data. Ranks without data get the fields, too. Every rank throws the same InputError if two
/// ranks with data have different fields (the error names a field, both ranks, and each rank's version of the
/// field) or if ranks make different calls (the error names the calls). If any rank passes an error, all
/// ranks throw it. Costs one all-gather of six words per rank if all ranks agree and have data.
[[nodiscard]] std::vector<FieldSpec> agree_on_fields(const Communicator& comm, FieldAgreementInput mine,
                                                     const std::optional<ErrorReport>& error = {});

/// Returns the fields of a batch's samples; nullopt for an empty batch, which means that the rank does not
/// have data. Local.
[[nodiscard]] std::optional<std::vector<FieldSpec>> fields_of(const RaggedBatch& batch);

}  // namespace evenkeel
