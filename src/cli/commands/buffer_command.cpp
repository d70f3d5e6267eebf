#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/text/host_port.hpp"
#include "base/text/units.hpp"
#include "base/text_layout.hpp"
#include "base/utf8.hpp"
#include "buffer/buffer.hpp"
#include "buffer/redis/redis_address.hpp"
#include "buffer/server.hpp"
#include "buffer/shared/shared_server.hpp"
#include "buffer/store/store.hpp"
#include "cli/commands/commands.hpp"
#include "cli/option_values.hpp"
#include "cli/terminal/terminal.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel::cli {
namespace {

struct BufferOptions {
  std::string listen = "127.0.0.1:8710";
  std::filesystem::path folder = "buffer";
  std::string store = "lmdb";
  std::string name = "default";
  std::string advertised;
  std::filesystem::path password_file;
  std::string capacity = "8GiB";
  std::filesystem::path token_file;
  std::filesystem::path certificate;
  std::filesystem::path key;
  std::int64_t group_size = 1;
  std::optional<std::int64_t> min_group;
  std::optional<double> deadline;
  double ticket_deadline = stream::StreamSettings{}.ticket_deadline;
  std::optional<std::int64_t> max_staleness;
  std::string on_stale = "wait";
  std::vector<std::string> late_fields;
  DeclaredFormats formats;
};

CLI::Validator byte_count() {
  CLI::Validator validator("");
  validator.operation([](std::string& given) -> std::string {
    if (bytes_with_unit(given)) return {};
    return fmt::format("'{}' is not a number of bytes, such as 8GiB, 512MiB or 1000000, up to 1024TiB",
                       printable(given));
  });
  return validator;
}

CLI::Validator store_word() {
  CLI::Validator validator("");
  validator.operation([](std::string& given) -> std::string {
    if (given == "lmdb" || given == "memory") return {};
    if (!is_redis_url(given)) {
      return fmt::format(
          "'{}' is not a store; there are lmdb, memory, and a Redis such as redis://127.0.0.1:6379",
          printable(given));
    }
    try {
      static_cast<void>(redis_address_of(given, "the address"));
      return {};
    } catch (const ConfigError& error) {
      return error.what();
    }
  });
  return validator;
}

/// Sets the address to that of --listen, which may be just a port.
void set_address(const std::string& listen, ServerSettings& settings) {
  const bool is_port = listen.find(':') == std::string::npos;
  const std::optional<HostPort> where = host_and_port(is_port ? settings.address + ":" + listen : listen);
  if (!where) {
    throw ConfigError("--listen",
                      "is '" + listen + "'; an address with a port is needed, such as 127.0.0.1:8710");
  }
  settings.address = where->host;
  settings.port = where->port;
}

stream::StreamSettings stream_settings(const BufferOptions& options) {
  stream::StreamSettings settings;
  settings.group_size = options.group_size;
  settings.min_group = options.min_group;
  settings.deadline = options.deadline;
  settings.ticket_deadline = options.ticket_deadline;
  settings.max_staleness = options.max_staleness;
  settings.on_stale = stream::on_stale_of(options.on_stale).value();
  settings.late_fields = options.late_fields;
  settings.validate();
  return settings;
}

/// Precondition: the option's check has accepted the capacity.
std::int64_t capacity_of(const BufferOptions& options) {
  return bytes_with_unit(options.capacity).value();
}

/// Raises the limit on open files, since there may be a thousand connections, each of which is an open file.
void allow_many_connections() {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));
}

sigset_t ending_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

void say(const std::string& line) {
  std::cout << line << '\n';
  StandardOutput::flush();
}

std::string found_in(const BufferStatus& status) {
  const stream::Status& of = status.stream;
  if (of.received.samples == 0) return "Nothing has come so far";
  return fmt::format("Found {} that wait in {}, {} in steps that are not trained; version {}{}",
                     counted(of.waiting.samples, "sample"),
                     counted(of.open_groups + of.ready_groups, "group"), of.formed.samples, of.version,
                     of.formed_step ? fmt::format(", step {} formed last", *of.formed_step) : "");
}

void print_status(const BufferStatus& status) {
  say(fmt::format("Store: {}, {} of {} in use{}", printable(status.store), bytes_text(status.used),
                  bytes_text(status.capacity), status.risk.empty() ? "" : "; " + status.risk));
  say(found_in(status));
}

void print_summary(const stream::Status& at_end) {
  say(fmt::format("Stopped: {} received, {} trained, {} waiting or in steps",
                  counted(at_end.received.samples, "sample"), at_end.trained.samples,
                  at_end.waiting.samples + at_end.formed.samples));
}

/// Calls serve(). When a signal arrives, calls `stop`, which ends serve().
template <typename Serve, typename Stop>
void serve_until_ended(const Serve& serve, const Stop& stop) {
  std::thread ending([&] {
    const sigset_t signals = ending_signals();
    int signal = 0;
    sigwait(&signals, &signal);
    stop();
  });
  serve();
  ::kill(::getpid(), SIGTERM);  // ends the thread if serve() returned without a signal
  ending.join();
}

void run_alone(const BufferOptions& options, const ServerSettings& server_settings) {
  const std::int64_t capacity = capacity_of(options);
  Buffer buffer(
      options.store == "memory" ? make_memory_store(capacity) : open_lmdb_store(options.folder, capacity),
      stream_settings(options), options.formats);
  BufferServer server(buffer, server_settings);
  print_status(buffer.status());
  say("Listening on " + server.url());
  serve_until_ended([&] { server.serve(); },
                    [&] {
                      buffer.stop();
                      server.stop();
                    });
  print_summary(buffer.status().stream);
}

