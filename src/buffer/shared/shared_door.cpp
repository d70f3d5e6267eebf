#include "buffer/shared/shared_door.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <utility>

#include "buffer/buffer.hpp"
#include "buffer/http/answers.hpp"
#include "buffer/http/front.hpp"
#include "buffer/shared/forwarder.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

using httplib::Request;
using httplib::Response;
using nlohmann::ordered_json;

constexpr std::int64_t most_bytes_of_body = std::int64_t{64} << 20;
constexpr std::chrono::seconds between_tries{1};

std::string advertised_url(const SharedDoorSettings& settings, const Front& front) {
  if (!settings.advertised.empty()) return settings.advertised;
  if (settings.door.address == "0.0.0.0" || settings.door.address == "::") {
    throw ConfigError("advertise",
                      "is missing, and " + settings.door.address + " is all addresses of this machine",
                      "Say where other doors reach this one, such as http://10.0.0.5:8710");
  }
  return front.url();
}

}  // namespace

class SharedDoor::Doors {
 public:
  /// The time in which this door has the lease.
  struct Term {
    std::string lease;  // its value
    std::shared_ptr<Buffer> buffer;
    HttpAnswer answer;
  };

  explicit Doors(SharedDoorSettings settings)
      : settings_(std::move(settings)),
        most_body_bytes_(std::min(most_bytes_of_body, settings_.store.capacity)),
        forwarder_(settings_.door.certificate, most_body_bytes_),
        front_(settings_.door, [this](const Request& request, Response& response,
                                      BodyReader* reader) { answer_to(request, response, reader); }),
        lease_(settings_.store.address, settings_.store.name, advertised_url(settings_, front_),
               settings_.times) {
    const Lease::State state = lease_.state();
    if (state.is_mine()) begin_term(state.value);
    roles_ = std::thread([this, state] { change_roles(state); });
  }
  ~Doors() { stop(); }

  void stop() {
    if (is_stopping_.exchange(true)) return;
    if (const auto term = current()) term->buffer->stop();
    lease_.end();
    roles_.join();
    set_term(nullptr);
    forwarder_.stop();
    front_.stop();
  }

  /// The term, while the lease is certainly ours.
  [[nodiscard]] std::shared_ptr<const Term> active() const {
    const Lease::State state = lease_.state();
    const auto term = current();
    return term != nullptr && state.is_mine() && state.value == term->lease ? term : nullptr;
  }
  [[nodiscard]] std::string holder() const { return lease_.state().holder; }
  Front& front() noexcept { return front_; }

 private:
  [[nodiscard]] std::shared_ptr<const Term> current() const {
    const std::lock_guard lock(mutex_);
    return term_;
  }
  void set_term(std::shared_ptr<const Term> term) {
    const std::lock_guard lock(mutex_);
    std::swap(term_, term);  // the old one ends after the lock does
  }

  void begin_term(const std::string& lease) {
    auto buffer = std::make_shared<Buffer>(open_redis_store(settings_.store, lease, settings_.times),
                                           settings_.stream, settings_.formats);
    HttpAnswer answer = answers_of(buffer);
    set_term(std::make_shared<Term>(Term{lease, std::move(buffer), std::move(answer)}));
  }

  void end_term() {
    const auto term = current();
    if (term == nullptr) return;
    term->buffer->stop();
    set_term(nullptr);
  }

  void change_roles(Lease::State state) {
    while (!is_stopping_) {
      const bool has_term = current() != nullptr;
      if (!state.value.empty() && !has_term && !try_term(state.value)) {
        state = lease_.state();
        continue;
      }
      state = lease_.changed_from(state);
      if (const auto term = current(); term != nullptr && term->lease != state.value) {
        end_term();
        settings_.store.say("Standing by: " + (state.holder.empty() ? "nobody" : state.holder) +
                            " is active");
      }
    }
  }

  /// False, after a while, if the store cannot be read.
  bool try_term(const std::string& lease) {
    try {
      begin_term(lease);
      problem_.clear();
      settings_.store.say("Active: has taken the buffer over");
      return true;
    } catch (const Error& error) {
      if (problem_ != error.what())
        settings_.store.say("Cannot take the buffer over: " + std::string(error.what()));
      problem_ = error.what();
      std::this_thread::sleep_for(between_tries);
      return false;
    }
  }

  void answer_to(const Request& request, Response& response, BodyReader* reader) {
    const auto term = active();
    const std::string holder = this->holder();
    if (term != nullptr) {
      term->answer(request, response, reader);
    } else {
      pass_on(holder, request, response, reader);
    }
    if (request.method == "GET" && request.path == "/v1/status" && response.status <= 200)
      tell_role(response, term != nullptr, holder);
  }

  void pass_on(const std::string& holder, const Request& request, Response& response, BodyReader* reader) {
    try {
      if (holder.empty() || holder == advertised() || Forwarder::has_passed(request))
        throw IoError("buffer", "is being taken over by another door", "Send the same again");
      forwarder_.pass_on(holder, request, response, reader);
    } catch (const Error& error) {
      answer(response, error);
    }
  }

  void tell_role(Response& response, bool is_active, const std::string& holder) const {
    ordered_json status = ordered_json::parse(response.body, nullptr, false);
    if (!status.is_object()) return;
    status["role"] = is_active ? "active" : "standby";
    status["active"] = holder;
    answer(response, status);
  }

  [[nodiscard]] std::string advertised() const { return advertised_url(settings_, front_); }

  const SharedDoorSettings settings_;
  const std::int64_t most_body_bytes_;
  Forwarder forwarder_;
  Front front_;
  Lease lease_;
  std::string problem_;  // of the thread
  std::atomic<bool> is_stopping_ = false;
  mutable std::mutex mutex_;
  std::shared_ptr<const Term> term_;
  std::thread roles_;
};

SharedDoor::SharedDoor(SharedDoorSettings settings) : doors_(std::make_unique<Doors>(std::move(settings))) {}

SharedDoor::~SharedDoor() = default;

std::string SharedDoor::url() const {
  return doors_->front().url();
}

std::shared_ptr<Buffer> SharedDoor::buffer() const {
  const auto term = doors_->active();
  return term == nullptr ? nullptr : term->buffer;
}

std::string SharedDoor::active_url() const {
  return doors_->holder();
}

void SharedDoor::serve() {
  doors_->front().serve();
}

void SharedDoor::stop() {
  doors_->stop();
}

}  // namespace evenkeel
