#include "exchange/gather/field_agreement.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "base/hash.hpp"
#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"
#include "mesh/fail_together.hpp"
#include "plan/plan_serialization.hpp"
#include "transport/gather_lists.hpp"

namespace evenkeel {
namespace {

std::string describe(const FieldSpec& spec) {
  std::string text = std::string(name_of(spec.dtype)) + " values of kind " + std::string(name_of(spec.kind));
  if (!spec.trailing.empty()) text += " with rows of shape " + shape_text(spec.trailing);
  return text;
}

std::int64_t hash_of(std::span<const FieldSpec> fields) {
  Fnv1a hash;
  for (const FieldSpec& field : fields) hash.add(field.name + '\0' + describe(field) + '\0');
  return static_cast<std::int64_t>(hash.value());
}

const FieldSpec* find(std::span<const FieldSpec> fields, const std::string& name) {
  const auto found = std::ranges::find(fields, name, &FieldSpec::name);
  return found == fields.end() ? nullptr : &*found;
}

std::string describe_on_rank(std::size_t rank, const FieldSpec* spec) {
  return "rank " + std::to_string(rank) + (spec == nullptr ? " does not have it" : " has " + describe(*spec));
}

// Throws InputError for the first field that differs between the two ranks. Does nothing if their fields are
// equal.
void require_equal_fields(std::span<const FieldSpec> reference, std::size_t reference_rank,
                          std::span<const FieldSpec> fields, std::size_t rank) {
  for (const std::span<const FieldSpec> side : {reference, fields}) {
    for (const FieldSpec& field : side) {
      const FieldSpec* one = find(reference, field.name);
      const FieldSpec* other = find(fields, field.name);
      if (one != nullptr && other != nullptr && *one == *other) continue;
      throw InputError(
          "field '" + field.name + "'",
          "differs between ranks: " + describe_on_rank(reference_rank, one) + ", " +
              describe_on_rank(rank, other),
          "Provide the same fields, of the same kinds, dtypes and shapes, on every rank that supplies "
          "samples or results");
    }
  }
}

// Throws InputError for the first difference between the fields of any rank and those of rank `reference`,
// which is the first rank that has data. Collective.
[[noreturn]] void throw_first_difference(const Communicator& comm, const std::vector<FieldSpec>& mine,
                                         std::span<const FieldDigest> digests, std::size_t reference) {
  GuardedWork work;
  const auto all = all_gather_values(comm, mine, work, "bytes of field names");
  work.run_on_replicated_data([&] {
    for (std::size_t rank = reference + 1; rank < all.size(); ++rank) {
      if (digests[rank].has_data != 0) require_equal_fields(all[reference], reference, all[rank], rank);
    }
    throw InputError("fields", "have equal descriptions but different hashes on some ranks",
                     "Run the same version of Evenkeel on all ranks");
  });
  fail_with_report_of(comm, 0, work.error());
}

}  // namespace

OwnFields::OwnFields(std::optional<std::vector<FieldSpec>> mine) {
  const bool has_data = mine.has_value();
  if (has_data) fields_ = *std::move(mine);
  std::ranges::sort(fields_, {}, &FieldSpec::name);
  digest_ = {has_data ? 1 : 0, hash_of(fields_)};
}

std::vector<FieldSpec> OwnFields::agree(const Communicator& comm, std::span<const FieldDigest> digests) && {
  const auto has_data = [](const FieldDigest& digest) { return digest.has_data != 0; };
  const auto first = std::ranges::find_if(digests, has_data);
  if (first == digests.end()) return {};
  const auto reference = static_cast<std::size_t>(first - digests.begin());
  const auto differs = [&](const FieldDigest& digest) {
    return has_data(digest) && digest.hash != first->hash;
  };
  if (std::ranges::any_of(digests, differs)) throw_first_difference(comm, fields_, digests, reference);
  if (!std::ranges::all_of(digests, has_data)) {
    GuardedWork work;
    broadcast_value(comm, fields_, static_cast<int>(reference), work);
    work.agree(comm);
  }
  return std::move(fields_);
}

std::optional<std::vector<FieldSpec>> fields_of(const RaggedBatch& batch) {
  if (batch.size() == 0) return std::nullopt;
  std::vector<FieldSpec> fields;
  for (const Column& column : batch.fields()) fields.push_back(column.spec());
  return fields;
}

std::vector<FieldSpec> agree_on_fields(const Communicator& comm, FieldAgreementInput mine,
                                       const std::optional<ErrorReport>& error) {
  GuardedWork work(error);
  OwnFields own;
  work([&] { own = OwnFields(std::move(mine.fields)); });
  Announcement announced;
  announced.fields = own.digest();
  return std::move(own).agree(comm, announce(comm, announced, mine.call, work.error()).digests);
}

}  // namespace evenkeel
