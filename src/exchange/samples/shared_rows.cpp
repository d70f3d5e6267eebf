#include "exchange/samples/shared_rows.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.hpp"
#include "base/id_range.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"
#include "mesh/fail_together.hpp"
#include "plan/units/segments.hpp"
#include "transport/gather_lists.hpp"

namespace evenkeel {
namespace {

/// Returns whether a field has one row per token, and all samples that contain a segment share its rows.
/// Excludes input_ids, which are compared separately, and labels and loss masks, which describe the next
/// token and are transferred per sample.
bool is_stored_once(FieldKind kind, std::string_view name) noexcept {
  return rule_of(kind).is_per_token() && name != input_ids_field && name != labels_field &&
         name != loss_mask_field;
}

bool is_row_stored_once(const CarriedField& field) noexcept {
  return is_stored_once(field.spec.kind, field.name());
}

bool declares_segments(std::span<const CarriedField> fields) noexcept {
  return std::ranges::any_of(fields, [](const CarriedField& f) { return f.name() == segment_ids_field; });
}

/// Returns the fields to compare. A field occurs only once, even if its layers are sent to several pipeline
/// stages. input_ids are included only if samples declare their trees; otherwise, the trees were built by
/// comparing tokens.
std::vector<CarriedField> fields_to_compare(std::span<const CarriedField> fields) {
  const bool told = declares_segments(fields);
  std::vector<CarriedField> shared;
  for (const CarriedField& field : fields) {
    const bool is_there = !shared.empty() && shared.back().source == field.source;
    const bool is_compared = is_row_stored_once(field) || (told && field.name() == input_ids_field);
    if (is_compared && !is_there) shared.push_back(field);
  }
  return shared;
}

/// Compares the rows of segments that several samples share. Rows are ordered by sample in the order of the
/// table, then by segment of the sample's path, then by field.
class SharedRows {
 public:
  SharedRows(const LengthTable& table, const StepAssignment& assignment, std::span<const CarriedField> fields)
      : table_(table),
        assignment_(assignment),
        fields_(fields),
        num_samples_(static_cast<std::size_t>(assignment.segments.size())) {
    for (const EntryId entry : ids_below<EntryId>(table.size()))
      for (const SegmentId segment : assignment.segments.path_of(entry)) ++num_samples_[segment.index()];
  }

  [[nodiscard]] std::vector<std::uint64_t> hashes(const RaggedBatch& mine, WorldRank rank) const {
    std::vector<std::uint64_t> hashes;
    for_each_shared_segment([&](EntryId entry, SegmentId segment, std::size_t f) {
      if (table_[entry].owner != rank) return;
      const Column& column = mine.at(fields_[f].name());
      const RowRange& rows = assignment_.segments[segment].rows;
      const std::int64_t first = mine.rows_of(FieldKind::token, table_[entry].owner_index).begin;
      hashes.push_back(hash_of_bytes({column.row(first + rows.begin), column.row(first + rows.end)}));
    });
    return hashes;
  }

  void require_equal(const GatheredLists<std::uint64_t>& hashes) const {
    std::vector<std::size_t> next(hashes.offsets.begin(), hashes.offsets.end());
    struct First {
      EntryId entry{-1};
      std::uint64_t hash = 0;
    };
    std::vector<First> firsts(num_samples_.size() * fields_.size());
    for_each_shared_segment([&](EntryId entry, SegmentId segment, std::size_t f) {
      const std::uint64_t hash = hashes.values[next[table_[entry].owner.index()]++];
      First& first = firsts[segment.index() * fields_.size() + f];
      if (first.entry == EntryId{-1}) first = {entry, hash};
      if (first.hash != hash) reject(fields_[f], segment, first.entry, entry);
    });
  }

 private:
  template <typename Use>
  void for_each_shared_segment(Use use) const {
    for (const EntryId entry : ids_below<EntryId>(table_.size())) {
      for (const SegmentId segment : assignment_.segments.path_of(entry)) {
        if (num_samples_[segment.index()] < 2) continue;
        for (std::size_t f = 0; f < fields_.size(); ++f) use(entry, segment, f);
      }
    }
  }

  [[noreturn]] void reject(const CarriedField& field, SegmentId segment, EntryId one, EntryId other) const {
    const RowRange& rows = assignment_.segments[segment].rows;
    const std::string what = "differs in rows " + std::to_string(rows.begin) + " to " +
                             std::to_string(rows.end - 1) + " of samples " +
                             std::to_string(table_[one].shape.id.value()) + " and " +
                             std::to_string(table_[other].shape.id.value()) + ", which ";
    ErrorReport report;
    report.where = "field '" + field.name() + "'";
    report.samples = {table_[one].shape.id, table_[other].shape.id};
    if (field.name() == input_ids_field) {
      report.message =
          what + "have the same segment numbers there in '" + std::string(segment_ids_field) + "'";
      report.hint = "Give segments with different tokens different numbers, or leave '" +
                    std::string(segment_ids_field) + "' out";
    } else {
      report.message = what + "share these rows as part of a common prefix";
      report.hint = "Supply one value per response token, or set prefix.share: false";
    }
    throw InputError(std::move(report));
  }

  const LengthTable& table_;
  const StepAssignment& assignment_;
  std::span<const CarriedField> fields_;
  std::vector<std::int64_t> num_samples_;  // number of samples per segment
};

}  // namespace

bool must_compare_rows(std::span<const FieldSpec> fields) noexcept {
  return std::ranges::any_of(fields, [](const FieldSpec& field) {
    return is_stored_once(field.kind, field.name) || field.name == segment_ids_field;
  });
}

bool must_compare_rows(std::span<const CarriedField> fields) noexcept {
  return declares_segments(fields) || std::ranges::any_of(fields, is_row_stored_once);
}

void require_equal_shared_rows(const Communicator& comm, const LengthTable& table,
                               const StepAssignment& assignment, std::span<const CarriedField> fields,
                               const RaggedBatch& mine) {
  GuardedWork work;
  std::vector<CarriedField> shared;
  std::optional<SharedRows> rows;
  std::vector<std::uint64_t> own;
  work([&] {
    shared = fields_to_compare(fields);
    rows.emplace(table, assignment, shared);
    own = rows->hashes(mine, WorldRank{comm.rank()});
  });
  const auto all = all_gather_lists<std::uint64_t>(comm, own, work.error(), "rows that samples share");
  work.run_on_replicated_data([&] { rows->require_equal(all); });
  work.agree(comm);
}

}  // namespace evenkeel
