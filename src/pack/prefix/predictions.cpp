#include "evenkeel/pack/prefix/predictions.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <string>

#include "evenkeel/base/error.hpp"
#include "pack/packed_walk.hpp"
#include "pack/position_runs.hpp"
#include "pack/prompt_lengths.hpp"

namespace evenkeel {
namespace {

constexpr CpRank no_rank{-1};

struct PackedPlace {
  CpRank rank = no_rank;
  std::int64_t row = -1;
};

/// Where each true row of a packed layout stands, in ragged order.
std::vector<PackedPlace> places_of_rows(const PackedLayout& layout) {
  std::vector<PackedPlace> places(static_cast<std::size_t>(layout.num_tokens()));
  for (int rank = 0; rank < layout.cp().size; ++rank) {
    const auto note = [&](const PackedRun& run) {
      const std::int64_t first = layout.cu_seqlens()[static_cast<std::size_t>(run.index)];
      for (std::int64_t i = 0; i < run.sequence.size(); ++i) {
        places[static_cast<std::size_t>(first + run.sequence.begin + i)] = {CpRank{rank}, run.local + i};
      }
    };
    walk_packed_rows(layout, CpRank{rank}, note, pass_by);
  }
  return places;
}

/// The runs of one CP rank, and which of them are of each segment.
struct SegmentRuns {
  SegmentRuns(const PackedLayout& segments, CpRank rank) : runs(packed_runs(segments, rank)) {
    first.resize(static_cast<std::size_t>(segments.size()) + 1);
    for (const PackedRun& run : runs) ++first[static_cast<std::size_t>(run.index) + 1];
    std::partial_sum(first.begin(), first.end(), first.begin());
  }
  [[nodiscard]] RowRange of(std::int64_t segment) const {
    const auto s = static_cast<std::size_t>(segment);
    return {first[s], first[s + 1]};
  }
  [[nodiscard]] const PackedRun& operator[](std::int64_t run) const {
    return runs[static_cast<std::size_t>(run)];
  }

  std::vector<PackedRun> runs;
  std::vector<std::int64_t> first;  // segments + 1
};

/// Lists what one CP rank predicts, sample by sample.
class PredictionWalk {
 public:
  PredictionWalk(const PackedTreeLayout& layout, CpRank rank)
      : tree_(layout.tree()), runs_(layout.segments(), rank) {}

  void add_sample(std::int64_t sample, std::int64_t prompt, std::vector<PredictionRun>& found) const {
    const RowRange predicting{prompt - 1, tree_.sample_length(sample) - 1};  // positions
    const std::vector<std::int64_t> path = tree_.path_to(tree_.sample_end(sample));
    for (std::size_t p = 0; p < path.size(); ++p) {
      const RowRange runs = runs_.of(path[p]);
      for (std::int64_t r = runs.begin; r < runs.end; ++r) {
        const std::int64_t shift = runs_[r].local - tree_.segment(path[p]).depth - runs_[r].sequence.begin;
        const std::int64_t run_end = runs_[r].local + runs_[r].sequence.size();
        const RowRange rows{std::max(runs_[r].local, predicting.begin + shift),
                            std::min(run_end, predicting.end + shift)};
        if (rows.begin >= rows.end) continue;
        PredictionRun& run = found.emplace_back(PredictionRun{sample, rows, rows.end, -1});
        if (rows.end == run_end) find_next(r, std::span(path).subspan(p), run);
      }
    }
  }

 private:
  /// The token after run r of the first segment of a path.
  void find_next(std::int64_t r, std::span<const std::int64_t> path, PredictionRun& run) const {
    run.next_row = -1;
    run.halo = r;
    if (runs_[r].sequence.end < tree_.segment(path.front()).rows.size()) return;
    const auto has_rows = [&](std::int64_t s) { return !tree_.segment(s).rows.empty(); };
    const std::int64_t next = *std::ranges::find_if(path.subspan(1), has_rows);
    const RowRange runs = runs_.of(next);
    run.halo = std::ssize(runs_.runs) + next;
    if (runs.empty() || runs_[runs.begin].sequence.begin != 0) return;
    run.next_row = runs_[runs.begin].local;
    run.halo = -1;
  }

