#include "buffer/redis/redis_connection.hpp"

#include <hiredis/hiredis.h>
#include <sys/time.h>

#include <csignal>
#include <utility>

#include "base/text/parse_number.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

timeval timeval_of(std::chrono::milliseconds time) {
  return {time.count() / 1000, static_cast<suseconds_t>(time.count() % 1000 * 1000)};
}

/// Ignores SIGPIPE so that writing to a closed connection fails with an error instead of ending the process.
/// httplib also does this.
void ignore_broken_pipes() {
  static const auto before = std::signal(SIGPIPE, SIG_IGN);
  static_cast<void>(before);
}

[[noreturn]] void throw_reply_error(const std::string& name, std::string_view said) {
  if (said.find("OOM command not allowed") != std::string_view::npos) {
    throw LimitError(name, "has no memory left (maxmemory)",
                     "Wait until samples are trained, or give Redis more memory");
  }
  throw IoError(name, "answers: " + std::string(said), "Check the log and the configuration of Redis");
}

std::int64_t read_commit_count(RedisConnection& connection, const std::string& about) {
  return parse_as<std::int64_t>(connection.call({"HGET", about, "commits"}).text()).value_or(-1);
}

}  // namespace

bool RedisReply::is_null() const noexcept {
  return reply_->type == REDIS_REPLY_NIL;
}

std::string_view RedisReply::text() const noexcept {
  if (reply_->type != REDIS_REPLY_STRING && reply_->type != REDIS_REPLY_STATUS) return {};
  return {reply_->str, static_cast<std::size_t>(reply_->len)};
}

std::optional<std::int64_t> RedisReply::number() const noexcept {
  if (reply_->type != REDIS_REPLY_INTEGER) return std::nullopt;
  return reply_->integer;
}

std::vector<RedisReply> RedisReply::list() const {
  std::vector<RedisReply> out;
  if (reply_->type != REDIS_REPLY_ARRAY) return out;
  for (const redisReply* element : std::span(reply_->element, reply_->elements))
    out.emplace_back(std::shared_ptr<const redisReply>(reply_, element));
  return out;
}

RedisConnection::RedisConnection(const RedisAddress& address, const RedisAddress::Server& server,
                                 std::chrono::milliseconds patience)
    : name_("Redis at " + server.name()) {
  ignore_broken_pipes();
  const timeval time = timeval_of(patience);
  redisContext* const opened = server.host.starts_with('/')
                                   ? ::redisConnectUnixWithTimeout(server.host.c_str(), time)
                                   : ::redisConnectWithTimeout(server.host.c_str(), server.port, time);
  if (opened == nullptr) throw IoError(name_, "cannot be reached: out of memory", "Try again");
  context_ = std::shared_ptr<redisContext>(opened, ::redisFree);
  if (opened->err != 0)
    throw IoError(name_, "cannot be reached: " + std::string(opened->errstr),
                  "Check that it is running there");
  ::redisSetTimeout(opened, time);
  log_in(address);
}

void RedisConnection::log_in(const RedisAddress& address) {
  try {
    if (!address.user.empty()) {
      call({"AUTH", address.user, address.password});
    } else if (!address.password.empty()) {
      call({"AUTH", address.password});
    }
    if (address.database != 0) call({"SELECT", std::to_string(address.database)});
    call({"PING"});
  } catch (const IoError& error) {
    const std::string& said = error.report().message;
    for (const char* const refusal :
         {"NOAUTH", "WRONGPASS", "invalid password", "AUTH", "NOPERM", "out of range"}) {
      if (is_open_ && said.find(refusal) != std::string::npos)
        throw ConfigError(name_, "refuses access: the server " + said,
                          "Check the user, the password and the database");
    }
    throw;
  }
}

RedisReply RedisConnection::call(std::span<const std::string_view> words) {
  std::vector<const char*> texts;
  std::vector<std::size_t> sizes;
  for (const std::string_view word : words) {
    texts.push_back(word.data());
    sizes.push_back(word.size());
  }
  if (!is_open_) throw IoError(name_, "is no longer connected", "Try again");
  void* answer = nullptr;
  if (::redisAppendCommandArgv(context_.get(), static_cast<int>(words.size()), texts.data(), sizes.data()) !=
          REDIS_OK ||
      ::redisGetReply(context_.get(), &answer) != REDIS_OK) {
    is_open_ = false;
    throw IoError(name_, "does not answer: " + std::string(context_->errstr), "Check that it is running");
  }
  const std::shared_ptr<const redisReply> reply(static_cast<redisReply*>(answer),
                                                [](redisReply* it) { ::freeReplyObject(it); });
  if (reply->type == REDIS_REPLY_ERROR)
    throw_reply_error(name_, {reply->str, static_cast<std::size_t>(reply->len)});
  return RedisReply(reply);
}

RedisReply RedisConnection::run_script(const std::string& script, std::span<const std::string> keys,
                                       std::span<const std::string_view> arguments) {
  const std::string count = std::to_string(keys.size());
  std::vector<std::string_view> words{"EVALSHA", {}, count};
  words.insert(words.end(), keys.begin(), keys.end());
  words.insert(words.end(), arguments.begin(), arguments.end());
  for (int attempt = 0;; ++attempt) {
    std::string& hash = hashes_[script];
    if (hash.empty()) hash = call({"SCRIPT", "LOAD", script}).text();
    words[1] = hash;
    try {
      return call(words);
    } catch (const IoError& error) {
      // Load the script again: Redis may have restarted, or its script cache may have been cleared.
      if (attempt > 0 || error.report().message.find("NOSCRIPT") == std::string::npos) throw;
      hash.clear();
    }
  }
}

std::map<std::string, std::string> RedisConnection::info() {
  std::map<std::string, std::string> out;
  const RedisReply reply = call({"INFO"});
  std::string_view rest = reply.text();
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\r'));
    if (const std::size_t colon = line.find(':'); colon != std::string_view::npos)
      out.emplace(line.substr(0, colon), line.substr(colon + 1));
    const std::size_t end = rest.find('\n');
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  }
  return out;
}

std::unique_ptr<RedisConnection> connect_to_master(const RedisAddress& address, const std::string& about,
                                                   std::chrono::milliseconds patience) {
  std::unique_ptr<RedisConnection> best;
  std::int64_t most = -2;
  std::string problems;
  for (const RedisAddress::Server& server : address.servers) {
    try {
      auto connection = std::make_unique<RedisConnection>(address, server, patience);
      if (connection->info()["role"] == "slave")
        throw IoError(connection->name(), "is a replica, but the buffer needs the master",
                      "Promote it, or name its master");
      if (const std::int64_t commits = read_commit_count(*connection, about); commits > most) {
        most = commits;
        best = std::move(connection);
      }
    } catch (const IoError& error) {
      if (address.servers.size() == 1) throw;
      problems += (problems.empty() ? "" : "; ") + error.report().where + " " + error.report().message;
    }
  }
  if (best == nullptr)
    throw IoError("Redis", "has no master: " + problems, "Start one, or promote a replica");
  return best;
}

RedisKeys::RedisKeys(const std::string& name) {
  const std::string prefix = "evenkeel:{" + name + "}:";
  lease = prefix + "lease";
  about = prefix + "about";
  bodies = prefix + "bodies";
  events = prefix + "events";
  seen = prefix + "seen";
  notes = prefix + "notes";
}

}  // namespace evenkeel
