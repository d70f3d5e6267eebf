#include "exchange/row_count_gather.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "base/id_range.hpp"
#include "mesh/fail_together.hpp"
#include "transport/gather_lists.hpp"

namespace evenkeel {
namespace {

std::vector<std::string> counted_names(std::span<const FieldSpec> fields) {
  std::vector<std::string> names;
  for (const FieldSpec& field : fields) {
    if (is_counted(field.kind)) names.push_back(field.name);
  }
  return names;
}

/// What one gathering of counts has memory for: an owner's words are those of its first sample, field after
/// field, then those of the next.
struct CountsOnTheWay {
  CountsOnTheWay(const LengthTable& table, std::span<const std::string> names, const RaggedBatch& batch)
      : mine(batch.samples().size() * names.size()),
        all(static_cast<std::size_t>(table.size()) * names.size()) {
    for (std::size_t f = 0; f < names.size() && batch.size() > 0; ++f) {
      const SampleRows& samples = batch.at(names[f]).samples();
      for (std::int64_t i = 0; i < batch.size(); ++i)
        mine[static_cast<std::size_t>(i) * names.size() + f] = samples[i].size();
    }
    for (const std::string& name : names)
      counts.push_back({name, std::vector<std::int64_t>(static_cast<std::size_t>(table.size()))});
  }

  /// Takes no memory.
  void sort_by_entry(const LengthTable& table, std::span<const int> first_word) noexcept {
    for (const EntryId entry : ids_below<EntryId>(table.size())) {
      const auto first = static_cast<std::size_t>(first_word[table[entry].owner.index()]);
      const auto sample = static_cast<std::size_t>(table[entry].owner_index);
      for (std::size_t f = 0; f < counts.size(); ++f)
        counts[f].rows[entry.index()] = all[first + sample * counts.size() + f];
    }
  }

  std::vector<std::int64_t> mine;
  std::vector<std::int64_t> all;
  std::vector<RowCounts> counts;
};

}  // namespace

std::vector<RowCounts> gather_row_counts(const Communicator& comm, const LengthTable& table,
                                         std::span<const FieldSpec> fields, const RaggedBatch& mine) {
  const auto counted = std::ranges::count_if(fields, [](const FieldSpec& f) { return is_counted(f.kind); });
  if (counted == 0) return {};
  RankLists& lists = RankLists::of(comm);
  std::ranges::fill(lists.words(), 0);
  for (const LengthEntry& entry : table.entries()) lists.words()[entry.owner.index()] += counted;
  lists.take_words_as_sizes("numbers of rows of the samples of one step");
  std::optional<CountsOnTheWay> way;
  together(comm, [&] { way.emplace(table, counted_names(fields), mine); });
  gather_values<std::int64_t>(comm, lists, way->mine, way->all);
  way->sort_by_entry(table, lists.offsets());
  return std::move(way->counts);
}

}  // namespace evenkeel
