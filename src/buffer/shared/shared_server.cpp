#include "buffer/shared/shared_server.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>

#include "buffer/buffer.hpp"
#include "buffer/http/answers.hpp"
#include "buffer/http/http_listener.hpp"
#include "buffer/shared/forwarder.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

using httplib::Request;
using httplib::Response;
using nlohmann::ordered_json;

constexpr std::int64_t max_bytes_of_body = std::int64_t{64} << 20;
constexpr std::chrono::seconds between_tries{1};

std::string advertised_url(const SharedServerSettings& settings, const HttpListener& listener) {
  if (!settings.advertised.empty()) return settings.advertised;
  if (settings.server.address == "0.0.0.0" || settings.server.address == "::") {
    throw ConfigError("--advertise",
                      "is missing, but " + settings.server.address + " means all addresses of this machine",
                      "Set the address at which other servers reach this one, such as http://10.0.0.5:8710");
  }
  return listener.url();
}

}  // namespace

class SharedServer::Impl {
 public:
  /// Period in which this server holds the lease, with the buffer or store of values that the server serves
  /// during this period.
  struct Term {
    std::string lease;               // Lease::State::value during this period
    std::shared_ptr<Buffer> buffer;  // the buffer, or null if the server serves a store of values
    std::shared_ptr<ValueStore> values;
    HttpHandler answer;

    void stop() const {
      if (buffer != nullptr) buffer->stop();
      if (values != nullptr) values->stop();
    }
  };

  explicit Impl(SharedServerSettings settings)
      : settings_(std::move(settings)),
        max_body_bytes_(
            std::min(settings_.content == StoreContent::values ? max_bytes_of_frame : max_bytes_of_body,
                     settings_.store.capacity)),
        forwarder_(settings_.server.certificate, max_body_bytes_),
        listener_(settings_.server,
                  [this](const Request& request, Response& response, Connection* connection) {
                    answer_request(request, response, connection);
                  }),
        lease_(settings_.store.address, settings_.store.name, advertised_url(settings_, listener_),
               settings_.times) {
    const Lease::State state = lease_.state();
    if (state.is_held()) begin_term(state.value);
    lease_thread_ = std::thread([this, state] { follow_lease(state); });
  }
  ~Impl() { stop(); }

  void stop() {
    if (is_stopping_.exchange(true)) return;
    if (const auto term = current_term()) term->stop();
    lease_.stop_and_release();
    lease_thread_.join();
    set_term(nullptr);
    forwarder_.stop();
    listener_.stop();
  }

  /// Returns the current term if this server certainly holds the lease, otherwise null.
  [[nodiscard]] std::shared_ptr<const Term> active_term() const {
    const Lease::State state = lease_.state();
    const auto term = current_term();
    return term != nullptr && state.is_held() && state.value == term->lease ? term : nullptr;
  }
  [[nodiscard]] std::string holder() const { return lease_.state().holder; }
  HttpListener& listener() noexcept { return listener_; }

 private:
  [[nodiscard]] std::shared_ptr<const Term> current_term() const {
    const std::lock_guard lock(mutex_);
    return term_;
  }
  void set_term(std::shared_ptr<const Term> term) {
    const std::lock_guard lock(mutex_);
    std::swap(term_, term);  // the old term is destroyed after the lock is released
  }

  void begin_term(const std::string& lease) {
    auto store = open_redis_store(settings_.store, lease, settings_.times);
    Term term{lease, nullptr, nullptr, {}};
    if (settings_.content == StoreContent::values) {
      term.values = std::make_shared<ValueStore>(std::move(store));
      term.answer = make_answer_function(term.values, settings_.checkpoints);
    } else {
      term.buffer = std::make_shared<Buffer>(std::move(store), settings_.stream, settings_.formats);
      term.answer = make_answer_function(term.buffer);
    }
    set_term(std::make_shared<Term>(std::move(term)));
  }

  void follow_lease(Lease::State state) {
    while (!is_stopping_) {
      const bool has_term = current_term() != nullptr;
      if (!state.value.empty() && !has_term && !try_begin_term(state.value)) {
        state = lease_.state();
        continue;
      }
      state = lease_.wait_for_change_from(state);
      if (const auto term = current_term(); term != nullptr && term->lease != state.value) {
        term->stop();
        set_term(nullptr);
        settings_.store.log("Standing by: " + (state.holder.empty() ? "no server" : state.holder) +
                            " is active");
      }
    }
  }

  /// Tries to begin a term. If that fails, logs the error, pauses, and returns false.
  bool try_begin_term(const std::string& lease) {
    const std::string content = settings_.content == StoreContent::values ? "store" : "buffer";
    try {
      begin_term(lease);
      problem_.clear();
      settings_.store.log("Active: took over the " + content);
      return true;
    } catch (const Error& error) {
      if (problem_ != error.what())
        settings_.store.log("Cannot take over the " + content + ": " + error.what());
      problem_ = error.what();
      std::this_thread::sleep_for(between_tries);
      return false;
    }
  }

  void answer_request(const Request& request, Response& response, Connection* connection) {
    const auto term = active_term();
    const std::string holder = this->holder();
    if (term != nullptr) {
      term->answer(request, response, connection);
    } else {
      forward(holder, request, response, connection);
    }
    if (request.method == "GET" && request.path == "/v1/status" && response.status <= 200)
      add_role_to_status(response, term != nullptr, holder);
  }

  void forward(const std::string& holder, const Request& request, Response& response,
               Connection* connection) {
    try {
      if (holder.empty() || holder == advertised_url(settings_, listener_) ||
          Forwarder::was_forwarded(request))
        throw IoError("buffer", "has no known active server at the moment", "Send the same request again");
      forwarder_.forward(holder, request, response, connection);
    } catch (const Error& error) {
      answer(response, error);
    }
  }

  void add_role_to_status(Response& response, bool is_active, const std::string& holder) const {
    ordered_json status = ordered_json::parse(response.body, nullptr, false);
    if (!status.is_object()) return;
    status["role"] = is_active ? "active" : "standby";
    status["active"] = holder;
    answer(response, status);
  }

  const SharedServerSettings settings_;
  const std::int64_t max_body_bytes_;
  Forwarder forwarder_;
  HttpListener listener_;
  Lease lease_;
  std::string
      problem_;  // last error that try_begin_term() logged; accessed only by the thread `lease_thread_`
  std::atomic<bool> is_stopping_ = false;
  mutable std::mutex mutex_;
  std::shared_ptr<const Term> term_;
  std::thread lease_thread_;
};

SharedServer::SharedServer(SharedServerSettings settings)
    : impl_(std::make_unique<Impl>(std::move(settings))) {}

SharedServer::~SharedServer() = default;

std::string SharedServer::url() const {
  return impl_->listener().url();
}

std::shared_ptr<Buffer> SharedServer::buffer() const {
  const auto term = impl_->active_term();
  return term == nullptr ? nullptr : term->buffer;
}

std::shared_ptr<ValueStore> SharedServer::values() const {
  const auto term = impl_->active_term();
  return term == nullptr ? nullptr : term->values;
}

std::string SharedServer::active_url() const {
  return impl_->holder();
}

void SharedServer::serve() {
  impl_->listener().serve();
}

void SharedServer::stop() {
  impl_->stop();
}

}  // namespace evenkeel
