#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "base/narrow.hpp"
#include "bench/benchmarks.hpp"
#include "bench/data/route_bench.hpp"
#include "bench/machine.hpp"
#include "bench/measurement.hpp"
#include "bench/plan/lengths.hpp"
#include "bench/python.hpp"
#include "bench/python_scripts.hpp"
#include "evenkeel/pack/padded.hpp"
#include "evenkeel/pack/prefix/layout.hpp"
#include "pack/derived_fields.hpp"
#include "pack/pack_rows.hpp"

namespace evenkeel::bench {
namespace {

using Bytes = std::vector<std::byte>;
using Lengths = std::vector<std::int64_t>;

constexpr LogNormal one_batch{7.5, 1.0, 1, 8192};
constexpr std::int64_t responses_in_group = 8;

/// Sets of equal buffers; each call uses the next set. With many sets, a call finds its data in memory and
/// not in a cache; with one set, it finds as much of it in caches as they can hold. Buffers begin at a page
/// boundary, where memcpy is fastest.
class Buffers {
 public:
  Buffers(std::size_t count, std::size_t bytes) : bytes_(bytes), buffers_(count, Bytes(bytes + page)) {
    for (std::size_t b = 0; b < count; ++b) {
      const std::span<std::byte> buffer = (*this)[b];
      for (std::size_t i = 0; i < bytes; ++i) buffer[i] = static_cast<std::byte>(i * 7 + i / 251);
    }
  }
  [[nodiscard]] std::span<std::byte> operator[](std::size_t call) {
    void* begin = buffers_[call % buffers_.size()].data();
    std::size_t space = bytes_ + page;
    return {static_cast<std::byte*>(std::align(page, bytes_, begin, space)), bytes_};
  }

 private:
  static constexpr std::size_t page = 4096;
  std::size_t bytes_;
  std::vector<Bytes> buffers_;
};

/// Enough sets to evict a set from the largest cache before it is used again.
std::size_t sets_for(std::size_t bytes) {
  const auto cache = static_cast<std::size_t>(largest_cache(this_machine()));
  return std::clamp<std::size_t>(4 * cache / std::max<std::size_t>(bytes, 1) + 1, 3, 16);
}

void require_equal(std::span<const std::byte> left, std::span<const std::byte> right, const char* what) {
  if (!std::ranges::equal(left, right)) throw std::logic_error(std::string(what) + " changed the data");
}

std::vector<std::span<std::byte>> parts_of(std::span<std::byte> all, int parts) {
  std::vector<std::span<std::byte>> result;
  const std::size_t size = all.size() / static_cast<std::size_t>(parts);
  for (int p = 0; p < parts; ++p) result.push_back(all.subspan(static_cast<std::size_t>(p) * size, size));
  return result;
}

std::vector<std::span<const std::byte>> constant(std::span<const std::span<std::byte>> parts) {
  return {parts.begin(), parts.end()};
}

class PackBenchmark {
 public:
  explicit PackBenchmark(const PackOptions& options)
      : options_(options),
        lengths_(made_up_lengths(options.sequences, options.seed, one_batch)),
        packed_(lengths_, 1, {}),
        cut_(lengths_, CpGroup{options.cp}.chunks(), {options.cp}),
        ragged_bytes_(static_cast<std::size_t>(packed_.num_tokens()) * options.row_bytes),
        cut_bytes_(static_cast<std::size_t>(cut_.num_rows()) * options.row_bytes),
        sets_(options.warm ? 1 : sets_for(cut_bytes_)),
        sources_(sets_, cut_bytes_),
        targets_(sets_, cut_bytes_) {}

  [[nodiscard]] Report run() {
    Report report{"pack",
                  {{"sequences", lengths_.size()},
                   {"lengths", fmt::format("lognormal({}, {}) cut to [{}, {}], seed {}", one_batch.mu,
                                           one_batch.sigma, one_batch.min, one_batch.max, options_.seed)},
                   {"tokens", packed_.num_tokens()},
                   {"row_bytes", options_.row_bytes},
                   {"cp", options_.cp},
                   {"rounds", options_.rounds},
                   {"buffer_sets", sets_}},
                  {},
                  {}};
    check();
    const std::vector<Samples> ragged = measure_in_turn(ragged_cases(), options_.rounds);
    report.tables.push_back(
        timing_table("ragged",
                     fmt::format("Ragged rows, {}, against memcpy of the same bytes",
                                 options_.warm ? "the same buffers in every call" : "cache-cold"),
                     ragged, std::vector(ragged.size(), Yardstick{as_int(ragged_bytes_)})));
    if (!options_.warm) {
      report.tables.push_back(padded());
      report.tables.push_back(grouped());
      report.tables.push_back(derived());
      add_routes(options_, report);
    }
    compare_with_torch(ragged, report);
    return report;
  }

