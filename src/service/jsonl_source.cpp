#include "service/jsonl_source.hpp"

#include <boost/mpi/collectives.hpp>
#include <boost/mpi/collectives/all_gatherv.hpp>
#include <boost/serialization/set.hpp>
#include <boost/serialization/string.hpp>
#include <boost/serialization/vector.hpp>

#include "evenkeel/base/narrow.hpp"
#include "evenkeel/io/jsonl.hpp"
#include "evenkeel/mesh/fail_together.hpp"
#include "evenkeel/plan/plan_serialization.hpp"

BOOST_CLASS_VERSION(evenkeel::JsonlSchema, 1)

namespace boost::serialization {

template <class Archive>
void serialize(Archive& archive, evenkeel::LineRef& line, unsigned /*version*/) {
  archive& line.offset;
  archive& line.bytes;
  archive& line.number;
}

template <class Archive>
void serialize(Archive& archive, evenkeel::JsonlSchema& schema, unsigned /*version*/) {
  archive& schema.empty;
  archive& schema.fields;
  archive& schema.kind_open;
  archive& schema.element_open;
  archive& schema.ignored;
}

}  // namespace boost::serialization

BOOST_IS_MPI_DATATYPE(evenkeel::LineRef)

namespace evenkeel {
namespace {

// Numbers this rank's lines by the whole file's: physical lines of the ranks before come first.
void number_from(std::vector<LineRef>& lines, std::int64_t first) {
  for (LineRef& line : lines) line.number += first;
}

std::int64_t newlines_before(const boost::mpi::communicator& comm, std::int64_t newlines) {
  std::vector<std::int64_t> all;
  boost::mpi::all_gather(comm, newlines, all);
  std::int64_t before = 0;
  for (int rank = 0; rank < comm.rank(); ++rank) before += all[static_cast<std::size_t>(rank)];
  return before;
}

std::vector<LineRef> gather_lines(const boost::mpi::communicator& comm, const std::vector<LineRef>& mine) {
  std::vector<std::int64_t> counts;
  boost::mpi::all_gather(comm, static_cast<std::int64_t>(mine.size()), counts);
  std::vector<int> sizes;
  std::int64_t total = 0;
  for (const std::int64_t count : counts) {
    sizes.push_back(narrow<int>(count, "lines of one rank's part of the source"));
    total += count;
  }
  std::vector<LineRef> all(static_cast<std::size_t>(narrow<int>(total, "lines of the source")));
  const LineRef none;
  boost::mpi::all_gatherv(comm, mine.empty() ? &none : mine.data(), all.data(), sizes);
  return all;
}

JsonlSchema merge_over_ranks(const boost::mpi::communicator& comm, const JsonlSchema& mine) {
  std::vector<JsonlSchema> all;
  boost::mpi::all_gather(comm, mine, all);
  JsonlSchema merged;  // the identity
  for (const JsonlSchema& schema : all) merged = merge(merged, schema);
  return merged;
}

}  // namespace

JsonlSource::JsonlSource(const boost::mpi::communicator& comm, std::filesystem::path path)
    : path_(std::move(path)) {
  LineScan scan = together(comm, [&] {
    const std::vector<ByteRange> ranges = split_bytes(bytes_of_file(path_), comm.size());
    return scan_lines(path_, ranges[static_cast<std::size_t>(comm.rank())]);
  });
  number_from(scan.lines, newlines_before(comm, scan.newlines));
  const JsonlSchema mine = together(comm, [&] { return infer_schema(path_, scan.lines); });
  schema_ = merge_over_ranks(comm, mine);
  lines_ = gather_lines(comm, scan.lines);
}

RaggedBatch JsonlSource::read(std::span<const std::int64_t> positions) const {
  std::vector<LineRef> lines;
  lines.reserve(positions.size());
  for (const std::int64_t position : positions) lines.push_back(lines_[static_cast<std::size_t>(position)]);
  return read_samples(path_, lines, schema_);
}

}  // namespace evenkeel
