#include <algorithm>
#include <cstring>
#include <functional>
#include <new>
#include <utility>

#include "batch/block_pool.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"

namespace evenkeel {
namespace {

static_assert(BlockPool::alignment % MicroBatchArena::alignment == 0);

constexpr std::size_t max_bytes = ~std::size_t{0} / 2;

constexpr std::size_t round_up_to_alignment(std::size_t bytes) noexcept {
  constexpr std::size_t unit = MicroBatchArena::alignment;
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

MicroBatchArena::MicroBatchArena(std::vector<Part> parts) : parts_(std::move(parts)) {
  for (Part& part : parts_) {
    if (part.bytes > max_bytes - bytes_) throw std::bad_alloc();
    part.offset = bytes_;
    bytes_ = round_up_to_alignment(bytes_ + part.bytes);
  }
  block_ = BlockPool::instance().allocate_block(bytes_);
}

MicroBatchArena& MicroBatchArena::operator=(const MicroBatchArena& other) noexcept {
  if (this != &other) *this = MicroBatchArena();
  return *this;
}

std::optional<std::size_t> MicroBatchArena::offset_of(std::span<const std::byte> bytes) const noexcept {
  const std::byte* const first = block_.get();
  const std::less<> before;
  if (first == nullptr || before(bytes.data(), first) || before(first + bytes_, bytes.data() + bytes.size()))
    return std::nullopt;
  return static_cast<std::size_t>(bytes.data() - first);
}

const std::byte* MicroBatchArena::find_copy(std::string_view name,
                                            std::span<const std::byte> bytes) const noexcept {
  for (const Part& part : parts_) {
    if (!part.taken || part.bytes != bytes.size() || part.name != name) continue;
    const std::byte* const at = block_.get() + part.offset;
    if (std::equal(bytes.begin(), bytes.end(), at)) return at;
  }
  return nullptr;
}

std::shared_ptr<std::byte> MicroBatchArena::take(std::string_view name, std::size_t bytes) noexcept {
  const auto is_free = [&](const Part& part) {
    return !part.taken && part.bytes == bytes && part.name == name;
  };
  const auto found = std::ranges::find_if(parts_, is_free);
  if (found == parts_.end()) return nullptr;
  found->taken = true;
  return {block_, block_.get() + found->offset};
}

void MicroBatchArena::write(std::string_view name, std::span<const std::byte> bytes) noexcept {
  const std::shared_ptr<std::byte> place = take(name, bytes.size());
  if (place && !bytes.empty()) std::memcpy(place.get(), bytes.data(), bytes.size());
}

}  // namespace evenkeel
