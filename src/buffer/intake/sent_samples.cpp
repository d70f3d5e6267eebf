#include "buffer/intake/sent_samples.hpp"

#include <string>
#include <vector>

#include "buffer/intake/received_samples.hpp"
#include "buffer/intake/spooled_body.hpp"
#include "evenkeel/base/error.hpp"
#include "io/jsonl/jsonl.hpp"

namespace evenkeel {

RaggedBatch sent_samples(std::string_view lines, std::span<const std::int64_t> arrivals,
                         const JsonlSchema& schema) {
  SpooledBody body;
  body.write(lines);
  const InputFile& file = body.file();
  std::vector<LineRef> refs = scan_lines(file).lines;
  if (refs.size() != arrivals.size()) {
    throw InputError("samples of a step", "are " + std::to_string(refs.size()) + " lines; " +
                                              std::to_string(arrivals.size()) + " were asked for");
  }
  for (std::size_t i = 0; i < refs.size(); ++i) refs[i].number = arrivals[i];
  return read_samples(file, refs, schema, stream_formats());
}

}  // namespace evenkeel
