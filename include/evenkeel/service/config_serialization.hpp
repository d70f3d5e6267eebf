#pragma once

#include <boost/serialization/map.hpp>
#include <boost/serialization/string.hpp>
#include <boost/serialization/vector.hpp>
#include <boost/serialization/version.hpp>
#include <optional>
#include <string>
#include <utility>

#include "evenkeel/service/config.hpp"

/// Boost.Serialization of Config, member by member, for any archive: this is how one rank's configuration
/// reaches the others. Exact. An archive of a newer version is refused by Boost's archive_exception.
///
/// One version, Config's, covers the parts too: raise it when a member is added to any of them.
BOOST_CLASS_VERSION(evenkeel::Config, 4)

namespace evenkeel::config_detail {

template <class Archive, class T>
void archive_optional(Archive& archive, std::optional<T>& value) {
  bool has_value = value.has_value();
  archive& has_value;
  if constexpr (Archive::is_loading::value) {
    value.reset();
    if (has_value) value.emplace();
  }
  if (has_value) archive& value.value();
}

/// Archives a value as its text.
template <class Archive, class T, class ToText>
void archive_as_text(Archive& archive, T& value, ToText to_text) {
  std::string text;
  if constexpr (Archive::is_saving::value) text = to_text(value);
  archive& text;
  if constexpr (Archive::is_loading::value) value = T(text);
}

}  // namespace evenkeel::config_detail

namespace boost::serialization {

template <class Archive>
void serialize(Archive& archive, evenkeel::RankOrder& order, unsigned /*version*/) {
  evenkeel::config_detail::archive_as_text(archive, order, [](const auto& it) { return it.text(); });
}

template <class Archive>
void serialize(Archive& archive, evenkeel::MeshConfig& mesh, unsigned /*version*/) {
  archive& mesh.tp& mesh.cp& mesh.pp& mesh.vpp;
  evenkeel::config_detail::archive_optional(archive, mesh.dp);
  archive& mesh.order;
}

template <class Archive>
void serialize(Archive& archive, evenkeel::SourceConfig& source, unsigned /*version*/) {
  archive& source.kind;
  evenkeel::config_detail::archive_as_text(archive, source.path, [](const auto& it) { return it.string(); });
  archive& source.seed& source.samples;
}

template <class Archive>
void serialize(Archive& archive, evenkeel::ScheduleSettings& batch, unsigned /*version*/) {
  archive& batch.global_batch& batch.epochs& batch.shuffle& batch.seed& batch.drop_last;
}

template <class Archive>
void serialize(Archive& archive, evenkeel::MiniBatchSettings& mini_batches, unsigned /*version*/) {
  archive& mini_batches.count& mini_batches.keep& mini_batches.shuffle;
}

template <class Archive>
void serialize(Archive& archive, evenkeel::CostModel& cost, unsigned /*version*/) {
  archive& cost.linear& cost.quadratic& cost.window;
}

template <class Archive>
void serialize(Archive& archive, evenkeel::MeasuredCost& measured, unsigned /*version*/) {
  archive& measured.every& measured.window;
}

template <class Archive>
void serialize(Archive& archive, evenkeel::BalanceSettings& balance, unsigned /*version*/) {
  archive& balance.algorithm& balance.cost& balance.equal_count& balance.refine& balance.preset;
  archive& balance.strategy& balance.placement& balance.speeds;
  evenkeel::config_detail::archive_optional(archive, balance.measured);
  archive& balance.placement_tolerance;
}

template <class Archive>
void serialize(Archive& archive, evenkeel::MicroBatchSettings& micro_batch, unsigned /*version*/) {
  archive& micro_batch.mode& micro_batch.max_tokens;
  evenkeel::config_detail::archive_optional(archive, micro_batch.max_samples);
  archive& micro_batch.min_count;
  evenkeel::config_detail::archive_optional(archive, micro_batch.multiple_of);
  archive& micro_batch.size& micro_batch.length_round& micro_batch.shuffle& micro_batch.order;
  evenkeel::config_detail::archive_optional(archive, micro_batch.packing);
  archive& micro_batch.count;
}

template <class Archive>
void serialize(Archive& archive, evenkeel::PackConfig& pack, unsigned /*version*/) {
  archive& pack.cp_layout;
  evenkeel::config_detail::archive_optional(archive, pack.align);
  archive& pack.align_lcm& pack.pad_token& pack.label_pad;
}

template <class Archive>
void serialize(Archive& archive, evenkeel::LossSettings& loss, unsigned /*version*/) {
  archive& loss.aggregation& loss.micro_batches& loss.dp_ranks& loss.fully_masked& loss.norm_length;
}

template <class Archive>
void serialize(Archive& archive, evenkeel::ExchangeConfig& exchange, unsigned /*version*/) {
  archive& exchange.path& exchange.tp_copies& exchange.aggregate& exchange.prefetch;
}

template <class Archive>
void serialize(Archive& archive, evenkeel::Profile& profile, unsigned /*version*/) {
  archive& profile.balance& profile.micro_batch& profile.pack& profile.loss;
}

template <class Archive>
void serialize(Archive& archive, evenkeel::Config& config, unsigned /*version*/) {
  archive& config.mesh& config.source& config.batch& config.mini_batches& config.balance;
  archive& config.micro_batch& config.pack& config.prefix& config.loss& config.profiles& config.exchange;
}

}  // namespace boost::serialization
