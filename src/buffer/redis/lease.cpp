#include "buffer/redis/lease.hpp"

#include <fmt/format.h>

#include <array>
#include <random>
#include <utility>

#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

constexpr std::chrono::milliseconds lease_patience{2000};

/// Acquires or renews the lease if no other server holds it. Returns the value of the lease's key, which
/// identifies the holder. If Redis is out of memory, it refuses a script whose first write command may need
/// memory. Therefore, the script runs DEL on the missing key before SET.
constexpr const char* look_script = R"(
local value = redis.call('GET', KEYS[1])
if value == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
elseif not value then
  redis.call('DEL', KEYS[1])
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  value = ARGV[1]
end
return value
)";

constexpr const char* give_back_script = R"(
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1
)";

std::string make_random_token() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

/// Returns the URL from a lease value of the form "TOKEN URL".
std::string parse_holder_url(std::string_view value) {
  const std::size_t space = value.find(' ');
  return space == std::string_view::npos ? std::string() : std::string(value.substr(space + 1));
}

}  // namespace

Lease::Lease(RedisAddress address, const std::string& name, std::string url, LeaseTimes times)
    : address_(std::move(address)),
      keys_(name),
      url_(std::move(url)),
      times_(times),
      candidate_(make_random_token() + " " + url_) {
  acquire_or_renew();
  thread_ = std::thread([this] { renew_until_ended(); });
}

Lease::~Lease() {
  stop_and_release();
}

Lease::State Lease::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

Lease::State Lease::wait_for_change_from(const State& before) const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock,
                [&] { return state_.value != before.value || state_.holder != before.holder || is_ending_; });
  return state_;
}

void Lease::acquire_or_renew() {
  if (connection_ == nullptr || !connection_->is_open())
    connection_ = connect_to_master(address_, keys_.about, lease_patience);
  const bool is_over = [&] {
    const std::lock_guard lock(mutex_);
    return !state_.value.empty() && !state_.is_held();
  }();
  // Another server may have held the lease in the meantime. A new value of the lease makes this server begin
  // a new term (SharedServer) and read the store again.
  if (is_over) candidate_ = make_random_token() + " " + url_;
  const Clock::time_point asked = Clock::now();
  const std::string valid = std::to_string(times_.valid.count());
  const std::array<std::string_view, 2> arguments{candidate_, valid};
  const RedisReply reply = connection_->run_script(look_script, std::span(&keys_.lease, 1), arguments);
  const std::lock_guard lock(mutex_);
  state_.holder = parse_holder_url(reply.text());
  state_.value = reply.text() == candidate_ ? candidate_ : std::string();
  if (!state_.value.empty()) state_.valid_until = asked + times_.valid;
  changed_.notify_all();
}

void Lease::renew_until_ended() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, times_.between, [&] { return is_ending_; });
      if (is_ending_) return;
    }
    try {
      acquire_or_renew();
    } catch (const Error&) {
      connection_.reset();
    }
  }
}

void Lease::stop_and_release() {
  {
    const std::lock_guard lock(mutex_);
    if (is_ending_) return;
    is_ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
  if (state_.value.empty()) return;
  try {
    release();
  } catch (const Error&) {
    // Ignore the error, since a lease that is not renewed lapses.
  }
  const std::lock_guard lock(mutex_);
  state_ = {};
}

void Lease::release() {
  if (connection_ == nullptr) connection_ = connect_to_master(address_, keys_.about, lease_patience);
  const std::array<std::string_view, 1> mine{candidate_};
  connection_->run_script(give_back_script, std::span(&keys_.lease, 1), mine);
}

}  // namespace evenkeel
