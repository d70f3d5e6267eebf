#include "source/files/jsonl_source.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>

#include "evenkeel/base/error.hpp"
#include "io/files/input_file.hpp"
#include "io/jsonl/jsonl.hpp"
#include "mesh/fail_together.hpp"
#include "source/declared_formats.hpp"
#include "source/files/schema_agreement.hpp"
#include "transport/gather_lists.hpp"

namespace evenkeel {
namespace {

/// A part of a file that a rank has scanned.
struct ScannedPart {
  std::int64_t file = 0;
  std::int64_t num_lines = 0;
};

/// The lines that a rank has found in its share of the files' bytes.
struct Scan {
  std::vector<ScannedPart> parts;
  std::vector<LineRef> lines;          // lines of all parts, numbered from the start of each part
  std::vector<std::size_t> part_ends;  // index in `lines` at which the lines of each part end
};

Scan scan_share(const InputFiles& files, int rank, int ranks) {
  std::vector<std::int64_t> sizes;
  for (const auto& file : files) sizes.push_back(file->size());
  const std::int64_t bytes = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  Scan scan;
  for (const FilePart& part :
       split_by_file(sizes, split_bytes(bytes, ranks)[static_cast<std::size_t>(rank)])) {
    const LineScan found = scan_lines(*files[part.file], part.range);
    scan.parts.push_back({static_cast<std::int64_t>(part.file), found.num_lines});
    scan.lines.insert(scan.lines.end(), found.lines.begin(), found.lines.end());
    scan.part_ends.push_back(scan.lines.size());
  }
  return scan;
}

/// Renumbers this rank's lines consecutively over all files. Returns the number of each file's first line.
std::vector<std::int64_t> number_lines(const Communicator& comm, std::size_t num_files, Scan& scan) {
  const auto all =
      all_gather_lists<ScannedPart>(comm, scan.parts, std::nullopt, "parts of the source's files");
  return run_together(comm, [&] {
    std::vector<std::int64_t> of_files(num_files + 1);
    for (const ScannedPart& part : all.values)
      of_files[static_cast<std::size_t>(part.file) + 1] += part.num_lines;
    std::partial_sum(of_files.begin(), of_files.end(), of_files.begin());
    of_files.pop_back();
    // Parts are in the order of ranks, and therefore in the order of the files.
    std::int64_t before = 0;
    for (int part = 0; part < all.offsets[static_cast<std::size_t>(comm.rank())]; ++part)
      before += all.values[static_cast<std::size_t>(part)].num_lines;
    std::size_t line = 0;
    for (std::size_t part = 0; part < scan.parts.size(); ++part) {
      for (; line < scan.part_ends[part]; ++line) scan.lines[line].number += before;
      before += scan.parts[part].num_lines;
    }
    return of_files;
  });
}

}  // namespace

std::unique_ptr<JsonlSource> JsonlSource::open(const Communicator& comm, const SourceSettings& settings,
                                               const NamedFields& fields) {
  auto source =
      run_together(comm, [&] { return std::unique_ptr<JsonlSource>(new JsonlSource(settings.path_text())); });
  source->files_ = open_files(comm, files_of_source(comm, settings));
  unpack_on_nodes(comm, source->files_);
  source->scan(comm, fields);
  return source;
}

void JsonlSource::scan(const Communicator& comm, const NamedFields& fields) {
  Scan scan = run_together(comm, [&] { return scan_share(files_, comm.rank(), comm.size()); });
  std::vector<std::int64_t> first_lines = number_lines(comm, files_.size(), scan);
  std::vector<std::int64_t> tokens;
  const JsonlSchema mine = run_together(comm, [&] {
    lines_of_.emplace(file_pointers(files_), std::move(first_lines));
    tokens.resize(scan.lines.size());
    declared_formats_ = declared_formats(fields);
    return infer_schema(*lines_of_, scan.lines, tokens, declared_formats_);
  });
  schema_ = merge_over_ranks(comm, mine, lines_of_->names());
  fail_together(comm,
                try_on_replicated_data([&] { require_declared_fields(schema_, declared_formats_, name_); }));
  lines_ = all_gather_lists<LineRef>(comm, scan.lines, std::nullopt, "lines of the source").values;
  tokens_ = all_gather_lists<std::int64_t>(comm, tokens, std::nullopt, "lengths of the source").values;
}

std::int64_t JsonlSource::file_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& file : files_) bytes += file->size();
  return bytes;
}

// The fingerprint covers the decompressed content, so sources with the same rollouts are equal even if they
// are compressed differently.
SourceFingerprint JsonlSource::fingerprint(const Communicator& comm) const {
  return fingerprint_of(comm, run_together(comm, [&] { return file_pointers(files_); }), name_, num_samples(),
                        true);
}

std::vector<LineRef> JsonlSource::lines_at(std::span<const std::int64_t> positions) const {
  std::vector<LineRef> lines;
  lines.reserve(positions.size());
  for (const std::int64_t position : positions) lines.push_back(lines_[static_cast<std::size_t>(position)]);
  return lines;
}

RaggedBatch JsonlSource::read(std::span<const std::int64_t> positions) const {
  return read_samples(*lines_of_, lines_at(positions), schema_, declared_formats_);
}

std::vector<SourceField> JsonlSource::fields() const {
  std::vector<SourceField> fields;
  for (const FieldSpec& spec : schema_.fields)
    fields.push_back({spec, schema_.kind_open.contains(spec.name), schema_.element_open.contains(spec.name)});
  return fields;
}

std::vector<Uid> JsonlSource::uids(std::span<const std::int64_t> positions) const {
  return read_uids(*lines_of_, lines_at(positions));
}

void JsonlSource::prefetch(std::span<const std::int64_t> positions) const {
  ReadAhead ahead;
  for (const std::int64_t position : positions) {
    const LineRef& line = lines_[static_cast<std::size_t>(position)];
    ahead.add(lines_of_->file_of(line), {line.offset, line.offset + line.bytes});
  }
  ahead.start();
}

}  // namespace evenkeel