  const PrefixTree& tree_;
  SegmentRuns runs_;
};

/// Throws unless every number is in 0..size-1.
void require_inside(std::span<const std::int64_t> numbers, std::int64_t size, const char* what) {
  if (numbers.empty()) return;
  const auto [least, most] = std::ranges::minmax(numbers);
  if (least >= 0 && most < size) return;
  throw InputError(what, "the predictions have rows " + std::to_string(least) + " to " +
                             std::to_string(most) + "; there are " + std::to_string(size));
}

std::int64_t num_predictions(std::span<const PredictionRun> runs) {
  std::int64_t predictions = 0;
  for (const PredictionRun& run : runs) predictions += run.rows.size();
  return predictions;
}

/// Calls visit(first element of the local row, first element of the response row) for each prediction.
template <typename Visit>
void for_each_prediction(const LocalPredictions& predictions, std::size_t row_size, std::size_t local_size,
                         std::size_t response_size, Visit visit) {
  require_entries(predictions.entries.size(), std::ssize(predictions.rows), "entries of predictions");
  if (row_size == 0) return;
  require_inside(predictions.rows, static_cast<std::int64_t>(local_size / row_size), "local rows");
  require_inside(predictions.entries, static_cast<std::int64_t>(response_size / row_size), "response rows");
  for (std::size_t i = 0; i < predictions.rows.size(); ++i) {
    visit(static_cast<std::size_t>(predictions.rows[i]) * row_size,
          static_cast<std::size_t>(predictions.entries[i]) * row_size);
  }
}

template <typename T>
void add_gradients(const LocalPredictions& predictions, std::int64_t width, std::span<const T> responses,
                   std::span<T> local) {
  if (width < 0) throw InputError("row width", std::to_string(width) + " is negative");
  const auto row_size = static_cast<std::size_t>(width);
  for_each_prediction(predictions, row_size, local.size(), responses.size(),
                      [&](std::size_t to, std::size_t from) {
                        for (std::size_t d = 0; d < row_size; ++d) local[to + d] += responses[from + d];
                      });
}

}  // namespace

PredictionMap predictions(const PackedTreeLayout& layout, std::span<const std::int64_t> prompt_lengths) {
  const PrefixTree& tree = layout.tree();
  require_entries(prompt_lengths.size(), tree.num_samples(), "prompt lengths");
  const std::vector<PackedPlace> places = places_of_rows(layout.segments());
  PredictionMap map;
  for (std::int64_t i = 0; i < tree.num_samples(); ++i) {
    const std::int64_t prompt = prompt_lengths[static_cast<std::size_t>(i)];
    require_prompt(i, prompt, tree.sample_length(i));
    const std::vector<std::int64_t> rows = tree.prediction_rows(i);
    for (const std::int64_t row : std::span(rows).subspan(static_cast<std::size_t>(prompt))) {
      const PackedPlace place = row == -1 ? PackedPlace{} : places[static_cast<std::size_t>(row)];
      map.rank.push_back(place.rank);
      map.row.push_back(place.row);
    }
    map.offsets.push_back(std::ssize(map.row));
  }
  return map;
}

PredictionMap predictions(const PackedPrefixLayout& layout) {
  const PrefixGroups& groups = layout.groups();
  std::vector<std::int64_t> prompts;
  for (std::int64_t g = 0; g < groups.size(); ++g) {
    prompts.resize(static_cast<std::size_t>(groups.suffixes_of(g).end), groups.prefix(g));
  }
  return predictions(PackedTreeLayout(layout), prompts);
}

LocalPredictions predictions_on(const PredictionMap& map, CpRank rank) {
  LocalPredictions local;
  for (std::size_t e = 0; e < map.row.size(); ++e) {
    if (map.rank[e] != rank || rank == no_rank) continue;
    local.rows.push_back(map.row[e]);
    local.entries.push_back(static_cast<std::int64_t>(e));
  }
  return local;
}

std::vector<PredictionRun> prediction_runs(const PackedTreeLayout& layout,
                                           std::span<const std::int64_t> prompt_lengths, CpRank rank) {
  const PrefixTree& tree = layout.tree();
  require_entries(prompt_lengths.size(), tree.num_samples(), "prompt lengths");
  const PredictionWalk walk(layout, rank);
  std::vector<PredictionRun> runs;
  for (std::int64_t i = 0; i < tree.num_samples(); ++i) {
    const std::int64_t prompt = prompt_lengths[static_cast<std::size_t>(i)];
    require_prompt(i, prompt, tree.sample_length(i));
    walk.add_sample(i, prompt, runs);
  }
  return runs;
}

void derive_labels(std::span<const PredictionRun> runs, std::span<const std::int64_t> local_tokens,
                   std::span<const std::int64_t> halo, std::span<std::int64_t> out) {
  require_entries(out.size(), num_predictions(runs), "labels");
  auto label = out.begin();
  for (const PredictionRun& run : runs) {
    require_inside(std::array{run.rows.begin, run.rows.end - 1}, std::ssize(local_tokens), "local tokens");
    label = std::ranges::copy(local_tokens.begin() + run.rows.begin + 1, local_tokens.begin() + run.rows.end,
                              label)
                .out;
    const std::span<const std::int64_t> last = run.next_row >= 0 ? local_tokens : halo;
    const std::int64_t at = run.next_row >= 0 ? run.next_row : run.halo;
    require_inside(std::span(&at, 1), std::ssize(last), run.next_row >= 0 ? "local tokens" : "halo tokens");
    *label++ = last[static_cast<std::size_t>(at)];
  }
}

void gather_predictions(const LocalPredictions& predictions, std::size_t row_bytes,
                        std::span<const std::byte> local, std::span<std::byte> responses) {
  for_each_prediction(predictions, row_bytes, local.size(), responses.size(),
                      [&](std::size_t from, std::size_t to) {
                        std::memcpy(responses.data() + to, local.data() + from, row_bytes);
                      });
}

void add_prediction_gradients(const LocalPredictions& predictions, std::int64_t width,
                              std::span<const float> responses, std::span<float> local) {
  add_gradients(predictions, width, responses, local);
}
void add_prediction_gradients(const LocalPredictions& predictions, std::int64_t width,
                              std::span<const double> responses, std::span<double> local) {
  add_gradients(predictions, width, responses, local);
}

}  // namespace evenkeel
