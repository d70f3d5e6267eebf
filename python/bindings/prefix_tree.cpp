// Samples that share prefixes, and prefixes of prefixes (include/evenkeel/pack/prefix: tree.hpp,
// packed.hpp, predictions.hpp).

#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/attention_masks.hpp"
#include "bindings/bindings.hpp"
#include "bindings/layout.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/prefix/packed.hpp"
#include "evenkeel/pack/prefix/predictions.hpp"

namespace evenkeel::python {
namespace py = pybind11;
namespace {

using Numbers = std::vector<std::int64_t>;

PrefixTree tree_of(py::handle parents, py::handle tokens, py::handle sample_ends) {
  const Numbers of_parents = integers_of(parents, "parents");
  const Numbers of_tokens = integers_of(tokens, "tokens");
  if (of_parents.size() != of_tokens.size())
    throw InputError("tokens", "there are " + std::to_string(of_tokens.size()) + " for " +
                                   std::to_string(of_parents.size()) + " segments");
  std::vector<TreeNode> nodes;
  for (std::size_t i = 0; i < of_parents.size(); ++i) nodes.push_back({of_parents[i], of_tokens[i]});
  return {nodes, integers_of(sample_ends, "sample_ends")};
}

PrefixTree tree_of_tokens(const py::iterable& samples, std::int64_t ahead) {
  std::vector<Numbers> tokens;
  for (const py::handle sample : samples)
    tokens.push_back(integers_of(sample, "samples[" + std::to_string(tokens.size()) + "]"));
  if (ahead < 0) throw InputError("ahead", std::to_string(ahead) + " is negative");
  const py::gil_scoped_release release;
  const std::vector<std::span<const std::int64_t>> views(tokens.begin(), tokens.end());
  return PrefixTree::of_tokens(views, ahead);
}

/// One number of every segment.
template <typename Of>
py::array_t<std::int64_t> of_segments(const PrefixTree& tree, Of of) {
  Numbers numbers;
  for (const TreeSegment& segment : tree.segments()) numbers.push_back(of(segment));
  return array_of(std::move(numbers));
}

std::int64_t sample_of(const PrefixTree& tree, std::int64_t sample) {
  return checked_index(sample, tree.num_samples(), "sample");
}

py::tuple pair_of(AncestorIntervals intervals) {
  return py::make_tuple(array_of(std::move(intervals.tin)), array_of(std::move(intervals.tout)));
}

py::dict savings_of(const PrefixTree& tree) {
  const SharingSavings savings = sharing_savings(tree);
  py::dict figures;
  figures["tokens"] = savings.tokens;
  figures["repeated_tokens"] = savings.repeated_tokens;
  figures["score_entries"] = savings.score_entries;
  figures["repeated_score_entries"] = savings.repeated_score_entries;
  return figures;
}

void bind_tree(py::module_& module) {
  py::class_<PrefixTree>(module, "PrefixTree",
                         R"(Samples that share prefixes, and prefixes of prefixes: every shared token once.

Segments are numbered depth-first, a parent, then the subtree of each child; their rows stand back to back in that order. A
sample is the path of segments from a root to the one where it ends (-1 for an empty sample). The constructor takes the
structure: each segment's parent (-1 for a root) and tokens, and the segment where each sample ends.)")
      .def(py::init(&tree_of), py::arg("parents"), py::arg("tokens"), py::arg("sample_ends"))
      .def_static("of_tokens", &tree_of_tokens, py::arg("samples"), py::kw_only(), py::arg("ahead") = 0,
                  "The tree of samples with these tokens, one integer array a sample: two share all tokens "
                  "up to the first "
                  "that differs, but for the last `ahead` of them: so many behind a shared token are equal, "
                  "too. Takes time in the order of the samples' total length.")
      .def_static("of_groups", &PrefixTree::of_groups, py::arg("groups"),
                  "The tree of PrefixGroups, whose tokens are not looked at: samples are the suffixes.")
      .def("__len__", &PrefixTree::size)
      .def_property_readonly("num_rows", &PrefixTree::num_rows, "Tokens, each shared one counted once.")
      .def_property_readonly("num_samples", &PrefixTree::num_samples)
      .def_property_readonly(
          "sample_ends", [](const PrefixTree& self) { return copy_of(self.sample_ends()); },
          "The segment where each sample ends; -1 for an empty one: [num_samples] int64.")
      .def_property_readonly(
          "parents",
          [](const PrefixTree& self) { return of_segments(self, [](const auto& s) { return s.parent; }); },
          "The segment in front of each; -1 for a root: [segments] int64.")
      .def_property_readonly(
          "lengths",
          [](const PrefixTree& self) {
            return of_segments(self, [](const auto& s) { return s.rows.size(); });
          },
          "Tokens of each segment: [segments] int64.")
      .def_property_readonly(
          "depths",
          [](const PrefixTree& self) { return of_segments(self, [](const auto& s) { return s.depth; }); },
          "Tokens in front of each segment in its samples: [segments] int64.")
      .def_property_readonly(
          "first_samples",
          [](const PrefixTree& self) {
            return of_segments(self, [](const auto& s) { return s.first_sample; });
          },
          "The lowest number of a sample that goes through each segment: [segments] int64.")
      .def_property_readonly(
          "samples_through",
          [](const PrefixTree& self) {
            return of_segments(self, [](const auto& s) { return s.num_samples; });
          },
          "How many samples go through each segment: [segments] int64.")
      .def(
          "sample_length",
          [](const PrefixTree& self, std::int64_t sample) {
            return self.sample_length(sample_of(self, sample));
          },
          py::arg("sample"), "In tokens.")
      .def(
          "rows_of",
          [](const PrefixTree& self, std::int64_t sample) {
            return array_of(self.rows_of(sample_of(self, sample)));
          },
          py::arg("sample"), "For every token of a sample its row: int64.")
      .def(
          "prediction_rows",
          [](const PrefixTree& self, std::int64_t sample) {
            return array_of(self.prediction_rows(sample_of(self, sample)));
          },
          py::arg("sample"), "For every token of a sample the row that predicts it; -1 for the first: int64.")
      .def(
          "path_to",
          [](const PrefixTree& self, std::int64_t segment) {
            return self.path_to(checked_index(segment, self.size(), "segment"));
          },
          py::arg("segment"), "The segments from a root to this one, both included.")
      .def(
          "subtree",
          [](const PrefixTree& self, py::handle samples) {
            return self.subtree(integers_of(samples, "samples"));
          },
          py::arg("samples"), "The tree of some of the samples, numbered as listed.")
      .def(
          "position_ids", [](const PrefixTree& self) { return array_of(position_ids(self)); },
          "Every row's position in its own samples: [num_rows] int64.")
      .def(
          "branch_states",
          [](const PrefixTree& self) {
            BranchStates states = branch_states(self);
            py::dict result;
            result["from"] = array_of(std::move(states.from));
            result["uses"] = array_of(std::move(states.uses));
            result["last_use"] = array_of(std::move(states.last_use));
            result["most_kept"] = states.most_kept;
            return result;
          },
          "For layers that carry a state from token to token, as a dict: for every segment the one whose "
          "last "
          "state it begins with (``from``; -1: at zero), how many begin with its own (``uses``) and the last "
          "of them (``last_use``), after which it may be freed; and how many are kept at once "
          "(``most_kept``).")
      .def(
          "ancestor_intervals", [](const PrefixTree& self) { return pair_of(ancestor_intervals(self)); },
          "(tin, tout), [num_rows] int64 each: query row q sees key row k if and only if tin[k] <= tin[q] < "
          "tout[k].")
      .def("savings", &savings_of,
           "Tokens and query-key pairs of causal attention, with sharing and with every sample on its own.")
      .def("__eq__", [](const PrefixTree& a, const PrefixTree& b) { return a == b; })
      .def("__eq__", [](const PrefixTree&, const py::object&) { return false; })
      .def("__repr__",
           [](const PrefixTree& self) {
             return "PrefixTree(" + std::to_string(self.num_samples()) + " samples, " +
                    std::to_string(self.num_rows()) + " rows in " + std::to_string(self.size()) +
                    " segments)";
           })
      .def(py::pickle(
          [](const PrefixTree& self) {
            return py::make_tuple(of_segments(self, [](const auto& s) { return s.parent; }),
                                  of_segments(self, [](const auto& s) { return s.rows.size(); }),
                                  copy_of(self.sample_ends()));
          },
          [](const py::tuple& state) { return tree_of(state[0], state[1], state[2]); }));
}

void bind_predictions(py::module_& module) {
  py::class_<PredictionMap>(module, "Predictions", R"(Where the prediction of every response token stands.

One entry a response token, sample after sample. A row in front of a branch predicts a token of every sample behind it, so
that it is listed for each.)")
      .def("__len__", &PredictionMap::size)
      .def_property_readonly(
          "offsets", [](const PredictionMap& self) { return copy_of(std::span(self.offsets)); },
          "Sample i has entries offsets[i] to offsets[i + 1]: [samples + 1] int64.")
      .def_property_readonly(
          "rank", [](const PredictionMap& self) { return integers_of_ids(self.rank); },
          "The CP rank that holds the row; -1 for a first token, which nothing predicts: int32.")
      .def_property_readonly(
          "row", [](const PredictionMap& self) { return copy_of(std::span(self.row)); },
          "The local row on that rank; -1 likewise: int64.")
      .def(
          "on",
          [](const PredictionMap& self, int cp_rank) {
            if (cp_rank < 0)
              throw InputError("context-parallel rank", std::to_string(cp_rank) + " is below 0");
            LocalPredictions local = predictions_on(self, CpRank{cp_rank});
            return py::make_tuple(array_of(std::move(local.rows)), array_of(std::move(local.entries)));
          },
          py::arg("cp_rank"),
          "(rows, entries) of one CP rank: the local rows to gather, logits.index_select(0, rows), and which "
          "entry each "
          "belongs to.");
}

/// A list of lists would lose dtypes: arrays by the names of the C++ struct.
py::dict attention_of(const PackedTreeLayout& layout, int cp_rank) {
  PrefixAttentionPlan plan = plan_prefix_attention(layout, checked_rank(layout.segments().cp(), cp_rank));
  Numbers key_rows;
  for (const RowRange& range : plan.key_rows) {
    for (std::int64_t row = range.begin; row < range.end; ++row) key_rows.push_back(row);
  }
  py::dict arguments;
  arguments["cu_seqlens_q"] = array_of(std::move(plan.cu_seqlens_q));
  arguments["cu_seqlens_q_padded"] = array_of(std::move(plan.cu_seqlens_q_padded));
  arguments["cu_seqlens_k"] = array_of(std::move(plan.cu_seqlens_k));
  arguments["cu_seqlens_k_padded"] = array_of(std::move(plan.cu_seqlens_k_padded));
  arguments["max_seqlen_q"] = plan.max_seqlen_q;
  arguments["max_seqlen_k"] = plan.max_seqlen_k;
  arguments["segment"] = array_of(std::move(plan.segment));
  arguments["key_rows"] = array_of(std::move(key_rows));
  return arguments;
}

void bind_packed_tree(py::module_& module) {
  py::class_<PackedTreeLayout> layout(module, "PackedTreeLayout", R"(A PrefixTree in one packed micro-batch.

Its segments stand back to back, each aligned and cut over the CP ranks on its own, as ``segments``, a PackedLayout, says.
Pack and merge through that, with the rows of the tree as ragged rows.)");
  layout
      .def(py::init([](PrefixTree tree, std::optional<std::int64_t> alignment, CpArgument cp, int tp) {
             return PackedTreeLayout(std::move(tree),
                                     alignment ? *alignment : sequence_alignment(tp, cp.group), cp.group);
           }),
           py::arg("tree"), py::kw_only(), py::arg("alignment") = py::none(), py::arg("cp") = CpGroup{},
           py::arg("tp") = 1)
      .def_static(
          "of_sequences", [](const PackedLayout& sequences) { return PackedTreeLayout(sequences); },
          py::arg("sequences"), "Sequences that share nothing: a root for each, for the same masks.")
      .def_property_readonly("tree", &PackedTreeLayout::tree)
      .def_property_readonly("segments", &PackedTreeLayout::segments)
      .def(
          "position_ids",
          [](const PackedTreeLayout& self, int cp_rank) {
            const CpRank rank = checked_rank(self.segments().cp(), cp_rank);
            Numbers positions(static_cast<std::size_t>(self.segments().local_rows()));
            derive_position_ids(self, rank, positions);
            return array_of(std::move(positions));
          },
          py::kw_only(), py::arg("cp_rank") = 0,
          "Of a CP rank's rows: every segment counts from its depth; pad rows run on: [local_rows] int64.")
      .def(
          "ancestor_intervals",
          [](const PackedTreeLayout& self, int cp_rank) {
            return pair_of(ancestor_intervals(self, checked_rank(self.segments().cp(), cp_rank)));
          },
          py::kw_only(), py::arg("cp_rank") = 0,
          "(tin, tout) of a CP rank's rows, pad rows included, numbered alike on all ranks: put the ranks' "
          "lists one after "
          "the other, as an all-gather puts their keys. No query sees a pad row.")
      .def(
          "depth_first",
          [](const PackedTreeLayout& self, std::optional<std::int64_t> max_kept) {
            return dict_of(depth_first_schedule(self, max_kept));
          },
          py::kw_only(), py::arg("max_kept") = py::none(),
          "How a trainer runs it with one path in memory at a time, as a dict: ``steps``, each ('push', "
          "'visit' or 'pop', piece), over pieces of segments, which are the local ``rows`` [pieces, 2], "
          "below "
          "``parents``, and attend to the keys and values of ``keys_before`` rows on their path and to their "
          "own; and ``most_keys`` and ``most_kept``, the rows whose keys and values, and of which all else, "
          "is there at once. With ``max_kept``, no more are kept, and the rows ``computed_again`` are pushed "
          "and later visited.")
      .def("attention", &attention_of, py::kw_only(), py::arg("cp_rank") = 0,
           "What a varlen attention kernel needs on a CP rank, as a dict: queries are the rank's rows as "
           "they stand, keys and "
           "values those of the whole micro-batch at key_rows, causal, aligned at the last query and key.")
      .def(
          "predictions",
          [](const PackedTreeLayout& self, py::handle prompt_lengths) {
            return predictions(self, integers_of(prompt_lengths, "prompt_lengths"));
          },
          py::arg("prompt_lengths"), "Predictions of all response tokens; one prompt length a sample.")
      .def("__eq__", [](const PackedTreeLayout& a, const PackedTreeLayout& b) { return a == b; })
      .def("__eq__", [](const PackedTreeLayout&, const py::object&) { return false; });
  bind_attention_masks(layout);
}

}  // namespace

void bind_prefix_tree(py::module_& module) {
  bind_tree(module);
  bind_predictions(module);
  bind_packed_tree(module);
}

}  // namespace evenkeel::python
