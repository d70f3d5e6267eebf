#include "service/jsonl_source.hpp"

#include <mpi.h>

#include <boost/mpi/collectives/all_gatherv.hpp>

#include "evenkeel/base/error.hpp"
#include "evenkeel/base/narrow.hpp"
#include "evenkeel/io/jsonl.hpp"
#include "evenkeel/mesh/fail_together.hpp"
#include "evenkeel/mesh/mpi_call.hpp"
#include "service/file_agreement.hpp"
#include "service/schema_agreement.hpp"

namespace boost::serialization {

template <class Archive>
void serialize(Archive& archive, evenkeel::LineRef& line, unsigned /*version*/) {
  archive& line.offset;
  archive& line.bytes;
  archive& line.number;
}

}  // namespace boost::serialization

BOOST_IS_MPI_DATATYPE(evenkeel::LineRef)

namespace evenkeel {
namespace {

/// A number of each rank.
std::vector<std::int64_t> gather_counts(const boost::mpi::communicator& comm, std::int64_t mine) {
  auto all = together(comm, [&] { return std::vector<std::int64_t>(static_cast<std::size_t>(comm.size())); });
  check_mpi(MPI_Allgather(&mine, 1, MPI_INT64_T, all.data(), 1, MPI_INT64_T, MPI_Comm(comm)),
            "MPI_Allgather");
  return all;
}

/// Numbers this rank's lines by the whole file's: physical lines of the ranks before come first.
void number_lines(const boost::mpi::communicator& comm, LineScan& scan) {
  const std::vector<std::int64_t> newlines = gather_counts(comm, scan.newlines);
  std::int64_t before = 0;
  for (int rank = 0; rank < comm.rank(); ++rank) before += newlines[static_cast<std::size_t>(rank)];
  for (LineRef& line : scan.lines) line.number += before;
}

std::vector<LineRef> gather_lines(const boost::mpi::communicator& comm, const std::vector<LineRef>& mine) {
  const std::vector<std::int64_t> counts = gather_counts(comm, std::ssize(mine));
  std::vector<int> sizes;
  auto all = together(comm, [&] {
    std::int64_t total = 0;
    for (const std::int64_t count : counts) {
      sizes.push_back(narrow<int>(count, "lines of one rank's part of the source"));
      total += count;
    }
    return std::vector<LineRef>(static_cast<std::size_t>(narrow<int>(total, "lines of the source")));
  });
  LineRef none;
  boost::mpi::all_gatherv(comm, mine.empty() ? &none : mine.data(), all.empty() ? &none : all.data(), sizes);
  return all;
}

}  // namespace

JsonlSource::JsonlSource(const boost::mpi::communicator& comm, const std::filesystem::path& path)
    : file_(together(comm, [&] { return std::make_unique<const InputFile>(path); })) {
  require_same_content(comm, *file_);
  LineScan scan = together(comm, [&] {
    const std::vector<ByteRange> ranges = split_bytes(file_->size(), comm.size());
    return scan_lines(*file_, ranges[static_cast<std::size_t>(comm.rank())]);
  });
  number_lines(comm, scan);
  const JsonlSchema mine = together(comm, [&] { return infer_schema(*file_, scan.lines); });
  schema_ = merge_over_ranks(comm, mine, file_->path());
  lines_ = gather_lines(comm, scan.lines);
}

RaggedBatch JsonlSource::read(std::span<const std::int64_t> positions) const {
  std::vector<LineRef> lines;
  lines.reserve(positions.size());
  for (const std::int64_t position : positions) lines.push_back(lines_[static_cast<std::size_t>(position)]);
  return read_samples(*file_, lines, schema_);
}

}  // namespace evenkeel
