#pragma once

#include <boost/archive/archive_exception.hpp>
#include <boost/serialization/map.hpp>
#include <boost/serialization/string.hpp>
#include <boost/serialization/vector.hpp>
#include <boost/serialization/version.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "evenkeel/config/config.hpp"

namespace evenkeel::config_detail {

/// One version covers Config and its parts: raise it when a member is added to any of them.
inline constexpr unsigned archive_version = 13;

}  // namespace evenkeel::config_detail

/// Boost.Serialization of Config, member by member, for any archive: this is how one rank's configuration
/// reaches the others. Exact. An archive of another version, newer or older, is refused by Boost's
/// archive_exception, a value that no word of a key stands for by ConfigError that names the key.
BOOST_CLASS_VERSION(evenkeel::Config, evenkeel::config_detail::archive_version)

namespace evenkeel::config_detail {

/// Archives an enumeration by its number. What does not even fit its type is refused here, what is none of
/// its values by the table of keys once all is loaded.
template <class Archive, class Enum>
void archive_enum(Archive& archive, Enum& value) {
  using Number = std::underlying_type_t<Enum>;
  auto number = static_cast<std::int64_t>(static_cast<Number>(value));
  archive& number;
  if constexpr (Archive::is_loading::value) {
    if (!std::in_range<Number>(number))
      throw ConfigError("archive of a configuration", "holds " + std::to_string(number) + " for a word");
    value = static_cast<Enum>(number);
  }
}

template <class Archive, class T>
void archive_optional(Archive& archive, std::optional<T>& value) {
  bool has_value = value.has_value();
  archive& has_value;
  if constexpr (Archive::is_loading::value) {
    value.reset();
    if (has_value) value.emplace();
  }
  if (!has_value) return;
  if constexpr (std::is_enum_v<T>) {
    archive_enum(archive, *value);
  } else {
    archive&* value;
  }
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
void serialize(Archive& archive, evenkeel::MeshSettings& mesh, unsigned /*version*/) {
  archive& mesh.tp& mesh.cp& mesh.pp& mesh.vpp;
  evenkeel::config_detail::archive_optional(archive, mesh.dp);
  archive& mesh.order& mesh.data_ranks& mesh.flexible_cp;
  evenkeel::config_detail::archive_optional(archive, mesh.max_cp);
  evenkeel::config_detail::archive_enum(archive, mesh.context_sizes);
}

template <class Archive>
void serialize(Archive& archive, evenkeel::SourceSettings& source, unsigned /*version*/) {
  evenkeel::config_detail::archive_optional(archive, source.kind);
  evenkeel::config_detail::archive_as_text(archive, source.path, [](const auto& it) { return it.string(); });
  archive& source.seed& source.samples& source.epochs& source.weight;
}

template <class Archive>
void serialize(Archive& archive, evenkeel::FilterSettings& filter, unsigned /*version*/) {
  evenkeel::config_detail::archive_enum(archive, filter.too_long);
  evenkeel::config_detail::archive_enum(archive, filter.empty);
  evenkeel::config_detail::archive_optional(archive, filter.max_length);
}

template <class Archive>
void serialize(Archive& archive, evenkeel::DelaySettings& delay, unsigned /*version*/) {
  archive& delay.steps;
  evenkeel::config_detail::archive_optional(archive, delay.longer_than);
  evenkeel::config_detail::archive_optional(archive, delay.companions);
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
void serialize(Archive& archive, evenkeel::EncoderCost& encoder, unsigned /*version*/) {
  archive& encoder.field& encoder.cost;
}

template <class Archive>
void serialize(Archive& archive, evenkeel::BalanceSettings& balance, unsigned /*version*/) {
  using evenkeel::config_detail::archive_enum;
  archive_enum(archive, balance.algorithm);
  archive& balance.cost& balance.equal_count& balance.refine;
  archive_enum(archive, balance.preset);
  archive_enum(archive, balance.strategy);
  archive_enum(archive, balance.placement);
  archive& balance.speeds;
  evenkeel::config_detail::archive_optional(archive, balance.encoder);
  evenkeel::config_detail::archive_optional(archive, balance.measured);
  archive& balance.placement_tolerance;
  evenkeel::config_detail::archive_optional(archive, balance.overhead);
  evenkeel::config_detail::archive_optional(archive, balance.communication.inside_node);
  evenkeel::config_detail::archive_optional(archive, balance.communication.between_nodes);
  evenkeel::config_detail::archive_optional(archive, balance.communication.ranks_per_node);
  archive& balance.communication.overlap;
}

template <class Archive>
void serialize(Archive& archive, evenkeel::MicroBatchSettings& micro_batch, unsigned /*version*/) {
  using evenkeel::config_detail::archive_enum;
  archive_enum(archive, micro_batch.mode);
  archive& micro_batch.max_tokens;
  evenkeel::config_detail::archive_optional(archive, micro_batch.max_tokens_per_rank);
  evenkeel::config_detail::archive_optional(archive, micro_batch.max_samples);
  archive& micro_batch.min_count;
  evenkeel::config_detail::archive_optional(archive, micro_batch.multiple_of);
  archive& micro_batch.size& micro_batch.length_round& micro_batch.shuffle;
  archive_enum(archive, micro_batch.order);
  evenkeel::config_detail::archive_optional(archive, micro_batch.packing);
  archive_enum(archive, micro_batch.count);
  evenkeel::config_detail::archive_optional(archive, micro_batch.shapes);
}

template <class Archive>
void serialize(Archive& archive, evenkeel::PackSettings& pack, unsigned /*version*/) {
  using evenkeel::config_detail::archive_enum;
  archive_enum(archive, pack.cp_layout);
  evenkeel::config_detail::archive_optional(archive, pack.align);
  archive& pack.align_lcm& pack.pad_token& pack.label_pad;
}

template <class Archive>
void serialize(Archive& archive, evenkeel::LossSettings& loss, unsigned /*version*/) {
  using evenkeel::config_detail::archive_enum;
  archive_enum(archive, loss.aggregation);
  archive_enum(archive, loss.micro_batches);
  archive_enum(archive, loss.dp_ranks);
  archive_enum(archive, loss.fully_masked);
  archive& loss.norm_length;
}

template <class Archive>
void serialize(Archive& archive, evenkeel::ExchangeSettings& exchange, unsigned /*version*/) {
  using evenkeel::config_detail::archive_enum;
  archive_enum(archive, exchange.path);
  archive_enum(archive, exchange.tp_copies);
  archive_enum(archive, exchange.aggregate);
  archive& exchange.prefetch;
}

template <class Archive>
void serialize(Archive& archive, evenkeel::JobWatchdogSettings& watchdog, unsigned /*version*/) {
  archive& watchdog.seconds;
}

template <class Archive>
void serialize(Archive& archive, evenkeel::LayerMap& layers, unsigned /*version*/) {
  archive& layers.stages;
}

template <class Archive>
void serialize(Archive& archive, evenkeel::FieldSettings& field, unsigned /*version*/) {
  using evenkeel::config_detail::archive_enum;
  evenkeel::config_detail::archive_optional(archive, field.layers);
  archive_enum(archive, field.stage);
  evenkeel::config_detail::archive_optional(archive, field.read_as);
  archive_enum(archive, field.wire);
  archive_enum(archive, field.hand_out);
  archive_enum(archive, field.share);
  archive& field.cut_by& field.profiles;
}

template <class Archive>
void serialize(Archive& archive, evenkeel::Profile& profile, unsigned /*version*/) {
  archive& profile.balance& profile.micro_batch& profile.pack& profile.loss;
}

template <class Archive>
void serialize(Archive& archive, evenkeel::Config& config, unsigned version) {
  if (version != evenkeel::config_detail::archive_version) {
    throw boost::archive::archive_exception(boost::archive::archive_exception::unsupported_class_version,
                                            "evenkeel::Config");
  }
  archive& config.mesh& config.source& config.sources& config.filter;
  evenkeel::config_detail::archive_enum(archive, config.mix);
  archive& config.field& config.fields;
  archive& config.batch& config.delay& config.mini_batches& config.balance;
  archive& config.micro_batch& config.pack;
  evenkeel::config_detail::archive_enum(archive, config.prefix);
  archive& config.loss& config.profiles& config.exchange& config.watchdog;
  if constexpr (Archive::is_loading::value) static_cast<void>(evenkeel::list_settings(config));
}

}  // namespace boost::serialization
