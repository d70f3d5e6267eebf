#include "bindings/samples.hpp"

#include <utility>

#include "bindings/arrays.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel::python {
namespace py = pybind11;

Samples samples_from(py::handle prompts, py::handle responses, const py::object& groups,
                     const py::object& loss_tokens) {
  Samples samples{integers_of(prompts, "prompts"), integers_of(responses, "responses"), {}, {}, {}};
  if (!groups.is_none()) samples.groups = integers_of(groups, "groups");
  if (!loss_tokens.is_none()) samples.loss_tokens = integers_of(loss_tokens, "loss_tokens");
  return samples;
}

void require_one_a_sample(std::size_t given, const LengthTable& table, const std::string& name) {
  if (std::cmp_equal(given, table.size())) return;
  throw InputError(
      name, "there are " + std::to_string(given) + " for " + std::to_string(table.size()) + " samples");
}

LengthTable table_of(const Samples& samples) {
  const LengthTable lengths = LengthTable::of(samples.prompts, samples.responses);
  std::vector<LengthEntry> entries(lengths.entries().begin(), lengths.entries().end());
  if (!samples.groups.empty()) require_one_a_sample(samples.groups.size(), lengths, "groups");
  for (std::size_t i = 0; i < samples.groups.size(); ++i)
    entries[i].shape.group = static_cast<std::uint64_t>(samples.groups[i]);
  if (!samples.loss_tokens.empty()) require_one_a_sample(samples.loss_tokens.size(), lengths, "loss_tokens");
  for (std::size_t i = 0; i < samples.loss_tokens.size(); ++i) {
    const std::int64_t count = samples.loss_tokens[i];
    if (count < -1 || count > entries[i].shape.length())
      throw InputError("loss_tokens[" + std::to_string(i) + "]",
                       "is " + std::to_string(count) + "; the sample has " +
                           std::to_string(entries[i].shape.length()) + " tokens",
                       "Say -1 where all response tokens carry loss");
    entries[i].loss_tokens = count;
  }
  return LengthTable(std::move(entries));
}

}  // namespace evenkeel::python
