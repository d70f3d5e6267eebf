#include "exchange/samples/exchange_figures.hpp"

#include <algorithm>
#include <functional>

namespace evenkeel {

void add_volume(std::vector<FieldVolume>& volumes, const FieldVolume& more) {
  const auto found = std::ranges::find(volumes, more.name, &FieldVolume::name);
  FieldVolume& volume = found != volumes.end() ? *found : volumes.emplace_back(FieldVolume{more.name});
  volume.changed = volume.changed || more.changed;
  volume.received += more.received;
  volume.copied += more.copied;
}

ExchangeVolume& ExchangeVolume::operator+=(const ExchangeVolume& other) noexcept {
  sent += other.sent;
  between_nodes += other.between_nodes;
  kept += other.kept;
  copied += other.copied;
  passed_on += other.passed_on;
  messages += other.messages;
  return *this;
}

ExchangeFigures& ExchangeFigures::operator+=(const ExchangeFigures& more) {
  const auto add = [](std::vector<std::int64_t>& bytes, const std::vector<std::int64_t>& of_more) {
    bytes.resize(std::max(bytes.size(), of_more.size()));
    std::ranges::transform(of_more, bytes, bytes.begin(), std::plus());
  };
  volume += more.volume;
  add(bytes_to, more.bytes_to);
  add(bytes_from_data_ranks, more.bytes_from_data_ranks);
  for (const FieldVolume& of_field : more.volumes) add_volume(volumes, of_field);
  return *this;
}

}  // namespace evenkeel
