#include "cli/commands/server_options.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <optional>
#include <thread>

#include "base/text/host_port.hpp"
#include "base/text/units.hpp"
#include "base/utf8.hpp"
#include "buffer/redis/redis_address.hpp"
#include "cli/option_values.hpp"
#include "cli/terminal/terminal.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel::cli {
namespace {

CLI::Validator byte_count_validator() {
  CLI::Validator validator("");
  validator.operation([](std::string& given) -> std::string {
    if (parse_bytes(given)) return {};
    return fmt::format("'{}' is not a number of bytes from 1 to 1024TiB, such as 8GiB, 512MiB or 1000000",
                       printable(given));
  });
  return validator;
}

CLI::Validator store_kind_validator() {
  CLI::Validator validator("");
  validator.operation([](std::string& given) -> std::string {
    if (given == "lmdb" || given == "memory") return {};
    if (!is_redis_url(given)) {
      return fmt::format(
          "'{}' is not a store; use lmdb, memory, or a Redis server such as redis://127.0.0.1:6379",
          printable(given));
    }
    try {
      static_cast<void>(parse_redis_address(given, "the address"));
      return {};
    } catch (const ConfigError& error) {
      return error.what();
    }
  });
  return validator;
}

/// Sets the address and port to the value of --listen, which may be only a port.
void set_address(const std::string& listen, ServerSettings& settings) {
  const bool is_port = listen.find(':') == std::string::npos;
  const std::optional<HostPort> where = parse_host_port(is_port ? settings.address + ":" + listen : listen);
  if (!where) {
    throw ConfigError(
        "--listen",
        "is '" + listen +
            "'; it must be a port from 0 to 65535, or an address with such a port, as in 127.0.0.1:8710");
  }
  settings.address = where->host;
  settings.port = where->port;
}

/// Precondition: the option's validator has accepted the capacity.
std::int64_t capacity_of(const ServerOptions& options) {
  return parse_bytes(options.capacity).value();
}

/// Raises the limit on open files, since there may be a thousand connections, and each needs a descriptor.
void allow_many_connections() {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));
}

sigset_t termination_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

}  // namespace

void add_server_options(CLI::App& command, ServerOptions& options, const ServerHelpTexts& texts) {
  command.add_option("--listen", options.listen, "Where " + texts.clients + "; port 0 is any free one")
      ->type_name("ADDRESS:PORT")
      ->capture_default_str();
  command
      .add_option("--dir", options.folder,
                  "The folder in which to keep " + texts.content + ", for this " + texts.server + " alone")
      ->type_name("FOLDER")
      ->capture_default_str();
  command
      .add_option("--store", options.store,
                  "lmdb keeps " + texts.content +
                      " in the folder; redis://HOST:PORT keeps them in a Redis server, which several servers "
                      "can share; memory loses them when the process ends")
      ->type_name("STORE")
      ->check(store_kind_validator())
      ->capture_default_str();
  command
      .add_option("--name", options.name,
                  "The " + texts.server + "'s name in Redis, where there may be several")
      ->type_name("NAME")
      ->capture_default_str();
  command
      .add_option("--advertise", options.advertised,
                  "With Redis: the address that other servers use; default: where it listens")
      ->type_name("URL");
  command.add_option("--redis-password-file", options.password_file, "A file with the password of Redis")
      ->type_name("FILE");
  command
      .add_option("--capacity", options.capacity,
                  "Maximum number of bytes to keep; if it is full, " + texts.when_full)
      ->type_name("BYTES")
      ->check(byte_count_validator())
      ->capture_default_str();
  command
      .add_option("--token-file", options.token_file,
                  "A file with the token that " + texts.senders + " must send")
      ->type_name("FILE");
  command.add_option("--cert", options.certificate, "A certificate (PEM), for TLS; needs --key")
      ->type_name("FILE");
  command.add_option("--key", options.key, "The certificate's private key (PEM)")->type_name("FILE");
}

ServerSettings prepare_server(const ServerOptions& options) {
  const sigset_t signals = termination_signals();
  ::pthread_sigmask(SIG_BLOCK, &signals,
                    nullptr);  // blocked in all threads; serve_until_ended() waits for these signals
  allow_many_connections();
  ServerSettings settings;
  set_address(options.listen, settings);
  if (!options.token_file.empty()) settings.token = read_token(options.token_file);
  settings.certificate = options.certificate;
  settings.key = options.key;
  return settings;
}

std::unique_ptr<Store> open_local_store(const ServerOptions& options) {
  const std::int64_t capacity = capacity_of(options);
  return options.store == "memory" ? make_memory_store(capacity) : open_lmdb_store(options.folder, capacity);
}

RedisSettings redis_settings_of(const ServerOptions& options) {
  RedisSettings store{.address = parse_redis_address(options.store, "--store"),
                      .name = options.name,
                      .capacity = capacity_of(options),
                      .log = log_status};
  require_redis_name(options.name, "--name");
  if (!options.password_file.empty()) store.address.password = read_token(options.password_file);
  return store;
}

void log_status(const std::string& line) {
  std::cout << line << '\n';
  StandardOutput::flush();
}

void serve_until_ended(const std::function<void()>& serve, const std::function<void()>& stop) {
  std::thread ending([&] {
    const sigset_t signals = termination_signals();
    int signal = 0;
    sigwait(&signals, &signal);
    stop();
  });
  serve();
  ::kill(::getpid(), SIGTERM);  // ends the thread if serve() returned without a signal
  ending.join();
}

}  // namespace evenkeel::cli
