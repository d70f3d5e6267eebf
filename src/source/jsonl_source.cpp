#include "source/jsonl_source.hpp"

#include <cstdint>
#include <numeric>
#include <span>

#include "io/jsonl.hpp"
#include "mesh/fail_together.hpp"
#include "source/file_agreement.hpp"
#include "source/schema_agreement.hpp"
#include "transport/gather_lists.hpp"

namespace evenkeel {
namespace {

/// Numbers this rank's lines by the whole file's: physical lines of the ranks before come first.
void number_lines(const boost::mpi::communicator& comm, LineScan& scan) {
  const std::span<const std::int64_t> newlines = gather_counts(comm, scan.newlines, std::nullopt).words();
  const auto of_ranks_before = newlines.first(static_cast<std::size_t>(comm.rank()));
  const auto before = std::accumulate(of_ranks_before.begin(), of_ranks_before.end(), std::int64_t{0});
  for (LineRef& line : scan.lines) line.number += before;
}

}  // namespace

std::unique_ptr<JsonlSource> JsonlSource::open(const boost::mpi::communicator& comm,
                                               const std::filesystem::path& path) {
  auto source = together(comm, [&] { return std::unique_ptr<JsonlSource>(new JsonlSource(path)); });
  source->scan(comm);
  return source;
}

void JsonlSource::scan(const boost::mpi::communicator& comm) {
  require_same_content(comm, file_);
  LineScan scan = together(comm, [&] {
    const std::vector<ByteRange> ranges = split_bytes(file_.size(), comm.size());
    return scan_lines(file_, ranges[static_cast<std::size_t>(comm.rank())]);
  });
  number_lines(comm, scan);
  std::vector<std::int64_t> tokens;
  const JsonlSchema mine = together(comm, [&] {
    tokens.resize(scan.lines.size());
    return infer_schema(file_, scan.lines, tokens);
  });
  schema_ = merge_over_ranks(comm, mine, file_.path());
  lines_ = all_gather_lists<LineRef>(comm, scan.lines, std::nullopt, "lines of the source").values;
  tokens_ = all_gather_lists<std::int64_t>(comm, tokens, std::nullopt, "lengths of the source").values;
}

SourceFingerprint JsonlSource::fingerprint(const boost::mpi::communicator& comm) const {
  const std::uint64_t digest = content_digest(comm, file_);
  return together(comm, [&] { return SourceFingerprint{file_.path(), num_samples(), file_.size(), digest}; });
}

RaggedBatch JsonlSource::read(std::span<const std::int64_t> positions) const {
  std::vector<LineRef> lines;
  lines.reserve(positions.size());
  for (const std::int64_t position : positions) lines.push_back(lines_[static_cast<std::size_t>(position)]);
  return read_samples(file_, lines, schema_);
}

}  // namespace evenkeel
