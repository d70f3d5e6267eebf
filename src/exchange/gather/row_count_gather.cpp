#include "exchange/gather/row_count_gather.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/id_range.hpp"
#include "batch/equal_values.hpp"
#include "batch/sample_sums.hpp"
#include "evenkeel/base/error.hpp"
#include "exchange/samples/transfer_sides.hpp"
#include "mesh/fail_together.hpp"
#include "transport/gather_lists.hpp"

namespace evenkeel {
namespace {

bool is_compared(const FieldSpec& field, const NamedFields& settings) {
  return is_counted(field.kind) && shares_equal(settings, field.name);
}

/// Returns the number of words that each sample contributes. For each counted field, these are the number of
/// rows and, if values are compared, the entry of the first sample with an equal value.
int words_per_sample(std::span<const FieldSpec> fields, const NamedFields& settings) {
  int words = 0;
  for (const FieldSpec& field : fields)
    words += (is_counted(field.kind) ? 1 : 0) + (is_compared(field, settings) ? 1 : 0);
  return words;
}

/// Buffers for one gather of row counts. An owner's words are ordered by sample, then by field.
class CountGather {
 public:
  CountGather(const LengthTable& table, WorldRank rank, std::span<const FieldSpec> fields,
              const NamedFields& settings, const RaggedBatch& batch)
      : mine(batch.samples().size() * static_cast<std::size_t>(words_per_sample(fields, settings))),
        all(static_cast<std::size_t>(table.size()) *
            static_cast<std::size_t>(words_per_sample(fields, settings))),
        words_(static_cast<std::size_t>(words_per_sample(fields, settings))) {
    const auto entries = static_cast<std::size_t>(table.size());
    for (const FieldSpec& field : fields) {
      if (!is_counted(field.kind)) continue;
      RowCounts& of_field = counts.emplace_back(RowCounts{field.name, std::vector<std::int64_t>(entries)});
      if (is_compared(field, settings)) of_field.firsts.resize(entries);
    }
    if (batch.size() > 0) write_words(own_entries(table, rank, batch), batch);
  }

  void unpack_counts(const LengthTable& table, std::span<const int> first_word) {
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
  /// Returns the entries of this rank's samples, in the rank's order.
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

  std::size_t words_;  // words per sample
};

/// Returns the names of the fields whose token ranges determine which rows of other fields each CP rank gets
/// (CarriedField::cut_by). Every such field is also cut by its own ranges.
std::vector<std::string> cutting_fields(std::span<const CarriedField> fields) {
  std::vector<std::string> names;
  for (const CarriedField& field : fields) {
    if (field.cut_by == field.name()) names.push_back(field.name());
  }
  return names;
}

/// Implements gather_row_cuts(): counts the rows that each group member gets, one word per cutting field,
/// sample and member. An owner's words are ordered by cutting field, then by sample in the order of the
/// table, then by group member.
class CutGather {
 public:
  CutGather(const TransferFrame& frame, std::span<const CarriedField> fields, std::vector<std::string> names)
      : frame_(frame), fields_(fields) {
    std::vector<int> sizes(static_cast<std::size_t>(frame.table.size()));
    for (std::size_t g = 0; g < frame.assignment.groups.size(); ++g) {
      for (const EntryId entry : frame.assignment.shares[static_cast<std::int64_t>(g)])
        sizes[entry.index()] = frame.assignment.groups[g].size;
    }
    for (std::string& name : names) cuts_.emplace_back(std::move(name), sizes);
  }

  [[nodiscard]] std::vector<std::int64_t> count_own_rows(const RaggedBatch& mine, WorldRank rank) const {
    std::vector<std::int64_t> words;
    for (const RowCuts& cuts : cuts_) {
      for (const EntryId entry : ids_below<EntryId>(frame_.table.size())) {
        if (frame_.table[entry].owner == rank) add_row_counts(mine, entry, cuts, words);
      }
    }
    return words;
  }

  [[nodiscard]] std::vector<RowCuts> unpack_cuts(const GatheredLists<std::int64_t>& all) {
    std::vector<int> next = all.offsets;
    for (RowCuts& cuts : cuts_) {
      for (const EntryId entry : ids_below<EntryId>(frame_.table.size())) {
        for (std::int64_t& rows : cuts.row_counts_of(entry))
          rows = all.values[static_cast<std::size_t>(next[frame_.table[entry].owner.index()]++)];
      }
    }
    return std::move(cuts_);
  }

