#include "support/failing_new.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace evenkeel::testing_support {
namespace {

std::atomic<bool> armed{false};
std::atomic<bool> has_fired{false};
std::atomic<bool> all_from_there{false};
std::atomic<std::int64_t> next_allocation{0};
std::atomic<std::int64_t> failing_allocation{-1};

bool fails_now() noexcept {
  if (!armed) return false;
  const std::int64_t number = next_allocation++;
  const std::int64_t failing = failing_allocation;
  if (failing < 0 || (number != failing && !(all_from_there && number > failing))) return false;
  has_fired = true;
  return true;
}

void* allocate(std::size_t bytes, std::size_t alignment) noexcept {
  if (fails_now()) return nullptr;
  bytes = bytes == 0 ? 1 : bytes;
  if (alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__) return std::malloc(bytes);
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void* allocate_or_throw(std::size_t bytes, std::size_t alignment) {
  if (void* memory = allocate(bytes, alignment)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void FailingNew::arm(std::int64_t fails, Reach reach) noexcept {
  next_allocation = 0;
  failing_allocation = fails;
  all_from_there = reach == Reach::rest;
  has_fired = false;
  armed = true;
}

std::int64_t FailingNew::disarm() noexcept {
  armed = false;
  return next_allocation;
}

bool FailingNew::fired() noexcept {
  return has_fired;
}

FailingNew::Paused::Paused() noexcept : was_armed_(armed.exchange(false)) {}

FailingNew::Paused::~Paused() {
  armed = was_armed_;
}

}  // namespace evenkeel::testing_support

// Replaces the program's own, as the standard lets a program do. The forms for arrays call these.
void* operator new(std::size_t bytes) {
  return evenkeel::testing_support::allocate_or_throw(bytes, 1);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return evenkeel::testing_support::allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  return evenkeel::testing_support::allocate(bytes, 1);
}
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t& /*tag*/) noexcept {
  return evenkeel::testing_support::allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}
