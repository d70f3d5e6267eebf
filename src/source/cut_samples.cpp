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

/// The rows of a cut in a field of the batch that it is cut from.
RowRange rows_of(const RaggedBatch& from, FieldKind kind, const Cut& cut) {
  const RowRange all = from.rows_of(kind, cut.index);
  const auto from_begin = [&](std::int64_t begin, std::int64_t end) {
    return RowRange{all.begin + begin, all.begin + end};
  };
  switch (kind) {
    case FieldKind::token:
      return from_begin(cut.tokens.begin, cut.tokens.end);
    case FieldKind::response_token: {
      const std::int64_t prompt = from.samples()[static_cast<std::size_t>(cut.index)].prompt;
      return from_begin(std::max<std::int64_t>(cut.tokens.begin - prompt, 0),
                        std::max<std::int64_t>(cut.tokens.end - prompt, 0));
    }
    case FieldKind::sample:
      break;
  }
  return all;
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
    Column& to = out.add_field(Column::unwritten(spec, out.rows_of(spec.kind)));
    std::byte* next = to.row(0);
    for (const Cut& cut : cuts) {
      const Column& from = *batches[cut.batch].find(spec.name);
      const RowRange rows = rows_of(batches[cut.batch], spec.kind, cut);
      const std::size_t bytes = static_cast<std::size_t>(rows.size()) * from.row_bytes();
      if (bytes > 0) std::memcpy(next, from.row(rows.begin), bytes);
      next += bytes;
    }
  }
  return out;
}

}  // namespace evenkeel