 private:
  [[nodiscard]] static std::int64_t as_int(std::size_t bytes) { return narrow<std::int64_t>(bytes, "bytes"); }
  [[nodiscard]] std::span<std::byte> ragged_of(std::span<std::byte> buffer) const {
    return buffer.first(ragged_bytes_);
  }

  /// Checks that packing and cutting can be undone exactly before measuring times.
  void check() {
    const std::span<std::byte> source = ragged_of(sources_[0]);
    Bytes packed(ragged_bytes_);
    pack_rows(packed_, CpRank{0}, source, {}, packed);
    require_equal(source, packed, "packing");
    Bytes cut(cut_bytes_);
    Bytes merged(ragged_bytes_);
    const auto locals = parts_of(cut, options_.cp);
    pack_all_ranks(cut_, source, {}, locals);
    unpack_all_ranks(cut_, constant(locals), merged);
    require_equal(source, merged, "cutting and merging");
  }

  [[nodiscard]] std::vector<Case> ragged_cases() {
    const CpRank only{0};
    return {
        {"memcpy",
         [this](std::size_t i) { std::memcpy(targets_[i].data(), sources_[i].data(), ragged_bytes_); }},
        {"pack",
         [=, this](std::size_t i) {
           pack_rows(packed_, only, ragged_of(sources_[i]), {}, ragged_of(targets_[i]));
         }},
        {"pack, 2 threads",
         [=, this](std::size_t i) {
           pack_rows(packed_, only, ragged_of(sources_[i]), {}, ragged_of(targets_[i]), 2);
         }},
        {"unpack",
         [=, this](std::size_t i) {
           unpack_rows(packed_, only, ragged_of(sources_[i]), ragged_of(targets_[i]));
         }},
        {"zigzag cut, all ranks at once",
         [this](std::size_t i) {
           pack_all_ranks(cut_, ragged_of(sources_[i]), {}, parts_of(targets_[i], options_.cp));
         }},
        {"zigzag cut, all ranks at once, 2 threads",
         [this](std::size_t i) {
           pack_all_ranks(cut_, ragged_of(sources_[i]), {}, parts_of(targets_[i], options_.cp), 2);
         }},
        {"zigzag cut, rank by rank",
         [this](std::size_t i) {
           const auto locals = parts_of(targets_[i], options_.cp);
           for (CpRank rank{0}; rank.value() < options_.cp; rank = CpRank{rank.value() + 1})
             pack_rows(cut_, rank, ragged_of(sources_[i]), {}, locals[rank.index()]);
         }},
        {"zigzag merge, all ranks at once",
         [this](std::size_t i) {
           const auto locals = parts_of(sources_[i], options_.cp);
           unpack_all_ranks(cut_, constant(locals), ragged_of(targets_[i]));
         }},
        {"zigzag merge, rank by rank",
         [this](std::size_t i) {
           const auto locals = parts_of(sources_[i], options_.cp);
           for (CpRank rank{0}; rank.value() < options_.cp; rank = CpRank{rank.value() + 1})
             unpack_rows(cut_, rank, locals[rank.index()], ragged_of(targets_[i]));
         }},
    };
  }

