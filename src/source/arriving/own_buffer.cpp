#include "source/arriving/own_buffer.hpp"

#include <unistd.h>

#include <array>
#include <thread>
#include <utility>

#include "base/text/host_port.hpp"
#include "buffer/buffer.hpp"
#include "buffer/job_client.hpp"
#include "buffer/redis/redis_address.hpp"
#include "buffer/server.hpp"
#include "buffer/shared/shared_server.hpp"
#include "buffer/spool/spool.hpp"
#include "buffer/store/store.hpp"
#include "evenkeel/base/error.hpp"
#include "source/arriving/patience.hpp"
#include "source/declared_formats.hpp"

namespace evenkeel {
namespace {

stream::StreamSettings rules_of(const ArrivalSettings& settings) {
  stream::StreamSettings rules;
  rules.group_size = settings.group_size.value_or(1);
  rules.min_group = settings.min_group;
  rules.deadline = settings.deadline;
  if (settings.ticket_deadline) rules.ticket_deadline = *settings.ticket_deadline;
  rules.max_staleness = settings.max_staleness;
  rules.on_stale = settings.on_stale.value_or(OnStale::wait);
  rules.late_fields = settings.late_fields;
  rules.validate();
  return rules;
}

/// Returns the settings of the buffer's server. Precondition: `settings.listen` is valid, which is checked
/// when the configuration is read.
ServerSettings server_settings_of(const ArrivalSettings& settings, const std::string& token) {
  ServerSettings server;
  const HostPort listen = parse_host_port(settings.listen).value();
  server.address = listen.host;
  server.port = listen.port;
  server.token = token;
  return server;
}

bool is_any_address(const std::string& address) {
  return address == "0.0.0.0" || address == "::";
}

std::string url_of_machine(int port) {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0)
    throw IoError("this machine", "has no hostname",
                  "Set one, or set stream.listen to the address of a network interface");
  return std::string("http://") + name.data() + ":" + std::to_string(port);
}

}  // namespace

/// A buffer and its server, which accepts requests as soon as this object is constructed.
class OwnBuffer::Parts {
 public:
  explicit Parts(std::string listens) : address(std::move(listens)) {}
  virtual ~Parts() = default;
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  [[nodiscard]] virtual std::string url() const = 0;

  const std::string address;
};

namespace {

/// A buffer whose store cannot be used by any other process.
class ExclusiveParts final : public OwnBuffer::Parts {
 public:
  ExclusiveParts(const ArrivalSettings& settings, const DeclaredFormats& formats, const std::string& token)
      : Parts(server_settings_of(settings, token).address),
        buffer_(settings.store == "memory" ? make_memory_store(settings.capacity)
                                           : open_lmdb_store(settings.dir, settings.capacity),
                rules_of(settings), formats),
        server_(buffer_, server_settings_of(settings, token)),
        thread_([this] { server_.serve(); }) {}
  ~ExclusiveParts() override {
    buffer_.stop();
    server_.stop();
    thread_.join();
  }
  [[nodiscard]] std::string url() const override {
    if (!is_any_address(address)) return server_.url();
    return url_of_machine(server_.port());
  }

 private:
  Buffer buffer_;
  BufferServer server_;
  std::thread thread_;
};

SharedServerSettings shared_server_settings_of(const ArrivalSettings& settings,
                                               const DeclaredFormats& formats, const std::string& token) {
  RedisSettings store;
  store.address = parse_redis_address(settings.store, "stream.store");
  if (!store.address.password.empty()) {
    throw ConfigError("stream.store",
                      "contains a password, which everyone who sees the configuration can read",
                      "Write it to a file, and set stream.redis_password_file to that file");
  }
  if (!settings.redis_password_file.empty())
    store.address.password = read_token(settings.redis_password_file);
  store.name = settings.name;
  store.capacity = settings.capacity;
  store.log = [](const std::string& line) { send_waiting_note("the job's own buffer: " + line); };
  const ServerSettings server = server_settings_of(settings, token);
  if (is_any_address(server.address) && server.port == 0) {
    throw ConfigError("stream.listen",
                      "is " + settings.listen +
                          ", which names neither one address nor a port, but other servers on the same "
                          "Redis need one to connect to",
                      "Set it to the address of a network interface, or add a port");
  }
  return {.store = std::move(store),
          .stream = rules_of(settings),
          .server = server,
          .advertised = is_any_address(server.address) ? url_of_machine(server.port) : "",
          .formats = formats};
}

/// A server for a buffer in Redis. Other servers may serve the same buffer.
class SharedParts final : public OwnBuffer::Parts {
 public:
  SharedParts(const ArrivalSettings& settings, const DeclaredFormats& formats, const std::string& token)
      : Parts(server_settings_of(settings, token).address),
        server_(shared_server_settings_of(settings, formats, token)),
        port_(server_settings_of(settings, token).port),
        thread_([this] { server_.serve(); }) {}
  ~SharedParts() override {
    server_.stop();
    thread_.join();
  }
  [[nodiscard]] std::string url() const override {
    return is_any_address(address) ? url_of_machine(port_) : server_.url();
  }

 private:
  SharedServer server_;
  int port_;
  std::thread thread_;
};

}  // namespace

OwnBuffer::OwnBuffer(const Config& config, const std::string& token) {
  if (!config.source.path.empty()) {
    spool_ = std::make_unique<Spool>(config.source.path,
                                     [](const std::string& line) { send_waiting_note("spool: " + line); });
  }
  const DeclaredFormats formats = declared_formats(config.fields);
  if (is_redis_url(config.stream.store)) {
    parts_ = std::make_unique<SharedParts>(config.stream, formats, token);
  } else {
    parts_ = std::make_unique<ExclusiveParts>(config.stream, formats, token);
  }
  send_waiting_note("the job's own buffer listens on " + url());
  if (spool_) spool_->start_sending(JobClient(url(), token));
}

OwnBuffer::~OwnBuffer() = default;

std::string OwnBuffer::url() const {
  return parts_->url();
}

bool OwnBuffer::has_exclusive_store() const {
  return dynamic_cast<const ExclusiveParts*>(parts_.get()) != nullptr;
}

bool OwnBuffer::is_open_to_others() const {
  return !is_loopback(parts_->address);
}

}  // namespace evenkeel
