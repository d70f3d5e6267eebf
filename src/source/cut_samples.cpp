#include "source/cut_samples.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

SampleShape shape_of(const RaggedBatch& from, const Cut& cut) {
  const SampleShape& whole = from.samples()[static_cast<std::size_t>(cut.index)];
  const std::int64_t prompt = std::clamp<std::int64_t>(whole.prompt - cut.tokens.begin, 0, cut.tokens.size());
  return {cut.id, cut.group, prompt, cut.tokens.size() - prompt};
}

void require_whole(const RaggedBatch& from, const Column& column, const Cut& cut) {
  const SampleShape& sample = from.samples()[static_cast<std::size_t>(cut.index)];
  if (cut.tokens == RowRange{0, sample.length()}) return;
  throw InputError("sample " + std::to_string(sample.id.value()),
                   "is cut, and field '" + column.spec().name +
                       "' has rows of its own, of which nobody knows which go with which of its tokens",
                   "Keep samples whole (batch.too_long: drop), or leave the field out");
}

/// The rows of a cut in a field of the batch that it is cut from.
RowRange rows_of(const RaggedBatch& from, const Column& column, const Cut& cut) {
  const RowRange all = from.rows_of(column, cut.index);
  const auto from_begin = [&](std::int64_t begin, std::int64_t end) {
    return RowRange{all.begin + begin, all.begin + end};
  };
  switch (column.spec().kind) {
    case FieldKind::token:
      return from_begin(cut.tokens.begin, cut.tokens.end);
    case FieldKind::response_token: {
      const std::int64_t prompt = from.samples()[static_cast<std::size_t>(cut.index)].prompt;
      return from_begin(std::max<std::int64_t>(cut.tokens.begin - prompt, 0),
                        std::max<std::int64_t>(cut.tokens.end - prompt, 0));
    }
    case FieldKind::rows:
      require_whole(from, column, cut);
      return all;
    case FieldKind::sample:
    case FieldKind::text:
    case FieldKind::bytes:
      break;
  }
  return all;
}

/// An empty column for all cuts, that takes what they have of it.
Column column_for(const RaggedBatch& out, const FieldSpec& spec, std::span<const RaggedBatch> batches,
                  std::span<const Cut> cuts) {
  if (!is_counted(spec.kind)) return Column::unwritten(spec, out.rows_of(spec.kind));
  std::vector<std::int64_t> counts;
  counts.reserve(cuts.size());
  for (const Cut& cut : cuts) {
    const RaggedBatch& from = batches[cut.batch];
    counts.push_back(rows_of(from, *from.find(spec.name), cut).size());
  }
  return Column::unwritten(spec, SampleRows::of_counts(counts));
}

[[noreturn]] void refuse(const std::string& name, const std::string& why, const std::string& other) {
  throw InputError(name, why + " " + other,
                   "Give all sources the same fields, of the same types and shapes, or leave the field out");
}

void require_equal_fields(const RaggedBatch& first, const RaggedBatch& other, const std::string& first_name,
                          const std::string& other_name) {
  for (const Column& column : first.fields()) {
    const Column* const found = other.find(column.spec().name);
    const std::string field = "field '" + column.spec().name + "'";
    if (found == nullptr) refuse(other_name, "lacks the " + field + " of", first_name);
    if (found->spec() != column.spec())
      refuse(other_name, "has a " + field + " of another kind, type or shape than", first_name);
  }
  if (other.fields().size() > first.fields().size())
    require_equal_fields(other, first, other_name, first_name);
}

}  // namespace

RaggedBatch cut_samples(std::span<const RaggedBatch> batches, std::span<const Cut> cuts,
                        std::span<const std::string> names) {
  std::vector<SampleShape> shapes;
  shapes.reserve(cuts.size());
  for (const Cut& cut : cuts) shapes.push_back(shape_of(batches[cut.batch], cut));
  RaggedBatch out(std::move(shapes));
  if (cuts.empty()) return out;

  const std::size_t first = cuts.front().batch;
  for (std::size_t batch = 0; batch < batches.size(); ++batch) {
    if (batch != first && batches[batch].size() > 0)
      require_equal_fields(batches[first], batches[batch], names[first], names[batch]);
  }
  for (const Column& column : batches[first].fields()) {
    const FieldSpec& spec = column.spec();
    Column& to = out.add_field(column_for(out, spec, batches, cuts));
    std::byte* next = to.row(0);
    for (const Cut& cut : cuts) {
      const Column& from = *batches[cut.batch].find(spec.name);
      const RowRange rows = rows_of(batches[cut.batch], from, cut);
      const std::size_t bytes = static_cast<std::size_t>(rows.size()) * from.row_bytes();
      if (bytes > 0) std::memcpy(next, from.row(rows.begin), bytes);
      next += bytes;
    }
  }
  return out;
}

}  // namespace evenkeel
