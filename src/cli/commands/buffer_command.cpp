#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/text/units.hpp"
#include "base/text_layout.hpp"
#include "base/utf8.hpp"
#include "buffer/buffer.hpp"
#include "buffer/redis/redis_address.hpp"
#include "buffer/server.hpp"
#include "buffer/shared/shared_server.hpp"
#include "buffer/store/store.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/server_options.hpp"
#include "cli/option_values.hpp"
#include "cli/terminal/terminal.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel::cli {
namespace {

struct BufferOptions : ServerOptions {
  BufferOptions() : ServerOptions{.listen = "127.0.0.1:8710", .folder = "buffer"} {}

  std::int64_t group_size = 1;
  std::optional<std::int64_t> min_group;
  std::optional<double> deadline;
  double ticket_deadline = stream::StreamSettings{}.ticket_deadline;
  std::optional<std::int64_t> max_staleness;
  std::string on_stale = "wait";
  std::vector<std::string> late_fields;
  DeclaredFormats formats;
};

/// Returns the option for a key of the section `stream`, such as --min-group for stream.min_group.
std::string option_of_key(const std::string& key) {
  std::string option = "--" + key.substr(key.find('.') + 1);
  std::ranges::replace(option, '_', '-');
  return option;
}

stream::StreamSettings stream_settings(const BufferOptions& options) {
  stream::StreamSettings settings;
  settings.group_size = options.group_size;
  settings.min_group = options.min_group;
  settings.deadline = options.deadline;
  settings.ticket_deadline = options.ticket_deadline;
  settings.max_staleness = options.max_staleness;
  settings.on_stale = stream::parse_on_stale(options.on_stale).value();
  settings.late_fields = options.late_fields;
  try {
    settings.validate();
  } catch (const ConfigError& error) {  // names the option instead of the key in a job's configuration
    throw ConfigError(option_of_key(error.report().where), error.report().message, error.report().hint);
  }
  return settings;
}

std::string describe_found_samples(const BufferStatus& status) {
  const stream::Status& of = status.stream;
  if (of.received.samples == 0) return "No samples have been received yet";
  return fmt::format("Found {} that wait in {}, {} in steps that are not trained; version {}{}",
                     format_count(of.waiting.samples, "sample"),
                     format_count(of.open_groups + of.ready_groups, "group"), of.formed.samples, of.version,
                     of.formed_step ? fmt::format(", step {} formed last", *of.formed_step) : "");
}

void print_status(const BufferStatus& status) {
  log_status(fmt::format("Store: {}, {} of {} in use{}", printable(status.store), bytes_text(status.used),
                         bytes_text(status.capacity),
                         status.data_loss_risk.empty() ? "" : "; " + status.data_loss_risk));
  log_status(describe_found_samples(status));
}

void print_summary(const stream::Status& at_end) {
  log_status(fmt::format("Stopped: {} received, {} trained, {} waiting or in steps",
                         format_count(at_end.received.samples, "sample"), at_end.trained.samples,
                         at_end.waiting.samples + at_end.formed.samples));
}

void run_local_buffer(const BufferOptions& options, const ServerSettings& server_settings) {
  Buffer buffer(open_local_store(options), stream_settings(options), options.formats);
  BufferServer server(buffer, server_settings);
  print_status(buffer.status());
  log_status("Listening on " + server.url());
  serve_until_ended([&] { server.serve(); },
                    [&] {
                      buffer.stop();
                      server.stop();
                    });
  print_summary(buffer.status().stream);
}

void run_shared_buffer(const BufferOptions& options, const ServerSettings& server_settings) {
  SharedServer server({.store = redis_settings_of(options),
                       .stream = stream_settings(options),
                       .server = server_settings,
                       .advertised = options.advertised,
                       .formats = options.formats});
  if (const auto buffer = server.buffer()) {
    print_status(buffer->status());
  } else {
    log_status("Standing by: " + server.active_url() + " is active");
  }
  log_status("Listening on " + server.url());
  serve_until_ended([&] { server.serve(); }, [&] { server.stop(); });
  log_status("Stopped");
}

int run_buffer(const BufferOptions& options) {
  const ServerSettings server_settings = prepare_server(options);
  if (is_redis_url(options.store)) {
    run_shared_buffer(options, server_settings);
  } else {
    run_local_buffer(options, server_settings);
  }
  return 0;
}

}  // namespace

void add_buffer_command(CLI::App& app, Action& chosen) {
  auto* command = app.add_subcommand(
      "buffer", "Take samples from rollout workers over HTTP and keep them until they are trained");
  auto options = std::make_shared<BufferOptions>();
  add_server_options(*command, *options,
                     {.clients = "producers and the job find it",
                      .content = "samples",
                      .server = "buffer",
                      .senders = "senders",
                      .when_full = "producers wait"});
  command->add_option("--group-size", options->group_size, "Number of samples in a complete group")
      ->type_name("COUNT")
      ->check(whole_number(1, max_in_group))
      ->capture_default_str();
  command
      ->add_option("--min-group", options->min_group,
                   "Minimum number of samples in a closed group; default: all")
      ->type_name("COUNT")
      ->check(whole_number(1, max_in_group));
  command
      ->add_option("--deadline", options->deadline, "Close a group this many seconds after its first sample")
      ->type_name("SECONDS")
      ->check(decimal_number(31'622'400));
  command
      ->add_option("--ticket-deadline", options->ticket_deadline,
                   "Seconds after which an unused ticket expires")
      ->type_name("SECONDS")
      ->check(decimal_number(31'622'400))
      ->capture_default_str();
  command
      ->add_option("--max-staleness", options->max_staleness,
                   "Maximum number of versions that a sample may be behind")
      ->type_name("COUNT")
      ->check(whole_number(0));
  command
      ->add_option("--on-stale", options->on_stale,
                   "wait: grant fewer tickets, so that samples do not become stale; drop: drop stale "
                   "samples; mask: train them with a loss mask of 0")
      ->type_name("RULE")
      ->transform(one_of({"wait", "drop", "mask"}))
      ->capture_default_str();
  command
      ->add_option("--late-fields", options->late_fields,
                   "Fields that are added to samples after they are stored and before they are trained")
      ->type_name("NAME,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  add_read_as_option(*command, options->formats);
  command->footer(
      "SIGTERM ends it. What it has acknowledged survives a restart or a crash, except with --store memory.\n"
      "\n"
      "Examples:\n"
      "  evenkeel buffer --listen 127.0.0.1:8710 --dir buffer --capacity 8GiB --group-size 8\n"
      "  evenkeel buffer --listen 0.0.0.0:8710 --token-file token --cert cert.pem --key key.pem\n"
      "  evenkeel buffer --listen 10.0.0.5:8710 --token-file token --store redis://10.0.0.9:6379");
  command->callback([options, &chosen] { chosen = [options] { return run_buffer(*options); }; });
}

}  // namespace evenkeel::cli