  /// Pads [batch, seq] tensors on the right, and removes the padding.
  [[nodiscard]] Table padded() {
    const std::int64_t seq = std::ranges::max(lengths_);
    const TokenPlaces places(lengths_, seq, PaddingSide::right);
    const std::vector<std::uint8_t> mask = places.mask();
    const PaddedMask padded{packed_.size(), seq, mask};
    const std::size_t padded_bytes = mask.size() * options_.row_bytes;
    Buffers tensors(sets_for(padded_bytes), padded_bytes);
    const std::vector<Case> cases{
        {"memcpy of the tokens",
         [&](std::size_t i) { std::memcpy(targets_[i].data(), sources_[i].data(), ragged_bytes_); }},
        {"remove padding (reads the mask too)",
         [&](std::size_t i) {
           remove_padding(padded, options_.row_bytes, tensors[i], ragged_of(targets_[i]));
         }},
        {"memcpy of the padded tensor",
         [&](std::size_t i) { std::memcpy(tensors[i].data(), tensors[i + 1].data(), padded_bytes); }},
        {"restore padding (reads the mask too)",
         [&](std::size_t i) {
           restore_padding(padded, options_.row_bytes, ragged_of(sources_[i]), {}, tensors[i]);
         }},
        {"pad right",
         [&](std::size_t i) {
           pad_right(lengths_, {}, seq, options_.row_bytes, ragged_of(sources_[i]), {}, tensors[i]);
         }},
    };
    const std::vector<Samples> samples = measure_in_turn(cases, options_.rounds / 2 + 1);
    const std::int64_t ragged = as_int(ragged_bytes_);
    const std::int64_t written = as_int(padded_bytes);
    return timing_table("padded", "[batch, seq] tensors padded on the right", samples,
                        std::vector<Yardstick>{{ragged}, {ragged}, {written, 2}, {written, 2}, {written, 2}});
  }

  /// Shared prefixes: groups of `responses_in_group` sequences; the prefix is as long as the first sequence.
  [[nodiscard]] Table grouped() {
    std::vector<std::vector<std::int64_t>> groups;
    for (std::size_t first = 0; first + responses_in_group <= lengths_.size(); first += responses_in_group) {
      std::vector<std::int64_t> group(
          lengths_.begin() + static_cast<std::ptrdiff_t>(first),
          lengths_.begin() + static_cast<std::ptrdiff_t>(first) + responses_in_group);
      group.insert(group.begin(), group.front());
      groups.push_back(std::move(group));
    }
    if (groups.empty()) groups.push_back({1, 1});
    const PrefixLayout layout{PrefixGroups(groups)};
    const RowFormat format{options_.row_bytes};
    const auto bytes_of = [&](PaddedShape shape) {
      return static_cast<std::size_t>(shape.batch * shape.width) * options_.row_bytes;
    };
    const std::size_t grouped_bytes = bytes_of(layout.grouped().shape());
    const std::size_t prefix_bytes = bytes_of(layout.prefix().target.shape());
    const std::size_t suffix_bytes = bytes_of(layout.suffix().target.shape());
    Buffers together(sets_for(grouped_bytes), grouped_bytes);
    Buffers prefixes(sets_for(prefix_bytes + suffix_bytes), prefix_bytes);
    Buffers suffixes(sets_for(prefix_bytes + suffix_bytes), suffix_bytes);
    const std::vector<Case> cases{
        {"memcpy of the grouped tensor",
         [&](std::size_t i) { std::memcpy(together[i].data(), together[i + 1].data(), grouped_bytes); }},
        {"group",
         [&](std::size_t i) {
           move_tokens(layout.prefix().target, layout.prefix().source, format, prefixes[i], together[i]);
           move_tokens(layout.suffix().target, layout.suffix().source, format, suffixes[i], together[i]);
           fill_padding(layout.grouped(), format, {}, together[i]);
         }},
        {"memcpy of prefixes and suffixes",
         [&](std::size_t i) {
           std::memcpy(prefixes[i].data(), prefixes[i + 1].data(), prefix_bytes);
           std::memcpy(suffixes[i].data(), suffixes[i + 1].data(), suffix_bytes);
         }},
        {"ungroup",
         [&](std::size_t i) {
           for (const auto& [map, target] :
                {std::pair{&layout.prefix(), prefixes[i]}, std::pair{&layout.suffix(), suffixes[i]}}) {
             move_tokens(map->source, map->target, format, together[i], target);
             fill_padding(map->target, format, {}, target);
           }
         }},
    };
    const std::vector<Samples> samples = measure_in_turn(cases, options_.rounds / 2 + 1);
    const std::int64_t joined = as_int(grouped_bytes);
    const std::int64_t apart = as_int(prefix_bytes + suffix_bytes);
    return timing_table("groups", fmt::format("Prefix groups of {}", responses_in_group), samples,
                        std::vector<Yardstick>{{joined}, {joined}, {apart, 2}, {apart, 2}});
  }

