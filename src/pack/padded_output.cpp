#include "evenkeel/pack/padded.hpp"

#include <string>

namespace evenkeel {

Column pad_field(const RaggedBatch& batch, std::string_view name, std::int64_t seq,
                 std::span<const std::byte> pad_row) {
  const Column& field = batch.at(name);
  if (field.spec().rule().is_per_sample()) {
    throw InputError("field '" + std::string(name) + "'", "has one row a sample; there is nothing to pad");
  }
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < batch.size(); ++i) lengths.push_back(batch.rows_of(field, i).size());
  FieldSpec spec = field.spec();
  spec.kind = FieldKind::sample;
  spec.trailing = {seq};
  spec.trailing.insert(spec.trailing.end(), field.spec().trailing.begin(), field.spec().trailing.end());
  Column padded(std::move(spec), batch.size());
  pad_right(lengths, {}, seq, field.row_bytes(), field.bytes(), pad_row, padded.bytes());
  return padded;
}

}  // namespace evenkeel
