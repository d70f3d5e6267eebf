#include "plan/units/segments.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "base/hash.hpp"
#include "batch/integers.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

void require_integers_of_tokens(const FieldSpec& field) {
  if (field.rule().is_cut() && is_integer(field.dtype) && field.trailing.empty()) return;
  throw InputError("field '" + field.name + "'",
                   "specifies the trees of samples if prefix.share is tree, so it must have one integer per "
                   "token or response token",
                   "Provide the number of each token's segment, or rename the field");
}

/// Mixes the context of each piece of a sample (RaggedBatch::contexts) into the keys of its tokens, so that
/// pieces with different contexts have different keys.
void mix_contexts_into_keys(const RaggedBatch& batch, std::span<std::int64_t> keys) {
  constexpr std::uint64_t sign = std::uint64_t{1} << 63;  // keys with this bit are negative, unlike token ids
  for (std::size_t i = 0; i < batch.contexts().size(); ++i) {
    const std::uint64_t context = batch.contexts()[i];
    if (context == 0) continue;
    const RowRange rows = batch.rows_of(FieldKind::token, static_cast<std::int64_t>(i));
    for (std::int64_t& key :
         keys.subspan(static_cast<std::size_t>(rows.begin), static_cast<std::size_t>(rows.size())))
      key = static_cast<std::int64_t>(mix_64(context ^ mix_64(static_cast<std::uint64_t>(key))) | sign);
  }
}

}  // namespace

SegmentTable::SegmentTable(std::vector<Segment> whole_samples, const IdGroups<EntryId>& shares)
    : segments_(std::move(whole_samples)),
      path_offsets_(segments_.size() + 1),
      path_items_(segments_.size()),
      shares_(shares.items()) {
  std::iota(path_offsets_.begin(), path_offsets_.end(), std::int64_t{0});
  std::ranges::copy(ids_below<SegmentId>(size()), path_items_.begin());
}

SegmentTable::SegmentTable(std::vector<Segment> segments, const SegmentPaths& paths,
                           IdGroups<SegmentId> shares)
    : segments_(std::move(segments)), shares_(std::move(shares)) {
  path_offsets_.reserve(paths.ends.size() + 1);
  for (const SegmentId end : paths.ends) {
    for (SegmentId s = end; s != no_segment; s = paths.parents[s.index()]) path_items_.push_back(s);
    std::reverse(path_items_.begin() + path_offsets_.back(), path_items_.end());
    path_offsets_.push_back(std::ssize(path_items_));
  }
}

std::vector<std::int64_t> token_keys(const RaggedBatch& batch, std::int64_t ahead) {
  const Column& segment_ids = batch.at(segment_ids_field);
  if (ahead > 0)
    throw InputError("field '" + segment_ids.spec().name + "'",
                     "specifies the trees of samples, but with pack.predict_ahead the tokens that samples "
                     "share also depend on the tokens after them",
                     "Leave it out, or set pack.predict_ahead: 0");
  require_integers_of_tokens(segment_ids.spec());
  const auto tokens = batch.at(input_ids_field).values<std::int64_t>();
  std::vector<std::int64_t> keys(tokens.begin(), tokens.end());
  with_integer_type(segment_ids.spec().dtype, [&]<typename T>(T) {
    const auto numbers = segment_ids.values<T>();
    for (std::int64_t i = 0; i < batch.size(); ++i) {
      const RowRange rows = batch.rows_of(segment_ids.spec().kind, i);
      std::int64_t row = batch.rows_of(FieldKind::token, i).end - rows.size();
      for (std::int64_t from = rows.begin; from < rows.end; ++from, ++row) {
        const auto number = static_cast<std::int64_t>(numbers[static_cast<std::size_t>(from)]);
        if (number < 0) {
          throw InputError(batch.samples()[static_cast<std::size_t>(i)].id,
                           "its segment_ids contain " + std::to_string(number),
                           "Number segments starting at 0");
        }
        // Negative keys cannot be equal to token ids.
        keys[static_cast<std::size_t>(row)] = -1 - number;
      }
    }
  });
  mix_contexts_into_keys(batch, keys);
  return keys;
}

}  // namespace evenkeel
