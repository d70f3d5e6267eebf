#include "exchange/gather/row_count_gather.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "base/id_range.hpp"
#include "batch/equal_values.hpp"
#include "mesh/fail_together.hpp"
#include "transport/gather_lists.hpp"

namespace evenkeel {
namespace {

bool is_compared(const FieldSpec& field, const NamedFields& settings) {
  return is_counted(field.kind) && shares_equal(settings, field.name);
}

/// Words that each sample brings: of every counted field its rows and, where values are compared, the entry
/// of the first equal one.
int words_of_sample(std::span<const FieldSpec> fields, const NamedFields& settings) {
  int words = 0;
  for (const FieldSpec& field : fields)
    words += (is_counted(field.kind) ? 1 : 0) + (is_compared(field, settings) ? 1 : 0);
  return words;
}

/// What one gathering of counts has memory for: an owner's words are those of its first sample, field after
/// field, then those of the next.
class CountsOnTheWay {
 public:
  CountsOnTheWay(const LengthTable& table, WorldRank rank, std::span<const FieldSpec> fields,
                 const NamedFields& settings, const RaggedBatch& batch)
      : mine(batch.samples().size() * static_cast<std::size_t>(words_of_sample(fields, settings))),
        all(static_cast<std::size_t>(table.size()) *
            static_cast<std::size_t>(words_of_sample(fields, settings))),
        words_(static_cast<std::size_t>(words_of_sample(fields, settings))) {
    const auto entries = static_cast<std::size_t>(table.size());
    for (const FieldSpec& field : fields) {
      if (!is_counted(field.kind)) continue;
      RowCounts& of_field = counts.emplace_back(RowCounts{field.name, std::vector<std::int64_t>(entries)});
      if (is_compared(field, settings)) of_field.firsts.resize(entries);
    }
    if (batch.size() > 0) write_words(own_entries(table, rank, batch), batch);
  }

  /// Takes no memory.
  void sort_by_entry(const LengthTable& table, std::span<const int> first_word) noexcept {
    for (const EntryId entry : ids_below<EntryId>(table.size())) {
      const auto first = static_cast<std::size_t>(first_word[table[entry].owner.index()]);
      std::size_t at = first + static_cast<std::size_t>(table[entry].owner_index) * words_;
      for (RowCounts& of_field : counts) {
        of_field.rows[entry.index()] = all[at++];
        if (!of_field.firsts.empty()) of_field.firsts[entry.index()] = EntryId{all[at++]};
      }
    }
  }

  std::vector<std::int64_t> mine;
  std::vector<std::int64_t> all;
  std::vector<RowCounts> counts;

 private:
  /// The entries of this rank's samples, in their order.
  static std::vector<EntryId> own_entries(const LengthTable& table, WorldRank rank,
                                          const RaggedBatch& batch) {
    std::vector<EntryId> own(batch.samples().size());
    for (const EntryId entry : ids_below<EntryId>(table.size())) {
      if (table[entry].owner == rank) own[static_cast<std::size_t>(table[entry].owner_index)] = entry;
    }
    return own;
  }

  void write_words(const std::vector<EntryId>& entries, const RaggedBatch& batch) {
    std::size_t first = 0;
    for (const RowCounts& of_field : counts) {
      const Column& column = batch.at(of_field.field);
      const bool is_compared = !of_field.firsts.empty();
      std::vector<std::int64_t> firsts;
      if (is_compared) firsts = first_equal_samples(column);
      for (std::size_t i = 0; i < entries.size(); ++i) {
        std::int64_t* const words = &mine[i * words_ + first];
        words[0] = column.samples()[static_cast<std::int64_t>(i)].size();
        if (is_compared) words[1] = entries[static_cast<std::size_t>(firsts[i])].value();
      }
      first += is_compared ? 2 : 1;
    }
  }

  std::size_t words_;  // of a sample
};

}  // namespace

std::vector<RowCounts> gather_row_counts(const Communicator& comm, const LengthTable& table,
                                         std::span<const FieldSpec> fields, const RaggedBatch& mine,
                                         const NamedFields& settings) {
  const int words = words_of_sample(fields, settings);
  if (words == 0) return {};
  RankLists& lists = RankLists::of(comm);
  std::ranges::fill(lists.words(), 0);
  for (const LengthEntry& entry : table.entries()) lists.words()[entry.owner.index()] += words;
  lists.take_words_as_sizes("numbers of rows of the samples of one step");
  std::optional<CountsOnTheWay> way;
  together(comm, [&] { way.emplace(table, WorldRank{comm.rank()}, fields, settings, mine); });
  gather_values<std::int64_t>(comm, lists, way->mine, way->all);
  way->sort_by_entry(table, lists.offsets());
  return std::move(way->counts);
}

}  // namespace evenkeel
