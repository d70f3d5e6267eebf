#include "exchange/gather/row_cut_gather.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "base/id_range.hpp"
#include "evenkeel/base/error.hpp"
#include "exchange/samples/transfer_sides.hpp"
#include "mesh/fail_together.hpp"
#include "transport/gather_lists.hpp"

namespace evenkeel {
namespace {

/// The fields that cut others, or themselves.
std::vector<std::string> fields_that_cut(std::span<const CarriedField> fields) {
  std::vector<std::string> names;
  for (const CarriedField& field : fields) {
    if (field.cut_by == field.name()) names.push_back(field.name());
  }
  return names;
}

/// What one gathering has memory for. An owner's words are, field after field, those of its samples in the
/// order of the table.
class CutsOnTheWay {
 public:
  CutsOnTheWay(const TransferFrame& frame, std::span<const CarriedField> fields,
               std::vector<std::string> names)
      : frame_(frame), fields_(fields) {
    std::vector<int> sizes(static_cast<std::size_t>(frame.table.size()));
    for (std::size_t g = 0; g < frame.assignment.groups.size(); ++g) {
      for (const EntryId entry : frame.assignment.shares[static_cast<std::int64_t>(g)])
        sizes[entry.index()] = frame.assignment.groups[g].size;
    }
    for (std::string& name : names) cuts_.emplace_back(std::move(name), sizes);
  }

  [[nodiscard]] std::vector<std::int64_t> own_rows(const RaggedBatch& mine, WorldRank rank) const {
    std::vector<std::int64_t> words;
    for (const RowCuts& cuts : cuts_) {
      for (const EntryId entry : ids_below<EntryId>(frame_.table.size())) {
        if (frame_.table[entry].owner == rank) add_rows(mine, entry, cuts, words);
      }
    }
    return words;
  }

  /// Takes no memory.
  [[nodiscard]] std::vector<RowCuts> take(const GatheredLists<std::int64_t>& all,
                                          std::span<std::size_t> next) noexcept {
    std::ranges::copy(all.offsets, next.begin());
    for (RowCuts& cuts : cuts_) {
      for (const EntryId entry : ids_below<EntryId>(frame_.table.size())) {
        for (std::int64_t& rows : cuts.rows_of(entry))
          rows = all.values[next[frame_.table[entry].owner.index()]++];
      }
    }
    return std::move(cuts_);
  }

 private:
  void add_rows(const RaggedBatch& mine, EntryId entry, const RowCuts& cuts,
                std::vector<std::int64_t>& words) const {
    const LengthEntry& sample = frame_.table[entry];
    const TokensOfRows tokens = tokens_of_rows(mine.at(cuts.by()), sample.owner_index);
    for (const CarriedField& field : fields_) {
      if (field.cut_by != cuts.by()) continue;
      require_tokens_of_rows(tokens, mine.at(field.name()).samples()[sample.owner_index].size(), sample.shape,
                             field.name(), cuts.by());
    }
    const auto members = static_cast<int>(cuts.rows_of(entry).size());
    for (int member = 0; member < members; ++member) {
      std::int64_t& rows = words.emplace_back(0);
      for (const RowRange& chosen : tokens.with_tokens_of(frame_.tokens_of(entry, CpRank{member})))
        rows += chosen.size();
    }
  }

  const TransferFrame& frame_;
  std::span<const CarriedField> fields_;
  std::vector<RowCuts> cuts_;
};

}  // namespace

std::vector<RowCuts> gather_row_cuts(const Communicator& comm, const StepTransfer& step) {
  const TransferFrame frame{step.table, step.assignment, step.settings.cp.layout};
  GuardedWork work;
  std::vector<std::int64_t> own;
  std::vector<std::size_t> next;
  std::optional<CutsOnTheWay> way;
  work([&] {
    way.emplace(frame, step.fields, fields_that_cut(step.fields));
    next.resize(static_cast<std::size_t>(comm.size()) + 1);
    own = way->own_rows(step.mine, WorldRank{comm.rank()});
  });
  const auto all = all_gather_lists<std::int64_t>(comm, own, work.error(), "rows of samples that are cut");
  return way->take(all, next);
}

}  // namespace evenkeel