 private:
  void add_row_counts(const RaggedBatch& mine, EntryId entry, const RowCuts& cuts,
                      std::vector<std::int64_t>& words) const {
    const LengthEntry& sample = frame_.table[entry];
    const TokensOfRows tokens = tokens_of_rows(mine.at(cuts.cutting_field()), sample.owner_index);
    for (const CarriedField& field : fields_) {
      if (field.cut_by != cuts.cutting_field()) continue;
      require_valid_tokens_of_rows(tokens, mine.at(field.name()).samples()[sample.owner_index].size(),
                                   sample.shape, field.name(), cuts.cutting_field());
    }
    const auto members = static_cast<int>(cuts.row_counts_of(entry).size());
    for (int member = 0; member < members; ++member) {
      std::int64_t& rows = words.emplace_back(0);
      for (const RowRange& chosen : tokens.rows_overlapping(frame_.tokens_of(entry, CpRank{member})))
        rows += chosen.size();
    }
  }

  const TransferFrame& frame_;
  std::span<const CarriedField> fields_;
  std::vector<RowCuts> cuts_;
};

/// Returns the layout of a gather in which each owner sends `words_per_sample` words for each of its samples.
/// `what` names the words in errors.
GatherLayout make_gather_layout(const LengthTable& table, int ranks, std::int64_t words_per_sample,
                                std::string_view what) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(ranks));
  for (const LengthEntry& entry : table.entries()) counts[entry.owner.index()] += words_per_sample;
  return {counts, what};
}

}  // namespace

std::vector<RowCounts> gather_row_counts(const Communicator& comm, const LengthTable& table,
                                         std::span<const FieldSpec> fields, const RaggedBatch& mine,
                                         const NamedFields& settings) {
  const int words = words_per_sample(fields, settings);
  if (words == 0) return {};
  const GatherLayout lists =
      make_gather_layout(table, comm.size(), words, "numbers of rows of the samples of one step");
  std::optional<CountGather> way;
  run_together(comm, [&] { way.emplace(table, WorldRank{comm.rank()}, fields, settings, mine); });
  gather_values<std::int64_t>(comm, lists, way->mine, way->all);
  way->unpack_counts(table, lists.offsets);
  return std::move(way->counts);
}

std::vector<RowCuts> gather_row_cuts(const Communicator& comm, const StepTransfer& step) {
  const TransferFrame frame{step.table, step.assignment, step.settings};
  GuardedWork work;
  std::vector<std::int64_t> own;
  std::optional<CutGather> way;
  work([&] {
    way.emplace(frame, step.fields, cutting_fields(step.fields));
    own = way->count_own_rows(step.mine, WorldRank{comm.rank()});
  });
  const auto all = all_gather_lists<std::int64_t>(comm, own, work.error(), "rows of samples that are cut");
  return way->unpack_cuts(all);
}

std::vector<FieldSums> gather_field_sums(const Communicator& comm, const LengthTable& table,
                                         std::span<const FieldSpec> fields,
                                         const std::set<std::string>& names, const RaggedBatch& mine) {
  const auto is_named = [&](const FieldSpec& field) { return names.contains(field.name); };
  const std::int64_t named = std::ranges::count_if(fields, is_named);
  if (named == 0) return {};
  const GatherLayout lists =
      make_gather_layout(table, comm.size(), named, "sums of a field over the samples of one step");
  // An owner's sums are ordered by field, then by sample.
  std::vector<std::int64_t> own;
  std::vector<FieldSums> sums;
  run_together(comm, [&] {
    for (const FieldSpec& field : fields) {
      if (!is_named(field)) continue;
      sums.push_back({field.name, std::vector<std::int64_t>(static_cast<std::size_t>(table.size()))});
      if (mine.size() == 0) continue;
      const std::vector<std::int64_t> of_field = sum_by_sample(mine, mine.at(field.name));
      own.insert(own.end(), of_field.begin(), of_field.end());
    }
  });
  std::vector<std::int64_t> all(lists.total);
  gather_values<std::int64_t>(comm, lists, own, all);
  for (const EntryId entry : ids_below<EntryId>(table.size())) {
    const std::size_t owner = table[entry].owner.index();
    auto at =
        static_cast<std::size_t>(lists.offsets[owner]) + static_cast<std::size_t>(table[entry].owner_index);
    const auto samples = static_cast<std::size_t>(lists.sizes[owner] / named);
    for (FieldSums& of_field : sums) {
      of_field.sums[entry.index()] = all[at];
      at += samples;
    }
  }
  return sums;
}

}  // namespace evenkeel
