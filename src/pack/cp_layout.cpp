#include "evenkeel/pack/cp_layout.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "base/narrow.hpp"
#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

constexpr std::int64_t max_alignment = std::numeric_limits<std::int32_t>::max();

void require_positive(std::int64_t value, const char* what) {
  if (value >= 1) return;
  throw InputError(what, "is " + std::to_string(value) + "; it must be at least 1");
}

std::int64_t checked_alignment(std::int64_t alignment) {
  if (alignment <= max_alignment) return alignment;
  throw LimitError("sequence alignment",
                   "is " + std::to_string(alignment) + ", above the limit of " +
                       std::to_string(max_alignment) + " for int32 cu_seqlens",
                   "Lower the tensor-parallel size, the context-parallel size or the extra alignment");
}

void require_valid_rank(CpGroup cp, CpRank rank) {
  require_positive(cp.size, "context-parallel size");
  if (rank.value() >= 0 && rank.value() < cp.size) return;
  throw InputError("context-parallel rank", "is " + std::to_string(rank.value()) + "; it must be from 0 to " +
                                                std::to_string(cp.size - 1));
}

void require_equal_chunks(std::int64_t aligned_length, std::int64_t chunks) {
  if (aligned_length >= 0 && aligned_length % chunks == 0) return;
  throw InputError("context-parallel cut",
                   "a length of " + format_plain_count(aligned_length, "row") + " cannot be cut into " +
                       format_plain_count(chunks, "equal chunk"),
                   "Align every sequence to a multiple of " + std::to_string(chunks) + " first");
}

void require_cumulative(std::span<const std::int32_t> cu_seqlens, const char* what) {
  if (cu_seqlens.empty()) throw InputError(what, "is empty; cumulative lengths must start with 0");
  if (cu_seqlens.front() != 0) {
    throw InputError(
        what, "starts with " + std::to_string(cu_seqlens.front()) + "; cumulative lengths must start with 0");
  }
  const auto fall = std::ranges::adjacent_find(cu_seqlens, std::ranges::greater{});
  if (fall == cu_seqlens.end()) return;
  throw InputError(what, "cumulative lengths decrease from " + std::to_string(*fall) + " to " +
                             std::to_string(*std::next(fall)) + " at entry " +
                             std::to_string(fall - cu_seqlens.begin() + 1));
}

}  // namespace

std::int64_t sequence_alignment(int tp, CpGroup cp, std::int64_t extra) {
  require_positive(tp, "tensor-parallel size");
  require_positive(cp.size, "context-parallel size");
  require_positive(extra, "extra alignment");
  // Both factors fit in 31 bits here, so their least common multiple cannot overflow 64 bits.
  return checked_alignment(std::lcm(checked_alignment(tp * cp.chunks()), checked_alignment(extra)));
}

CpRuns cp_runs(std::int64_t aligned_length, CpGroup cp, CpRank rank) {
  require_valid_rank(cp, rank);
  require_equal_chunks(aligned_length, cp.chunks());
  if (aligned_length == 0) return {};
  const std::int64_t chunk = aligned_length / cp.chunks();
  const std::int64_t first = rank.value();
  const std::int64_t mirrored = cp.chunks() - 1 - first;
  if (cp.layout == CpLayout::contiguous || cp.size == 1) return CpRuns({first * chunk, (first + 1) * chunk});
  if (mirrored == first + 1) return CpRuns({first * chunk, (mirrored + 1) * chunk});
  return {{first * chunk, (first + 1) * chunk}, {mirrored * chunk, (mirrored + 1) * chunk}};
}

std::vector<std::int64_t> partitioned_indices(std::span<const std::int32_t> cu_seqlens_padded, CpGroup cp,
                                              CpRank rank) {
  require_valid_rank(cp, rank);
  require_cumulative(cu_seqlens_padded, "cu_seqlens_padded");
  std::vector<std::int64_t> indices;
  indices.reserve(static_cast<std::size_t>(cu_seqlens_padded.back() / cp.size));
  for (std::size_t i = 0; i + 1 < cu_seqlens_padded.size(); ++i) {
    const std::int64_t start = cu_seqlens_padded[i];
    for (const RowRange& run : cp_runs(cu_seqlens_padded[i + 1] - start, cp, rank)) {
      for (std::int64_t row = run.begin; row < run.end; ++row) indices.push_back(start + row);
    }
  }
  return indices;
}

CuSeqlensOnRank cu_seqlens_on_cp_rank(std::span<const std::int32_t> cu_seqlens,
                                      std::span<const std::int32_t> cu_seqlens_padded, int cp_size,
                                      CpRank rank) {
  require_valid_rank({cp_size, CpLayout::zigzag}, rank);
  require_cumulative(cu_seqlens, "cu_seqlens");
  require_cumulative(cu_seqlens_padded, "cu_seqlens_padded");
  if (cu_seqlens.size() != cu_seqlens_padded.size()) {
    throw InputError("cu_seqlens", "has " + format_plain_count(std::ssize(cu_seqlens), "entry", "entries") +
                                       ", but cu_seqlens_padded has " +
                                       std::to_string(cu_seqlens_padded.size()));
  }
  const std::int64_t chunks = 2 * std::int64_t{cp_size};
  CuSeqlensOnRank result{{0}, {0}, {0}};
  for (std::size_t i = 0; i + 1 < cu_seqlens.size(); ++i) {
    const std::int64_t length = std::int64_t{cu_seqlens[i + 1]} - cu_seqlens[i];
    const std::int64_t aligned = std::int64_t{cu_seqlens_padded[i + 1]} - cu_seqlens_padded[i];
    require_equal_chunks(aligned, chunks);
    if (length > aligned) {
      throw InputError("sequence " + std::to_string(i), "has " + format_plain_count(length, "token") +
                                                            ", but only " +
                                                            format_plain_count(aligned, "padded row"));
    }
    const std::int64_t chunk = aligned / chunks;
    const auto true_tokens = [&](std::int64_t chunk_number) {
      return narrow<std::int32_t>(std::clamp(length - chunk_number * chunk, std::int64_t{0}, chunk),
                                  "cu_seqlens");
    };
    result.first.push_back(result.first.back() + true_tokens(rank.value()));
    result.second.push_back(result.second.back() + true_tokens(chunks - 1 - rank.value()));
    result.both.push_back(result.first.back() + result.second.back());
  }
  return result;
}

}  // namespace evenkeel
