#include "exchange/gather/field_sum_gather.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/id_range.hpp"
#include "batch/sample_sums.hpp"
#include "mesh/fail_together.hpp"
#include "transport/gather_lists.hpp"

namespace evenkeel {
namespace {

/// What one gathering of sums has memory for: an owner's sums are those of its first field, then those of the
/// next.
struct SumsOnTheWay {
  std::vector<std::int64_t> mine;
  std::vector<std::int64_t> all;
  std::vector<FieldSums> sums;
};

}  // namespace

std::vector<FieldSums> gather_field_sums(const Communicator& comm, const LengthTable& table,
                                         std::span<const FieldSpec> fields,
                                         const std::set<std::string>& names, const RaggedBatch& mine) {
  const auto is_named = [&](const FieldSpec& field) { return names.contains(field.name); };
  const std::int64_t named = std::ranges::count_if(fields, is_named);
  if (named == 0) return {};
  RankLists& lists = RankLists::of(comm);
  std::ranges::fill(lists.words(), 0);
  for (const LengthEntry& entry : table.entries()) lists.words()[entry.owner.index()] += named;
  lists.take_words_as_sizes("sums of a field over the samples of one step");
  SumsOnTheWay way;
  together(comm, [&] {
    const auto entries = static_cast<std::size_t>(table.size());
    way.all.resize(entries * static_cast<std::size_t>(named));
    for (const FieldSpec& field : fields) {
      if (!is_named(field)) continue;
      way.sums.push_back({field.name, std::vector<std::int64_t>(entries)});
      if (mine.size() == 0) continue;
      const std::vector<std::int64_t> own = sums_of_samples(mine, mine.at(field.name));
      way.mine.insert(way.mine.end(), own.begin(), own.end());
    }
  });
  gather_values<std::int64_t>(comm, lists, way.mine, way.all);
  for (const EntryId entry : ids_below<EntryId>(table.size())) {
    const std::size_t owner = table[entry].owner.index();
    auto at =
        static_cast<std::size_t>(lists.offsets()[owner]) + static_cast<std::size_t>(table[entry].owner_index);
    const auto samples = static_cast<std::size_t>(lists.sizes()[owner] / named);
    for (FieldSums& of_field : way.sums) {
      of_field.sums[entry.index()] = way.all[at];
      at += samples;
    }
  }
  return std::move(way.sums);
}

}  // namespace evenkeel
