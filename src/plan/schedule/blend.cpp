#include "plan/schedule/blend.hpp"

#include <algorithm>
#include <utility>

#include "evenkeel/base/assertions.hpp"
#include "plan/schedule/seeded_order.hpp"

namespace evenkeel {

Blend::Blend(std::vector<ScheduledSource> parts, bool shuffle, std::uint64_t seed)
    : parts_(std::move(parts)), shuffle_(shuffle), seed_(seed), orders_(parts_.size()) {
  std::int64_t before = 0;
  for (const ScheduledSource& part : parts_) {
    EVENKEEL_PRECONDITION(cheap, part.samples >= 1 && part.epochs >= 1 && part.weight >= 1, part.samples,
                          part.epochs, part.weight);
    offsets_.push_back(before);
    before += part.samples;
    size_ += part.draws();
  }
}

void Blend::draw(std::int64_t round, std::int64_t first, std::span<std::int64_t> out) {
  EVENKEEL_PRECONDITION(cheap, 0 <= first && first + std::ssize(out) <= size_, first, out.size(), size_);
  if (parts_.size() == 1) return draw_from_single_part(round, first, out);
  if (round != round_ || first < taken_) begin_round(round);
  while (taken_ < first) static_cast<void>(draw_next());
  for (std::int64_t& position : out) position = draw_next();
}

void Blend::draw_from_single_part(std::int64_t round, std::int64_t first, std::span<std::int64_t> out) {
  round_ = round;
  for (std::int64_t& position : out) position = this->position(0, first++);
}

void Blend::begin_round(std::int64_t round) {
  round_ = round;
  taken_ = 0;
  states_.assign(parts_.size(), {});
  heap_.clear();
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    prepare_next(part);
    heap_.push_back(part);
  }
  std::ranges::make_heap(heap_, [&](std::size_t a, std::size_t b) { return is_drawn_later(a, b); });
}

void Blend::prepare_next(std::size_t part) {
  State& state = states_[part];
  state.next = position(part, state.drawn);
  state.next_size = parts_[part].size ? parts_[part].size(state.next - offsets_[part]) : 1;
}

// Weights are below 2^31 and sizes below 2^62, so products fit in 128 bits.
bool Blend::is_drawn_later(std::size_t a, std::size_t b) const noexcept {
  __extension__ using Wide = __int128;
  const auto ahead = [&](std::size_t part) {
    return 2 * static_cast<Wide>(states_[part].sizes) + static_cast<Wide>(states_[part].next_size);
  };
  const Wide of_a = ahead(a) * static_cast<Wide>(parts_[b].weight);
  const Wide of_b = ahead(b) * static_cast<Wide>(parts_[a].weight);
  return of_a != of_b ? of_a > of_b : a > b;
}

std::int64_t Blend::draw_next() {
  const auto later = [&](std::size_t a, std::size_t b) { return is_drawn_later(a, b); };
  std::ranges::pop_heap(heap_, later);
  const std::size_t part = heap_.back();
  State& state = states_[part];
  const std::int64_t taken = state.next;
  ++taken_;
  ++state.drawn;
  state.sizes += state.next_size;
  if (state.drawn < parts_[part].draws()) {
    prepare_next(part);
    std::ranges::push_heap(heap_, later);
  } else {
    heap_.pop_back();
  }
  return taken;
}

// The first part is shuffled as if it were the only source.
std::int64_t Blend::position(std::size_t part, std::int64_t draw) {
  const std::int64_t samples = parts_[part].samples;
  const std::int64_t at = draw % samples;
  if (!shuffle_) return offsets_[part] + at;
  const std::int64_t epoch = round_ * parts_[part].epochs + draw / samples;
  Order& order = orders_[part];
  if (order.epoch != epoch) {
    const auto number = static_cast<std::uint64_t>(epoch);
    order.positions =
        part == 0 ? seeded_order(samples, seed_, {number}) : seeded_order(samples, seed_, {number, part});
    order.epoch = epoch;
  }
  return offsets_[part] + order.positions[static_cast<std::size_t>(at)];
}

}  // namespace evenkeel