  /// Fields derived from tokens and lengths, for one CP rank.
  [[nodiscard]] Table derived() {
    const auto rows = static_cast<std::size_t>(cut_.local_rows());
    const std::size_t sets = sets_for(rows * sizeof(std::int64_t));
    std::vector<std::vector<std::int64_t>> tokens(sets, std::vector<std::int64_t>(rows, 1));
    std::vector<std::vector<std::int64_t>> out(sets, std::vector<std::int64_t>(rows));
    std::vector<std::vector<float>> masks(sets, std::vector<float>(rows));
    const CpRank rank{0};
    const std::vector<std::int64_t> halo(packed_runs(cut_, rank).size(), 1);
    const std::vector<std::int64_t> prompts(lengths_.size(), 1);
    const std::vector<Case> cases{
        {"memcpy of int64 rows",
         [&](std::size_t i) { std::ranges::copy(tokens[i % sets], out[i % sets].begin()); }},
        {"labels",
         [&](std::size_t i) { derive_labels(cut_, rank, tokens[i % sets], halo, -100, out[i % sets]); }},
        {"position ids", [&](std::size_t i) { derive_position_ids(cut_, rank, out[i % sets]); }},
        {"loss mask", [&](std::size_t i) { derive_loss_mask(cut_, rank, prompts, masks[i % sets]); }},
    };
    const std::vector<Samples> samples = measure_in_turn(cases, options_.rounds);
    const std::int64_t wide = as_int(rows * sizeof(std::int64_t));
    return timing_table("derived", "Derived tensors of one CP rank", samples,
                        std::vector<Yardstick>{{wide}, {wide}, {wide}, {as_int(rows * sizeof(float))}});
  }

  void compare_with_torch(std::span<const Samples> ours, Report& report) const {
    if (options_.row_bytes != sizeof(std::int64_t)) return;
    const PythonAnswer answer = run_python(options_.python, pack_loop_script,
                                           {{"lengths", lengths_},
                                            {"cp", options_.cp},
                                            {"rounds", std::min(options_.rounds, 11)},
                                            {"sets", sets_}});
    if (!answer.problem.empty()) {
      report.notes.push_back("No comparison with PyTorch: " + answer.problem);
      return;
    }
    const auto torch_ms = [&](const char* name) {
      return 1e3 * median(answer.value.at("seconds").at(name).get<std::vector<double>>());
    };
    const auto our_ms = [&](std::string_view name) {
      return 1e3 * median(std::ranges::find(ours, name, &Samples::name)->seconds);
    };
    Table table("torch",
                "Loops over sequences in PyTorch " + answer.value.at("version").get<std::string>() +
                    ", one thread, the same lengths in the same run",
                {{"case", "loop"},
                 {"torch_ms", "torch, ms", 3},
                 {"ours_name", "ours"},
                 {"ours_ms", "ours, ms", 3},
                 {"speed", "x", 1}});
    const auto add = [&](const char* loop, const char* torch, const std::string& ours_name) {
      table.add({loop, torch_ms(torch), ours_name, our_ms(ours_name), torch_ms(torch) / our_ms(ours_name)});
    };
    add("one copy (no loop)", "copy", "memcpy");
    for (const std::string threads : {"", ", 2 threads"}) {
      add("copy each sequence to its place", "pack_into", "pack" + threads);
      add("pad each sequence, cat", "pad_and_cat", "pack" + threads);
      add("pad, slice and cat, all zigzag ranks", "zigzag", "zigzag cut, all ranks at once" + threads);
    }
    report.tables.push_back(std::move(table));
  }

  PackOptions options_;
  Lengths lengths_;
  PackedLayout packed_;
  PackedLayout cut_;
  std::size_t ragged_bytes_;
  std::size_t cut_bytes_;
  std::size_t sets_;
  Buffers sources_;
  Buffers targets_;
};

}  // namespace

Report bench_pack(const PackOptions& options) {
  return PackBenchmark(options).run();
}

}  // namespace evenkeel::bench
