#include "stream/key.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <variant>

#include "base/hash.hpp"
#include "base/utf8.hpp"

namespace evenkeel::stream {
namespace {

__extension__ using Bits128 = unsigned __int128;

/// 128-bit FNV-1a (Fowler, Noll, Vo).
class Fnv128 {
 public:
  void add(unsigned char byte) noexcept { hash_ = (hash_ ^ byte) * prime; }
  void add(std::string_view text) noexcept {
    for (const char c : text) add(static_cast<unsigned char>(c));
  }
  void add(std::uint64_t number) noexcept {
    for (int byte = 0; byte < 8; ++byte, number >>= 8) add(static_cast<unsigned char>(number & 0xff));
  }
  [[nodiscard]] GroupKey key() const noexcept {
    return {static_cast<std::uint64_t>(hash_ >> 64), static_cast<std::uint64_t>(hash_)};
  }

 private:
  static constexpr Bits128 prime = (Bits128{1} << 88) + 0x13b;
  Bits128 hash_ = (Bits128{0x6c62272e07bb0142} << 64) + 0x62b821756295c58d;
};

/// Kind of a uid. It is hashed before the uid's value, so uids of different kinds have different keys even if
/// their values have the same bytes.
enum class UidKind : unsigned char { none, number, negative, text };

constexpr std::int64_t indexes_of_slot = 63;
constexpr std::uint64_t ended_bit = std::uint64_t{1} << indexes_of_slot;
constexpr std::size_t max_recent_slots = 4096;

/// Returns the slot for the group's indexes in [63 * page, 63 * (page + 1)). The slot of page 0 is the
/// group's own key.
GroupKey slot_of(const GroupKey& group, std::int64_t page) noexcept {
  if (page == 0) return group;
  const auto number = static_cast<std::uint64_t>(page);
  return {mix_64(group.high + number), mix_64(group.low ^ number)};
}

/// Returns the slot that contains the sample's content hash. Samples 2n and 2n + 1 of a group share a slot.
/// The page numbers of these slots are higher than those of all slots for indexes.
GroupKey content_slot_of(const GroupKey& group, std::int64_t index) noexcept {
  return slot_of(group, (std::int64_t{1} << 32) + index / 2);
}

constexpr int content_shift(std::int64_t index) noexcept {
  return index % 2 == 0 ? 0 : 32;
}

constexpr std::uint64_t bit_of(std::int64_t index) noexcept {
  return std::uint64_t{1} << (index % indexes_of_slot);
}

}  // namespace

GroupKey group_key(const Uid& uid) noexcept {
  Fnv128 hash;
  const auto add = [&](UidKind kind, auto value) {
    hash.add(static_cast<unsigned char>(kind));
    hash.add(value);
  };
  if (const auto* text = std::get_if<std::string>(&uid)) {
    add(UidKind::text, std::string_view(*text));
  } else if (const auto* number = std::get_if<std::int64_t>(&uid)) {
    add(*number < 0 ? UidKind::negative : UidKind::number, static_cast<std::uint64_t>(*number));
  } else if (const auto* large = std::get_if<std::uint64_t>(&uid)) {
    add(UidKind::number, *large);
  } else {
    hash.add(static_cast<unsigned char>(UidKind::none));
  }
  return hash.key();
}

std::string to_text(const Uid& uid) {
  if (const auto* text = std::get_if<std::string>(&uid))
    return std::string("'").append(printable(*text)).append("'");
  if (const auto* number = std::get_if<std::int64_t>(&uid)) return std::to_string(*number);
  if (const auto* large = std::get_if<std::uint64_t>(&uid)) return std::to_string(*large);
  return "without a uid";
}

SeenKeys::SeenKeys(std::span<const SeenSlot> slots) : sorted_(slots.begin(), slots.end()) {
  std::ranges::sort(sorted_, {}, &SeenSlot::slot);
}

std::uint64_t SeenKeys::bits_of(const GroupKey& slot) const noexcept {
  const auto found = std::ranges::lower_bound(sorted_, slot, {}, &SeenSlot::slot);
  if (found != sorted_.end() && found->slot == slot) return found->bits;
  const auto recent = recent_.find(slot);
  return recent == recent_.end() ? 0 : recent->second;
}

/// Returns the slot's bits. If the slot is new, adds it with the value 0.
std::uint64_t& SeenKeys::find_or_add_bits(const GroupKey& slot) {
  const auto found = std::ranges::lower_bound(sorted_, slot, {}, &SeenSlot::slot);
  return found != sorted_.end() && found->slot == slot ? found->bits : recent_[slot];
}

/// Merges the new slots into the sorted slots if there are many new slots.
void SeenKeys::merge_recent() {
  if (recent_.size() <= std::max(max_recent_slots, sorted_.size() / 16)) return;
  const auto old = std::ssize(sorted_);
  for (const auto& [key, value] : recent_) sorted_.push_back({key, value});
  recent_.clear();
  std::ranges::inplace_merge(sorted_, sorted_.begin() + old, {}, &SeenSlot::slot);
}

SeenSlot SeenKeys::add_bits(const GroupKey& slot, std::uint64_t bits) {
  const SeenSlot changed{slot, find_or_add_bits(slot) |= bits};
  merge_recent();
  return changed;
}

void SeenKeys::put(const SeenSlot& slot) {
  find_or_add_bits(slot.slot) = slot.bits;
  merge_recent();
}

std::optional<std::uint32_t> SeenKeys::content_hash(const GroupKey& group,
                                                    std::int64_t index) const noexcept {
  if ((bits_of(slot_of(group, index / indexes_of_slot)) & bit_of(index)) == 0) return std::nullopt;
  return static_cast<std::uint32_t>(bits_of(content_slot_of(group, index)) >> content_shift(index));
}

bool SeenKeys::has_ended(const GroupKey& group) const noexcept {
  return (bits_of(group) & ended_bit) != 0;
}

std::vector<std::int64_t> SeenKeys::indexes(const GroupKey& group, std::int64_t group_size) const {
  std::vector<std::int64_t> indexes;
  for (std::int64_t first = 0; first < group_size; first += indexes_of_slot) {
    const std::uint64_t bits = bits_of(slot_of(group, first / indexes_of_slot));
    for (std::int64_t i = first; i < std::min(group_size, first + indexes_of_slot); ++i)
      if ((bits & bit_of(i)) != 0) indexes.push_back(i);
  }
  return indexes;
}

std::array<SeenSlot, 2> SeenKeys::add(const GroupKey& group, std::int64_t index, std::uint32_t content) {
  return {add_bits(slot_of(group, index / indexes_of_slot), bit_of(index)),
          add_bits(content_slot_of(group, index), std::uint64_t{content} << content_shift(index))};
}

SeenSlot SeenKeys::mark_ended(const GroupKey& group) {
  return add_bits(group, ended_bit);
}

std::int64_t SeenKeys::bytes() const noexcept {
  return static_cast<std::int64_t>((sorted_.size() + recent_.size()) * sizeof(SeenSlot));
}

std::vector<SeenSlot> SeenKeys::slots() const {
  std::vector<SeenSlot> slots;
  for (const auto& [key, value] : recent_) slots.push_back({key, value});
  slots.insert(slots.end(), sorted_.begin(), sorted_.end());
  std::ranges::sort(slots, {}, &SeenSlot::slot);
  return slots;
}

}  // namespace evenkeel::stream
