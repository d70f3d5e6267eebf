#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/prefix/layout.hpp"
#include "golden/families.hpp"
#include "golden/nested_lists.hpp"
#include "support/grouped_attention.hpp"
#include "support/prefix_tensors.hpp"

namespace evenkeel::golden {
namespace {

using testing_support::AttentionGradients;
using testing_support::group;
using testing_support::GroupedAttention;
using testing_support::HeadCounts;
using testing_support::move_and_pad;
using testing_support::ungroup;

PaddingSide padding_side(const json& mode) {
  return mode == "left" ? PaddingSide::left : PaddingSide::right;
}

PrefixLayout layout_of(const PrefixGroups& groups, const json& padding_mode) {
  if (padding_mode.is_string()) return PrefixLayout(groups, padding_side(padding_mode));
  return PrefixLayout(groups, Mask(padding_mode).view());
}

PrefixLayout layout_of(const json& input) {
  const PrefixGroups groups(input.at("group_info").get<std::vector<Integers>>());
  return layout_of(groups, input.at("padding_mode"));
}

json group_info_of(const PrefixGroups& groups) {
  json group_info = json::array();
  for (std::int64_t g = 0; g < groups.size(); ++g) {
    Integers lengths{groups.prefix(g)};
    for (std::int64_t i = groups.suffixes_of(g).begin; i < groups.suffixes_of(g).end; ++i) {
      lengths.push_back(groups.suffix(i));
    }
    group_info.push_back(lengths);
  }
  return group_info;
}

std::vector<std::size_t> shape_of(const TokenPlaces& places, std::vector<std::size_t> inner = {}) {
  std::vector<std::size_t> shape{static_cast<std::size_t>(places.shape().batch),
                                 static_cast<std::size_t>(places.shape().width)};
  shape.insert(shape.end(), inner.begin(), inner.end());
  return shape;
}

/// [batch, heads, width, dim]
std::vector<std::size_t> headed_shape_of(const TokenPlaces& places, std::size_t heads, std::size_t dim) {
  const std::vector<std::size_t> shape = shape_of(places);
  return {shape[0], heads, shape[1], dim};
}

std::size_t elements_of(const std::vector<std::size_t>& shape) {
  std::size_t elements = 1;
  for (const std::size_t extent : shape) elements *= extent;
  return elements;
}

json nested_mask(const TokenPlaces& places) {
  return nest<std::uint8_t>(places.mask(), shape_of(places));
}

json index_list(const TokenPlaces& places) {
  json indices = json::array();
  for (const TokenPosition& at : places.positions()) indices.push_back({at.row, at.column});
  return indices;
}

json group_info(const json& input) {
  const PrefixLayout layout = layout_of(input);
  const PrefixGroups& groups = layout.groups();
  Integers num_samples;
  Integers suffix_lens;
  Integers total_lens;
  for (std::int64_t g = 0; g < groups.size(); ++g) {
    num_samples.push_back(groups.suffixes_of(g).size());
    suffix_lens.push_back(groups.num_tokens(g) - groups.prefix(g));
    total_lens.push_back(groups.num_tokens(g));
  }
  const std::vector<std::uint8_t> prefix_attn_mask = layout.prefix_attention_mask();
  const std::vector<std::uint8_t> suffix_attn_mask = layout.suffix_attention_mask();
  return {{"padding_mask", nested_mask(layout.grouped())},
          {"grouped_prefix_mask", nested_mask(layout.prefix().source)},
          {"grouped_suffix_mask", nested_mask(layout.suffix().source)},
          {"ungrouped_prefix_mask", nested_mask(layout.prefix().target)},
          {"ungrouped_suffix_mask", nested_mask(layout.suffix().target)},
          {"prefix_attn_mask", nest<std::uint8_t>(prefix_attn_mask, shape_of(layout.prefix().target))},
          {"suffix_attn_mask", nest<std::uint8_t>(suffix_attn_mask, shape_of(layout.suffix_keys().target))},
          {"grouped_prefix_indices", index_list(layout.prefix().source)},
          {"grouped_suffix_indices", index_list(layout.suffix().source)},
          {"ungrouped_prefix_indices", index_list(layout.prefix().target)},
          {"ungrouped_suffix_indices", index_list(layout.suffix().target)},
          {"prefix_lens", groups.prefix_lengths()},
          {"grouped_suffix_lens", suffix_lens},
          {"ungrouped_suffix_lens", groups.suffix_lengths()},
          {"num_samples", num_samples},
          {"total_lens", total_lens},
          {"x_shape", shape_of(layout.grouped())},
          {"prefix_x_shape", shape_of(layout.prefix().target)},
          {"suffix_x_shape", shape_of(layout.suffix().target)}};
}

Integers joined(const PrefixLayout& layout, const json& prefix, const Mask& prefix_mask, const json& suffix,
                const Mask& suffix_mask, std::int64_t pad) {
  const Integers prefix_ids = flatten<std::int64_t>(prefix);
  const Integers suffix_ids = flatten<std::int64_t>(suffix);
  Integers grouped(elements_of(shape_of(layout.grouped())));
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(grouped));
  const RowFormat format{sizeof(std::int64_t)};
  move_tokens(TokenPlaces(prefix_mask.view()), layout.prefix().source, format,
              std::as_bytes(std::span(prefix_ids)), bytes);
  move_tokens(TokenPlaces(suffix_mask.view()), layout.suffix().source, format,
              std::as_bytes(std::span(suffix_ids)), bytes);
  fill_padding(layout.grouped(), format, std::as_bytes(std::span(&pad, 1)), bytes);
  return grouped;
}

json concat_input_case(const json& input) {
  const PrefixLayout layout = layout_of(input);
  const Integers grouped = joined(layout, input.at("prefix"), Mask(input.at("prefix_mask")),
                                  input.at("suffix"), Mask(input.at("suffix_mask")), 0);
  return {{"grouped", nest<std::int64_t>(grouped, shape_of(layout.grouped()))}};
}

/// The reference pads the suffix rows of a prefix that is too short; that must be requested explicitly here.
json split_output_case(const json& input) {
  const PrefixSplit split = layout_of(input).split(input.at("include_prefix_last"), ShortPrefix::pad);
  const std::vector<double> grouped = flatten<double>(input.at("output"));
  const std::size_t dim = input.at("output")[0][0].size();
  const auto prefix_shape = shape_of(split.prefix.target, {dim});
  const auto suffix_shape = shape_of(split.suffix.target, {dim});
  std::vector<double> prefix(elements_of(prefix_shape));
  std::vector<double> suffix(elements_of(suffix_shape));
  const RowFormat format{dim * sizeof(double)};
  const auto source = std::as_bytes(std::span(grouped));
  move_and_pad(split.prefix, format, source, {}, std::as_writable_bytes(std::span(prefix)));
  move_and_pad(split.suffix, format, source, {}, std::as_writable_bytes(std::span(suffix)));
  return {{"prefix_output", nest<double>(prefix, prefix_shape)},
          {"suffix_output", nest<double>(suffix, suffix_shape)},
          {"prefix_mask", nested_mask(split.prefix.target)},
          {"suffix_mask", nested_mask(split.suffix.target)},
          {"prefix_shape", prefix_shape},
          {"suffix_shape", suffix_shape}};
}

/// [batch, heads, width, dim] -> [batch, width, heads, dim]
std::vector<double> heads_behind(const std::vector<double>& rows, const std::vector<std::size_t>& shape) {
  std::vector<double> turned;
  turned.reserve(rows.size());
  for (std::size_t b = 0; b < shape[0]; ++b) {
    for (std::size_t s = 0; s < shape[2]; ++s) {
      for (std::size_t h = 0; h < shape[1]; ++h) {
        const double* row = rows.data() + ((b * shape[1] + h) * shape[2] + s) * shape[3];
        turned.insert(turned.end(), row, row + shape[3]);
      }
    }
  }
  return turned;
}

json ungroup_case(const json& input) {
  const PrefixLayout layout = layout_of(input);
  const std::vector<double> x = flatten<double>(input.at("x"));
  const std::size_t heads = input.at("x")[0].size();
  const std::size_t dim = input.at("x")[0][0][0].size();
  const auto prefix_shape = headed_shape_of(layout.prefix().target, heads, dim);
  const auto suffix_shape = headed_shape_of(layout.suffix().target, heads, dim);
  std::vector<double> prefix(elements_of(prefix_shape));
  std::vector<double> suffix(elements_of(suffix_shape));
  ungroup(layout, {dim * sizeof(double), static_cast<std::int64_t>(heads)}, std::as_bytes(std::span(x)), {},
          std::as_writable_bytes(std::span(prefix)), std::as_writable_bytes(std::span(suffix)));

  const std::vector<double> turned_prefix = heads_behind(prefix, prefix_shape);
  const std::vector<double> turned_suffix = heads_behind(suffix, suffix_shape);
  std::vector<double> grouped(x.size());
  group(layout, {heads * dim * sizeof(double)}, std::as_bytes(std::span(turned_prefix)),
        std::as_bytes(std::span(turned_suffix)), {}, std::as_writable_bytes(std::span(grouped)));
  return {{"x_prefix", nest<double>(prefix, prefix_shape)},
          {"x_suffix", nest<double>(suffix, suffix_shape)},
          {"prefix_shape", prefix_shape},
          {"suffix_shape", suffix_shape},
          {"group_of_ungrouped", nest<double>(grouped, shape_of(layout.grouped(), {heads, dim}))}};
}

json convert_padding_case(const json& input) {
  const json& x = input.at("x");
  const json& mode = input.at("padding_mode");
  const Mask mask(input.at("x_mask"));
  const TokenPlaces from(mask.view());
  const TokenPlaces to = mode.is_string() ? padded_to_longest(mask.lengths(), padding_side(mode))
                                          : TokenPlaces(Mask(mode).view());
  std::vector<std::size_t> inner;
  if (x[0][0].is_array()) inner.push_back(x[0][0].size());
  const auto shape = shape_of(to, inner);
  const std::vector<double> source = flatten<double>(x);
  std::vector<double> target(elements_of(shape));
  require_same_rows(from, to);
  move_and_pad({from, to}, {elements_of(inner) * sizeof(double)}, std::as_bytes(std::span(source)), {},
               std::as_writable_bytes(std::span(target)));
  return {{"output", nest<double>(target, shape)}, {"shape", shape}};
}

json from_ungrouped_masks(const json& input) {
  const Mask prefix(input.at("prefix_mask"));
  const Mask suffix(input.at("suffix_mask"));
  const json& sizes = input.at("group_sizes");
  const PrefixGroups groups =
      sizes.is_number() ? PrefixGroups::from_masks(prefix.view(), suffix.view(), sizes.get<std::int64_t>())
                        : PrefixGroups::from_masks(prefix.view(), suffix.view(), sizes.get<Integers>());
  return {{"group_info", group_info_of(groups)},
          {"padding_mask", nested_mask(layout_of(groups, input.at("padding_mode")).grouped())}};
}

json position_ids_case(const json& input) {
  const PrefixLayout layout = layout_of(input);
  const auto shape = shape_of(layout.grouped());
  return {{"verl_position_ids", nest<std::int64_t>(layout.position_ids(0), shape)},
          {"qwen_example_text_position_ids", nest<std::int64_t>(layout.position_ids(1), shape)}};
}

/// Returns the first row of every run of equal uids, and the length of each run.
std::pair<std::vector<std::size_t>, Integers> stretches(const json& uids) {
  std::vector<std::size_t> first;
  Integers sizes;
  for (std::size_t i = 0; i < uids.size(); ++i) {
    if (i == 0 || uids[i] != uids[i - 1]) {
      first.push_back(i);
      sizes.push_back(0);
    }
    ++sizes.back();
  }
  return {first, sizes};
}

json build_from_micro_batch(const json& input) {
  const auto [first, sizes] = stretches(input.at("uid"));
  const std::int64_t pad = input.at("pad_token_id");
  json prompts = json::array();
  json prompt_mask = json::array();
  for (const std::size_t row : first) {
    prompts.push_back(input.at("prompts")[row]);
    json entries = json::array();
    for (const json& token : prompts.back()) entries.push_back(token == pad ? 0 : 1);
    prompt_mask.push_back(entries);
  }
  const Mask prefix_mask(prompt_mask);
  const Mask suffix_mask(input.at("response_mask"));
  const PrefixLayout layout(PrefixGroups::from_masks(prefix_mask.view(), suffix_mask.view(), sizes));
  const Integers grouped = joined(layout, prompts, prefix_mask, input.at("responses"), suffix_mask, pad);
  const auto shape = shape_of(layout.grouped());
  return {{"group_info", group_info_of(layout.groups())},
          {"concat_input_ids", nest<std::int64_t>(grouped, shape)},
          {"attention_mask", nested_mask(layout.grouped())},
          {"position_ids", nest<std::int64_t>(layout.position_ids(), shape)}};
}

json attention(const json& input) {
  const PrefixLayout layout = layout_of(input);
  const auto heads = input.at("q")[0].size();
  const auto kv_heads = input.at("k")[0].size();
  const auto dim = input.at("q")[0][0][0].size();
  const HeadCounts counts{static_cast<std::int64_t>(heads), static_cast<std::int64_t>(kv_heads),
                          static_cast<std::int64_t>(dim)};
  const GroupedAttention attention(layout, counts, {input.at("softmax_scale"), input.at("causal")},
                                   flatten<double>(input.at("q")), flatten<double>(input.at("k")),
                                   flatten<double>(input.at("v")));
  const AttentionGradients grads = attention.backward(flatten<double>(input.at("grad_out")));
  const auto q_shape = headed_shape_of(layout.grouped(), heads, dim);
  const auto kv_shape = headed_shape_of(layout.grouped(), kv_heads, dim);
  return {{"out", nest<double>(attention.forward(), shape_of(layout.grouped(), {heads, dim}))},
          {"dq", nest<double>(grads.q, q_shape)},
          {"dk", nest<double>(grads.k, kv_shape)},
          {"dv", nest<double>(grads.v, kv_shape)}};
}

json prefix_grouper(const json& input) {
  static const std::map<std::string, Family> operations{
      {"group_info", group_info},
      {"concat_input", concat_input_case},
      {"split_output", split_output_case},
      {"ungroup", ungroup_case},
      {"convert_padding", convert_padding_case},
      {"from_ungrouped_masks", from_ungrouped_masks},
      {"position_ids", position_ids_case},
      {"verl_build_pg_from_micro_batch", build_from_micro_batch},
      {"attention", attention}};
  return operations.at(input.at("op"))(input);
}

}  // namespace

std::map<std::string, Family> prefix_families() {
  return {{"prefix_grouper", prefix_grouper}};
}

}  // namespace evenkeel::golden
