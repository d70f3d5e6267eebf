// What ranks tell each other as archives: plans, fields, lengths and names. The first byte says which.
#include "transport/archive_bytes.hpp"

#include <boost/serialization/string.hpp>
#include <boost/serialization/vector.hpp>
#include <string>
#include <vector>

#include "fuzz/target.hpp"
#include "plan/plan_serialization.hpp"

namespace evenkeel::fuzz {
namespace {

template <typename T>
void read_back(const std::string& bytes) {
  T value;
  from_archive(bytes, value);
  const std::string written = to_archive(value);
  T again;
  from_archive(written, again);
  require(to_archive(again) == written, "what was read and written is read as it was");
}

}  // namespace

void run(Bytes input) {
  if (input.empty()) return;
  const std::string bytes = text_of(input.subspan(1));
  switch (input.front() % 4) {
    case 0:
      return read_back<StepPlan>(bytes);
    case 1:
      return read_back<std::vector<FieldSpec>>(bytes);
    case 2:
      return read_back<std::vector<LengthEntry>>(bytes);
    default:
      return read_back<std::vector<std::string>>(bytes);
  }
}

}  // namespace evenkeel::fuzz
