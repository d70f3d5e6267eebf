// Tables of lengths, CSV or JSON lines depending on the first byte.
#include "fuzz/target.hpp"
#include "io/files/input_file.hpp"
#include "io/samples/lengths_file.hpp"

namespace evenkeel::fuzz {

void run(Bytes input) {
  if (input.empty()) return;
  const std::string name = input.front() % 2 == 0 ? "lengths.csv" : "lengths.jsonl";
  const InputFile file(file_with(text_of(input.subspan(1)), name));
  for (const FileLengths& lengths : read_length_table(file))
    require(lengths.prompt >= 0 && lengths.response >= 0, "lengths are not negative");
}

}  // namespace evenkeel::fuzz
