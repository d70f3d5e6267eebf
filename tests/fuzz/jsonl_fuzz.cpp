// Rollouts as lines of JSON.
#include "fuzz/target.hpp"
#include "io/files/input_file.hpp"
#include "io/files/lines.hpp"
#include "io/jsonl/jsonl.hpp"
#include "io/jsonl/schema.hpp"

namespace evenkeel::fuzz {

void run(Bytes input) {
  const InputFile file(file_with(text_of(input), "rollouts.jsonl"));
  const std::vector<LineRef> lines = scan_lines(file).lines;
  for (const LineRef& line : lines) static_cast<void>(is_rollout(file, line));
  const RaggedBatch batch = read_samples(file, lines, infer_schema(file, lines));
  require(batch.samples().size() == lines.size(), "there is one sample per line");
}

}  // namespace evenkeel::fuzz
