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
  forwarded += other.forwarded;
  messages += other.messages;
  return *this;
}

ExchangeFigures& ExchangeFigures::operator+=(const ExchangeFigures& more) {
  volume += more.volume;
  bytes_to.resize(std::max(bytes_to.size(), more.bytes_to.size()));
  std::ranges::transform(more.bytes_to, bytes_to, bytes_to.begin(), std::plus());
  for (const FieldVolume& of_field : more.volumes) add_volume(volumes, of_field);
  return *this;
}

}  // namespace evenkeel
