#include "evenkeel/pack/prefix/predictions.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "pack/length_checks.hpp"
#include "pack/packed_walk.hpp"
#include "pack/position_runs.hpp"
#include "pack/prefix/segment_runs.hpp"

namespace evenkeel {
namespace {

constexpr CpRank no_rank{-1};

struct PackedPlace {
  CpRank rank = no_rank;
  std::int64_t row = -1;
};

/// Returns the CP rank and the local row of each true row of a packed layout, in ragged order.
std::vector<PackedPlace> places_of_rows(const PackedLayout& layout) {
  std::vector<PackedPlace> places(static_cast<std::size_t>(layout.num_tokens()));
  for (int rank = 0; rank < layout.cp().size; ++rank) {
    const auto record_places = [&](const PackedRun& run) {
      const std::int64_t first = layout.cu_seqlens()[static_cast<std::size_t>(run.index)];
      for (std::int64_t i = 0; i < run.sequence.size(); ++i) {
        places[static_cast<std::size_t>(first + run.sequence.begin + i)] = {CpRank{rank}, run.local + i};
      }
    };
    walk_packed_rows(layout, CpRank{rank}, record_places, do_nothing);
  }
  return places;
}

/// Calls visit(run, rows, path) for each run of one CP rank that contains predicting rows of the sample:
/// local rows whose token 1 + `ahead` positions later is a response token. `rows` are these rows, and `path`
/// is the sample's path from the run's segment to its last segment.
template <typename Visit>
void for_each_predicting_run(const PrefixTree& tree, const SegmentRuns& runs, std::int64_t sample,
                             std::int64_t prompt, std::int64_t ahead, Visit visit) {
  // Positions in the sample for which the token 1 + `ahead` positions later is a response token.
  const RowRange predicting{prompt - 1 - ahead, tree.sample_length(sample) - 1 - ahead};
  const std::vector<std::int64_t> path = tree.path_to(tree.sample_end(sample));
  for (std::size_t p = 0; p < path.size(); ++p) {
    const RowRange of_segment = runs.runs_of(path[p]);
    for (std::int64_t r = of_segment.begin; r < of_segment.end; ++r) {
      const std::int64_t shift = runs.shift_of(r);
      const RowRange rows{std::max(runs[r].local, predicting.begin + shift),
                          std::min(runs[r].local + runs[r].sequence.size(), predicting.end + shift)};
      if (rows.begin < rows.end) visit(r, rows, std::span(path).subspan(p));
    }
  }
}

/// Same as above, for all samples. Calls visit(sample, run, rows, path).
template <typename Visit>
void for_each_predicting_run(const PackedTreeLayout& layout, const SegmentRuns& runs,
                             std::span<const std::int64_t> prompt_lengths, std::int64_t ahead, Visit visit) {
  const PrefixTree& tree = layout.tree();
  require_entries(prompt_lengths.size(), tree.num_samples(), "prompt lengths");
  for (std::int64_t i = 0; i < tree.num_samples(); ++i) {
    const std::int64_t prompt = prompt_lengths[static_cast<std::size_t>(i)];
    require_valid_prompt(i, prompt, tree.sample_length(i));
    for_each_predicting_run(tree, runs, i, prompt, ahead,
                            [&](std::int64_t r, RowRange rows, auto path) { visit(i, r, rows, path); });
  }
}

/// Throws InputError unless every number is in 0..size-1.
void require_inside(std::span<const std::int64_t> numbers, std::int64_t size, const char* what) {
  if (numbers.empty()) return;
  const auto [least, most] = std::ranges::minmax(numbers);
  if (least >= 0 && most < size) return;
  throw InputError(what, "the predictions refer to rows " + std::to_string(least) + " to " +
                             std::to_string(most) + ", but the number of rows is " + std::to_string(size));
}

/// Calls visit(local, response) for each prediction. The arguments are the indexes of the first elements of
/// its local row and its response row in arrays with `row_size` elements per row.
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
  if (width < 0) throw InputError("row width", "is " + std::to_string(width) + "; it must be at least 0");
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
    require_valid_prompt(i, prompt, tree.sample_length(i));
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
                                           std::span<const std::int64_t> prompt_lengths, CpRank rank,
                                           std::int64_t ahead) {
  std::vector<PredictionRun> runs;
  for_each_predicting_run(layout, SegmentRuns(layout, rank), prompt_lengths, ahead,
                          [&](std::int64_t sample, std::int64_t, RowRange rows, const auto&) {
                            runs.push_back({sample, rows});
                          });
  return runs;
}

void derive_labels(const PackedTreeLayout& layout, std::span<const std::int64_t> prompt_lengths, CpRank rank,
                   std::span<const std::int64_t> local_tokens, std::span<const std::int64_t> halo,
                   std::span<std::int64_t> out, std::int64_t reach, std::int64_t ahead) {
  const FollowingTokens tokens(layout, rank, local_tokens, halo, reach);
  std::int64_t predictions = 0;
  for_each_predicting_run(layout, tokens.runs(), prompt_lengths, ahead,
                          [&](std::int64_t, std::int64_t run, RowRange rows, const auto& path) {
                            const std::int64_t first = std::exchange(predictions, predictions + rows.size());
                            if (predictions > std::ssize(out)) return;
                            tokens.write(run, rows, 1 + ahead, path, -1,
                                         out.subspan(static_cast<std::size_t>(first)));
                          });
  require_entries(out.size(), predictions, "labels");
}

void derive_tokens_ahead(const PackedTreeLayout& layout, CpRank rank,
                         std::span<const std::int64_t> local_tokens, std::span<const std::int64_t> halo,
                         std::int64_t reach, std::int64_t ahead, std::int64_t pad,
                         std::span<std::int64_t> out) {
  require_entries(out.size(), layout.segments().local_rows(), "tokens ahead");
  std::ranges::fill(out, pad);
  const PrefixTree& tree = layout.tree();
  const FollowingTokens tokens(layout, rank, local_tokens, halo, reach);
  std::vector<std::int64_t> path;
  for (std::int64_t r = 0; r < tokens.runs().size(); ++r) {
    const PackedRun& run = tokens.runs()[r];
    const RowRange rows{run.local, run.local + run.sequence.size()};
    const std::int64_t end = tree.segment(run.index).depth + run.sequence.end + ahead;
    path = {run.index};
    for (std::int64_t s = run.index + 1; s < tree.size() && tree.segment(s).parent == path.back() &&
                                         tree.segment(path.back()).source().end < end;
         ++s)
      path.push_back(s);
    tokens.write(r, rows, ahead, path, pad, out.subspan(static_cast<std::size_t>(rows.begin)));
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
