#include "pack/shared_work.hpp"

#include <algorithm>
#include <future>
#include <string>
#include <vector>

#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

std::int64_t useful_threads(std::int64_t threads, std::size_t bytes) {
  if (threads < 1) throw InputError("threads", std::to_string(threads) + " is given; at least 1 is needed");
  constexpr std::size_t least_bytes = std::size_t{1} << 20;
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(bytes / least_bytes), 1, threads);
}

/// The first sequence that begins at or behind this share of the rows.
std::int64_t first_of_part(const PackedLayout& layout, std::int64_t part, std::int64_t parts) {
  if (part == parts) return layout.size();
  const std::int64_t row = layout.cu_seqlens_padded().back() / parts * part;
  return std::ranges::lower_bound(layout.cu_seqlens_padded(), row) - layout.cu_seqlens_padded().begin();
}

}  // namespace

void share_sequences(const PackedLayout& layout, std::int64_t threads, std::size_t bytes,
                     const std::function<void(SequenceRange)>& work) {
  const std::int64_t parts = useful_threads(threads, bytes);
  std::vector<std::future<void>> others;
  for (std::int64_t part = 1; part < parts; ++part) {
    const SequenceRange sequences{first_of_part(layout, part, parts), first_of_part(layout, part + 1, parts)};
    others.push_back(std::async(std::launch::async, [&work, sequences] { work(sequences); }));
  }
  work({0, first_of_part(layout, 1, parts)});
  for (std::future<void>& other : others) other.get();
}

}  // namespace evenkeel
