#include "evenkeel/exchange/field_agreement.hpp"

#include <algorithm>
#include <array>
#include <boost/mpi/collectives.hpp>
#include <boost/mpi/operations.hpp>
#include <limits>
#include <string>

#include "evenkeel/base/error.hpp"
#include "evenkeel/plan/plan_serialization.hpp"

namespace evenkeel {
namespace {

std::string describe(const FieldSpec& spec) {
  std::string text = std::string(name_of(spec.dtype)) + " " + std::string(name_of(spec.kind));
  for (const std::int64_t dim : spec.trailing) text += " x " + std::to_string(dim);
  return text;
}

std::int64_t hash_of(std::span<const FieldSpec> fields) {
  std::string text;
  for (const FieldSpec& field : fields) text += field.name + '\0' + describe(field) + '\0';
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return static_cast<std::int64_t>(hash);
}

const FieldSpec* find(std::span<const FieldSpec> fields, const std::string& name) {
  const auto found = std::ranges::find(fields, name, &FieldSpec::name);
  return found == fields.end() ? nullptr : &*found;
}

std::string held_by(std::size_t rank, const FieldSpec* spec) {
  return "rank " + std::to_string(rank) + (spec == nullptr ? " does not have it" : " has " + describe(*spec));
}

// Throws for the first field in which `fields` of rank `rank` differ from those of rank `reference_rank`.
void throw_difference(std::span<const FieldSpec> reference, std::size_t reference_rank,
                      std::span<const FieldSpec> fields, std::size_t rank) {
  for (const std::span<const FieldSpec> side : {reference, fields}) {
    for (const FieldSpec& field : side) {
      const FieldSpec* one = find(reference, field.name);
      const FieldSpec* other = find(fields, field.name);
      if (one != nullptr && other != nullptr && *one == *other) continue;
      throw InputError("field '" + field.name + "'",
                       "differs between ranks: " + held_by(reference_rank, one) + ", " + held_by(rank, other),
                       "Every rank that holds samples must bring the same fields");
    }
  }
}

// `reference` is a rank that has data.
[[noreturn]] void throw_first_difference(const boost::mpi::communicator& comm,
                                         const std::vector<FieldSpec>& mine, bool have_data,
                                         std::size_t reference) {
  std::vector<std::vector<FieldSpec>> all;
  std::vector<int> with_data;
  boost::mpi::all_gather(comm, mine, all);
  boost::mpi::all_gather(comm, have_data ? 1 : 0, with_data);
  for (std::size_t rank = reference + 1; rank < all.size(); ++rank) {
    if (with_data[rank] != 0) throw_difference(all[reference], reference, all[rank], rank);
  }
  throw InputError("fields", "have equal descriptions but different hashes on some ranks");
}

}  // namespace

std::vector<FieldSpec> agree_on_fields(const boost::mpi::communicator& comm,
                                       std::optional<std::vector<FieldSpec>> mine) {
  // Signed words: Open MPI 4.1's vectorized MPI_MIN compares unsigned 64-bit numbers as if they were signed.
  constexpr std::int64_t anything = std::numeric_limits<std::int64_t>::max();
  const bool have_data = mine.has_value();
  std::vector<FieldSpec> fields = std::move(mine).value_or(std::vector<FieldSpec>{});
  std::ranges::sort(fields, {}, &FieldSpec::name);
  const std::int64_t hash = hash_of(fields);
  const std::array<std::int64_t, 4> words{have_data ? hash : anything, have_data ? ~hash : anything,
                                          have_data ? comm.rank() : anything, have_data ? 1 : 0};
  std::array<std::int64_t, 4> least{};
  boost::mpi::all_reduce(comm, words.data(), 4, least.data(), boost::mpi::minimum<std::int64_t>());
  const bool nobody_has_data = least[2] == anything;
  if (nobody_has_data) return fields;
  const auto first_with_data = static_cast<int>(least[2]);
  if (least[0] != ~least[1]) {
    throw_first_difference(comm, fields, have_data, static_cast<std::size_t>(first_with_data));
  }
  const bool all_have_data = least[3] == 1;
  if (!all_have_data) boost::mpi::broadcast(comm, fields, first_with_data);
  return fields;
}

std::vector<FieldSpec> agree_on_fields(const boost::mpi::communicator& comm, const RaggedBatch& mine) {
  if (mine.size() == 0) return agree_on_fields(comm, std::nullopt);
  std::vector<FieldSpec> fields;
  for (const Column& column : mine.fields()) fields.push_back(column.spec());
  return agree_on_fields(comm, std::move(fields));
}

}  // namespace evenkeel
