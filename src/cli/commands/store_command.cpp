#include <fmt/format.h>
#include <malloc.h>

#include <filesystem>
#include <limits>
#include <memory>

#include "base/text/units.hpp"
#include "base/text_layout.hpp"
#include "base/utf8.hpp"
#include "buffer/redis/redis_address.hpp"
#include "buffer/values/value_server.hpp"
#include "buffer/values/value_store.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/server_options.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel::cli {
namespace {

struct StoreOptions : ServerOptions {
  StoreOptions() : ServerOptions{.listen = "127.0.0.1:8711", .folder = "values"} {}

  std::filesystem::path checkpoints;
  std::filesystem::path socket;
};

void print_store_status(const ValueStatus& status) {
  log_status(fmt::format("Store: {}, {} of {} in use{}", printable(status.store), bytes_text(status.used),
                         bytes_text(status.capacity),
                         status.data_loss_risk.empty() ? "" : "; " + status.data_loss_risk));
  log_status(fmt::format("Found {} of {}", format_count(status.values, "value"),
                         format_count(status.indexes, "sample")));
}

void run_local_store(const StoreOptions& options, const ServerSettings& settings) {
  ValueStore store(open_local_store(options));
  ValueServer server(store, settings, options.checkpoints);
  print_store_status(store.status());
  log_status("Listening on " + server.url());
  serve_until_ended([&] { server.serve(); },
                    [&] {
                      store.stop();
                      server.stop();
                    });
  const ValueStatus at_end = store.status();
  log_status(fmt::format("Stopped: {} of {}", format_count(at_end.values, "value"),
                         format_count(at_end.indexes, "sample")));
}

void run_shared_store(const StoreOptions& options, const ServerSettings& settings) {
  SharedServer server({.store = redis_settings_of(options),
                       .stream = {},
                       .server = settings,
                       .advertised = options.advertised,
                       .content = StoreContent::values,
                       .checkpoints = options.checkpoints});
  if (const auto store = server.values()) {
    print_store_status(store->status());
  } else {
    log_status("Standing by: " + server.active_url() + " is active");
  }
  log_status("Listening on " + server.url());
  serve_until_ended([&] { server.serve(); }, [&] { server.stop(); });
  log_status("Stopped");
}

/// Makes glibc keep freed memory for the next values. Otherwise, it returns this memory to the system, and
/// each put needs new pages. Getting new pages takes longer than receiving the values.
void keep_freed_memory() {
  ::mallopt(M_ARENA_MAX, 1);
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the largest value that glibc accepts
  ::mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
}

int run_store(const StoreOptions& options) {
  keep_freed_memory();
  ServerSettings settings = prepare_server(options);
  settings.socket = options.socket;
  if (is_redis_url(options.store)) {
    run_shared_store(options, settings);
  } else {
    run_local_store(options, settings);
  }
  return 0;
}

}  // namespace

void add_store_command(CLI::App& app, Action& chosen) {
  auto* command =
      app.add_subcommand("store", "Keep tensors of samples, by index and field, for a data plane over HTTP");
  auto options = std::make_shared<StoreOptions>();
  add_server_options(*command, *options,
                     {.clients = "clients find it",
                      .content = "values",
                      .server = "store",
                      .senders = "clients",
                      .when_full = "puts are refused until values are cleared"});
  command
      ->add_option("--socket", options->socket,
                   "A UNIX socket at which clients of this user and machine find it, too: the fastest")
      ->type_name("PATH");
  command
      ->add_option("--checkpoints", options->checkpoints,
                   "The folder in which clients may save and load all values; default: nowhere")
      ->type_name("FOLDER");
  command->footer(
      "SIGTERM ends it. What it has acknowledged survives a restart or a crash, except with --store memory.\n"
      "\n"
      "Examples:\n"
      "  evenkeel store --listen 127.0.0.1:8711 --dir values --capacity 64GiB\n"
      "  evenkeel store --listen 0.0.0.0:8711 --token-file token --store memory --checkpoints checkpoints");
  command->callback([options, &chosen] { chosen = [options] { return run_store(*options); }; });
}

}  // namespace evenkeel::cli
