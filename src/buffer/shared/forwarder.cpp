#include "buffer/shared/forwarder.hpp"

#include <openssl/ssl.h>
#include <strings.h>

#include <algorithm>
#include <array>
#include <utility>

#include "buffer/intake/request_body.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

constexpr const char* passed_header = "X-Evenkeel-Passed-On";
constexpr int holder_connect_seconds = 3;
// Time limit for the answer of the active server. It exceeds the maximum wait of any API call.
constexpr int holder_answer_seconds = 60;
constexpr std::size_t max_idle = 64;
// Maximum size in bytes of an answer that is sent as a whole. Longer answers are sent in pieces of this size.
constexpr std::size_t max_text = std::size_t{1} << 20;

/// Returns whether a header applies only to one connection or was added by httplib. Such headers are not
/// forwarded.
bool is_hop_by_hop_header(const std::string& name) {
  static const std::array names{"Host",           "Connection",  "Keep-Alive",  "Transfer-Encoding",
                                "Content-Length", "REMOTE_ADDR", "REMOTE_PORT", "LOCAL_ADDR",
                                "LOCAL_PORT",     "Expect",      "Upgrade",     "Accept-Encoding"};
  const auto is_same_name = [&](const char* other) { return ::strcasecmp(name.c_str(), other) == 0; };
  return std::any_of(names.begin(), names.end(), is_same_name);
}

/// Content of a forwarded answer, in memory. Short content is kept as a string; long content is kept as a
/// RequestBody and sent in pieces.
class Content {
 public:
  void write(std::string_view bytes) {
    if (long_ == nullptr && short_.size() + bytes.size() <= max_text) {
      short_ += bytes;
      return;
    }
    if (long_ == nullptr) {
      long_ = std::make_shared<RequestBody>();
      long_->write(short_);
    }
    long_->write(bytes);
  }

  void move_to_response(httplib::Response& response, const std::string& type) && {
    if (long_ == nullptr) return response.set_content(short_, type);
    static_cast<void>(long_->file());
    response.set_content_provider(
        static_cast<std::size_t>(long_->size()), type,
        [body = long_](std::size_t offset, std::size_t length, httplib::DataSink& sink) {
          const std::string_view part = body->bytes().substr(offset, std::min(length, max_text));
          return sink.write(part.data(), part.size());
        });
  }

 private:
  std::string short_;
  std::shared_ptr<RequestBody> long_;
};

}  // namespace

Forwarder::Forwarder(std::filesystem::path trusted, std::int64_t max_body_bytes)
    : trusted_(std::move(trusted)), max_body_bytes_(max_body_bytes) {}

bool Forwarder::was_forwarded(const httplib::Request& request) {
  return request.has_header(passed_header);
}

std::unique_ptr<httplib::Client> Forwarder::acquire_client(const std::string& url) {
  {
    const std::lock_guard lock(mutex_);
    if (url == idle_url_ && !idle_.empty()) {
      auto client = std::move(idle_.back());
      idle_.pop_back();
      return client;
    }
  }
  auto client = std::make_unique<httplib::Client>(url);
  client->set_keep_alive(true);
  client->set_tcp_nodelay(true);
  client->set_connection_timeout(holder_connect_seconds);
  client->set_read_timeout(holder_answer_seconds);
  client->set_write_timeout(holder_answer_seconds);
  client->set_decompress(false);
  client->set_url_encode(false);  // the path is already encoded
  client->enable_server_certificate_verification(true);
  if (url.starts_with("https:") && !trusted_.empty()) {
    client->set_ca_cert_path(trusted_.string());
    ::SSL_CTX_set_default_verify_paths(client->ssl_context());
  }
  return client;
}

void Forwarder::release_client(const std::string& url, std::unique_ptr<httplib::Client> client) {
  const std::lock_guard lock(mutex_);
  if (url != idle_url_) idle_.clear();
  idle_url_ = url;
  if (idle_.size() < max_idle) idle_.push_back(std::move(client));
}

httplib::Result Forwarder::send(httplib::Client& client, httplib::Request& request) {
  {
    const std::lock_guard lock(mutex_);
    if (is_stopped_) throw IoError("buffer", "is being stopped", "Try again");
    busy_.insert(&client);
  }
  httplib::Result result = client.send(request);
  const std::lock_guard lock(mutex_);
  busy_.erase(&client);
  return result;
}

void Forwarder::stop() {
  const std::lock_guard lock(mutex_);
  is_stopped_ = true;
  for (httplib::Client* client : busy_) client->stop();
}

void Forwarder::forward(const std::string& url, const httplib::Request& request, httplib::Response& response,
                        Connection* connection) {
  InFlightBytes in_flight(bytes_in_flight_, std::max(default_max_in_flight, 2 * max_body_bytes_));
  httplib::Request passed;
  passed.method = request.method;
  passed.path = request.target;
  for (const auto& [name, value] : request.headers)
    if (!is_hop_by_hop_header(name)) passed.headers.emplace(name, value);
  passed.set_header(passed_header, "1");
  if (connection != nullptr) {
    RequestBody body;
    if (!receive_body(response, *connection, max_body_bytes_, in_flight, body)) return;
    passed.body = body.bytes();
  }
  Content content;
  passed.content_receiver = [&](const char* data, std::size_t size, std::uint64_t, std::uint64_t) {
    content.write({data, size});
    return true;
  };
  auto client = acquire_client(url);
  const httplib::Result result = send(*client, passed);
  if (!result) {
    throw IoError(url, "is the active server, but cannot be reached: " + httplib::to_string(result.error()),
                  "Send the same request again");
  }
  release_client(url, std::move(client));
  response.status = result->status;
  for (const auto& [name, value] : result->headers) {
    if (!is_hop_by_hop_header(name) && ::strcasecmp(name.c_str(), "Content-Type") != 0)
      response.set_header(name, value);
  }
  std::move(content).move_to_response(response, result->get_header_value("Content-Type"));
}

}  // namespace evenkeel