void run_shared(const BufferOptions& options, const ServerSettings& server_settings) {
  RedisSettings store{.address = redis_address_of(options.store, "--store"),
                      .name = options.name,
                      .capacity = capacity_of(options),
                      .say = say};
  require_redis_name(options.name, "--name");
  if (!options.password_file.empty()) store.address.password = read_token(options.password_file);
  SharedServer server({.store = std::move(store),
                       .stream = stream_settings(options),
                       .server = server_settings,
                       .advertised = options.advertised,
                       .formats = options.formats});
  if (const auto buffer = server.buffer()) {
    print_status(buffer->status());
  } else {
    say("Standing by: " + server.active_url() + " is active");
  }
  say("Listening on " + server.url());
  serve_until_ended([&] { server.serve(); }, [&] { server.stop(); });
  say("Stopped");
}

int run_buffer(const BufferOptions& options) {
  const sigset_t signals = ending_signals();
  ::pthread_sigmask(SIG_BLOCK, &signals,
                    nullptr);  // blocked in all threads; serve_until_ended() waits for these signals
  allow_many_connections();
  ServerSettings server_settings;
  set_address(options.listen, server_settings);
  if (!options.token_file.empty()) server_settings.token = read_token(options.token_file);
  server_settings.certificate = options.certificate;
  server_settings.key = options.key;
  if (is_redis_url(options.store)) {
    run_shared(options, server_settings);
  } else {
    run_alone(options, server_settings);
  }
  return 0;
}

}  // namespace

void add_buffer_command(CLI::App& app, Action& chosen) {
  auto* command = app.add_subcommand(
      "buffer", "Take samples from rollout workers over HTTP and keep them until they are trained");
  auto options = std::make_shared<BufferOptions>();
  command
      ->add_option("--listen", options->listen, "Where producers and the job find it; port 0 is any free one")
      ->type_name("ADDRESS:PORT")
      ->capture_default_str();
  command->add_option("--dir", options->folder, "The folder to keep samples in, for this buffer alone")
      ->type_name("DIR")
      ->capture_default_str();
  command
      ->add_option(
          "--store", options->store,
          "lmdb keeps samples in the folder; redis://HOST:PORT in a Redis, where several servers share "
          "them; memory loses them at the end")
      ->type_name("STORE")
      ->check(store_word())
      ->capture_default_str();
  command->add_option("--name", options->name, "The buffer's name in Redis, where there may be several")
      ->type_name("NAME")
      ->capture_default_str();
  command
      ->add_option("--advertise", options->advertised,
                   "With Redis: the address that other servers use; default: where it listens")
      ->type_name("URL");
  command->add_option("--redis-password-file", options->password_file, "A file with the password of Redis")
      ->type_name("FILE");
  command
      ->add_option("--capacity", options->capacity,
                   "Maximum number of bytes to keep; if it is full, producers wait")
      ->type_name("BYTES")
      ->check(byte_count())
      ->capture_default_str();
  command->add_option("--token-file", options->token_file, "A file with the token that senders must know")
      ->type_name("FILE");
  command->add_option("--cert", options->certificate, "A certificate (PEM), for TLS; needs --key")
      ->type_name("FILE");
  command->add_option("--key", options->key, "The certificate's private key (PEM)")->type_name("FILE");
  command->add_option("--group-size", options->group_size, "Number of samples in a complete group")
      ->type_name("COUNT")
      ->check(whole_number(1, stream::max_in_group))
      ->capture_default_str();
  command
      ->add_option("--min-group", options->min_group,
                   "Minimum number of samples in a closed group; default: all")
      ->type_name("COUNT")
      ->check(whole_number(1, stream::max_in_group));
  command
      ->add_option("--deadline", options->deadline,
                   "Seconds after its first sample at which a group is closed")
      ->type_name("SECONDS")
      ->check(decimal_number());
  command
      ->add_option("--ticket-deadline", options->ticket_deadline,
                   "Seconds after which an unused ticket expires")
      ->type_name("SECONDS")
      ->check(decimal_number())
      ->capture_default_str();
  command
      ->add_option("--max-staleness", options->max_staleness,
                   "Maximum number of versions that a sample may be behind")
      ->type_name("COUNT")
      ->check(whole_number(0));
  command
      ->add_option("--on-stale", options->on_stale,
                   "wait: fewer tickets, so that nothing gets stale; drop; mask: train with a loss mask of 0")
      ->type_name("WORD")
      ->transform(one_of({"wait", "drop", "mask"}))
      ->capture_default_str();
  command
      ->add_option("--late-fields", options->late_fields,
                   "Fields that are added to samples after these were stored, and before they are trained")
      ->type_name("NAME,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  add_read_as_option(*command, options->formats);
  command->footer(
      "SIGTERM ends it. What it has acknowledged is there when it starts again, however it ended.\n"
      "\n"
      "Examples:\n"
      "  evenkeel buffer --listen 127.0.0.1:8710 --dir buffer --capacity 8GiB --group-size 8\n"
      "  evenkeel buffer --listen 0.0.0.0:8710 --token-file token --cert cert.pem --key key.pem\n"
      "  evenkeel buffer --listen 10.0.0.5:8710 --token-file token --store redis://10.0.0.9:6379");
  command->callback([options, &chosen] { chosen = [options] { return run_buffer(*options); }; });
}

}  // namespace evenkeel::cli
