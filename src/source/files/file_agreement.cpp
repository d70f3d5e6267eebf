#include "source/files/file_agreement.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/hash.hpp"
#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"
#include "mesh/fail_together.hpp"
#include "transport/gather_lists.hpp"

namespace evenkeel {
namespace {

/// The properties of a file that a rank has open, as this rank sees them.
struct ObservedFile {
  FileVersion version;
  std::uint64_t digest = 0;  ///< InputFile::sampled_digest()

  [[nodiscard]] bool is_same_copy(const ObservedFile& other) const {
    return std::tuple(version.inode, version.modified) ==
           std::tuple(other.version.inode, other.version.modified);
  }
};

template <typename T>
std::vector<T> gather_from_ranks(const Communicator& comm, const T& mine, const GuardedWork& work) {
  return all_gather_lists<T>(comm, std::span(&mine, 1), work.error(), "ranks that read a file").values;
}

std::string on_rank_text(std::size_t rank) {
  return " on rank " + std::to_string(rank);
}

[[noreturn]] void reject(const InputFile& file, const std::string& what) {
  throw IoError(file.path(), what,
                "Let all ranks read one finished file, or identical copies of it on all nodes");
}

void require_equal_sizes(const InputFile& file, const std::vector<ObservedFile>& sights) {
  const auto bytes = [&](std::size_t rank) {
    return format_plain_count(sights[rank].version.bytes, "byte") + on_rank_text(rank);
  };
  for (std::size_t rank = 1; rank < sights.size(); ++rank) {
    if (sights[rank].version.bytes == sights[0].version.bytes) continue;
    reject(file, "has " + bytes(0) + " and " + bytes(rank));
  }
}

[[noreturn]] void reject_content(const InputFile& file, std::size_t rank) {
  reject(file, "has different content" + on_rank_text(rank) + " than" + on_rank_text(0) +
                   ", although both copies have " + format_plain_count(file.size(), "byte"));
}

/// Divides a file's blocks into `parts` contiguous parts, and returns the digest of the part with index
/// `part`. The digests of all parts add up to the digest of the file.
std::uint64_t digest_of_part(const InputFile& file, std::int64_t part, std::int64_t parts) {
  const std::int64_t blocks = (file.size() + InputFile::digest_block - 1) / InputFile::digest_block;
  const auto begin_of = [&](std::int64_t p) {
    return (blocks / parts * p + std::min(p, blocks % parts)) * InputFile::digest_block;
  };
  return file.digest({begin_of(part), begin_of(part + 1)});
}

/// Returns this rank's part of the digest of the whole file. The ranks that have opened the same copy
/// divide its blocks among themselves.
std::uint64_t partial_digest_of_rank(const InputFile& file, const std::vector<ObservedFile>& sights,
                                     std::size_t rank) {
  std::int64_t sharers = 0;
  std::int64_t before = 0;
  for (std::size_t other = 0; other < sights.size(); ++other) {
    if (!sights[other].is_same_copy(sights[rank])) continue;
    ++sharers;
    if (other < rank) ++before;
  }
  return digest_of_part(file, before, sharers);
}

std::uint64_t digest_of_copy(const std::vector<ObservedFile>& sights, const std::vector<std::uint64_t>& parts,
                             std::size_t rank) {
  std::uint64_t sum = 0;
  for (std::size_t other = 0; other < sights.size(); ++other) {
    if (sights[other].is_same_copy(sights[rank])) sum += parts[other];
  }
  return sum;
}

}  // namespace

// All ranks compare the same gathered values, so all ranks throw or succeed together. The error on each rank
// names the path of the copy that this rank has opened.
void require_same_content(const Communicator& comm, const InputFile& file) {
  GuardedWork work;
  ObservedFile mine;
  work([&] { mine = {file.version(), file.sampled_digest()}; });
  const std::vector<ObservedFile> sights = gather_from_ranks(comm, mine, work);
  require_equal_sizes(file, sights);
  const auto other =
      std::ranges::find_if(sights, [&](const ObservedFile& s) { return s.digest != sights[0].digest; });
  if (other != sights.end()) reject_content(file, static_cast<std::size_t>(other - sights.begin()));
  if (std::ranges::all_of(sights, [&](const ObservedFile& s) { return s.is_same_copy(sights[0]); })) return;

  std::uint64_t part = 0;
  work([&] { part = partial_digest_of_rank(file, sights, static_cast<std::size_t>(comm.rank())); });
  const std::vector<std::uint64_t> parts = gather_from_ranks(comm, part, work);
  const std::uint64_t first = digest_of_copy(sights, parts, 0);
  for (std::size_t rank = 1; rank < sights.size(); ++rank) {
    const bool seen = sights[rank].is_same_copy(sights[rank - 1]);
    if (!seen && digest_of_copy(sights, parts, rank) != first) reject_content(file, rank);
  }
}

void require_same_contents(const Communicator& comm, std::span<const InputFile* const> files) {
  if (files.size() > 1) {
    GuardedWork work;
    std::uint64_t mine = files.size();
    work([&] {
      for (const InputFile* file : files) {
        const FileVersion version = file->version();
        for (const std::uint64_t word :
             {static_cast<std::uint64_t>(version.bytes), version.inode,
              static_cast<std::uint64_t>(version.modified), file->sampled_digest()})
          mine = mix_64(mine ^ word) + 1;
      }
    });
    const std::vector<std::uint64_t> sights = gather_from_ranks(comm, mine, work);
    if (std::ranges::count(sights, sights[0]) == std::ssize(sights)) return;
  }
  for (const InputFile* file : files) require_same_content(comm, *file);
}

std::uint64_t content_digest(const Communicator& comm, const InputFile& file) {
  GuardedWork work;
  std::uint64_t part = 0;
  work([&] { part = digest_of_part(file, comm.rank(), comm.size()); });
  const std::vector<std::uint64_t> parts = gather_from_ranks(comm, part, work);
  return std::accumulate(parts.begin(), parts.end(), std::uint64_t{0});
}

}  // namespace evenkeel
