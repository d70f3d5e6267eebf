#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "buffer/server.hpp"
#include "buffer/shared/shared_server.hpp"
#include "buffer/store/store.hpp"

namespace evenkeel::cli {

/// Options shared by all servers of this program.
struct ServerOptions {
  std::string listen;
  std::filesystem::path folder;
  std::string store = "lmdb";
  std::string name = "default";
  std::string advertised{};
  std::filesystem::path password_file{};
  std::string capacity = "8GiB";
  std::filesystem::path token_file{};
  std::filesystem::path certificate{};
  std::filesystem::path key{};
};

/// Phrases that are inserted into the help of these options. The comments give examples.
struct ServerHelpTexts {
  std::string clients;    ///< who uses the address of --listen: "producers and the job find it"
  std::string content;    ///< what the server keeps: "samples"
  std::string server;     ///< the kind of server: "buffer"
  std::string senders;    ///< who must send the token: "clients"
  std::string when_full;  ///< what happens if the capacity is used up: "producers wait"
};

/// Adds the options to a command. `options` must outlive the command.
void add_server_options(CLI::App& command, ServerOptions& options, const ServerHelpTexts& texts);

/// Prepares this process for a server: raises the limit on open files, and blocks the signals that end the
/// server. Returns the server's settings according to the options. Throws IoError if the token file cannot be
/// opened, and ConfigError if the token file or the address is invalid.
[[nodiscard]] ServerSettings prepare_server(const ServerOptions& options);
/// Opens the store that options.store names: one in memory, or one in the folder.
[[nodiscard]] std::unique_ptr<Store> open_local_store(const ServerOptions& options);
/// Returns the settings of a store in Redis. Throws ConfigError if its name, address or password file is
/// invalid, and IoError if the password file cannot be opened.
[[nodiscard]] RedisSettings redis_settings_of(const ServerOptions& options);

/// Calls serve(). When SIGTERM or SIGINT arrives, calls stop(), which must make serve() return. Precondition:
/// prepare_server() has blocked these signals.
void serve_until_ended(const std::function<void()>& serve, const std::function<void()>& stop);
/// Writes a line to the log, which is standard output.
void log_status(const std::string& line);

}  // namespace evenkeel::cli
