#include "cli/terminal/help_text.hpp"

#include <algorithm>
#include <sstream>

#include "cli/terminal/terminal.hpp"

namespace evenkeel::cli {
namespace {

constexpr std::size_t widest_label = 28;

/// A name and what it is for.
struct Entry {
  std::string label;
  std::string about;
};

/// The text with its last two words on one line, unless they are long, so that no short word stands alone.
std::string without_orphan(const std::string& text, std::size_t width) {
  const std::size_t last = text.find_last_of(' ');
  if (last == std::string::npos || last == 0) return text;
  const std::size_t before = text.find_last_of(' ', last - 1);
  const std::string end = text.substr(before == std::string::npos ? 0 : before + 1);
  return 3 * text_width(end) < width ? text.substr(0, text.size() - end.size()) + kept_together(end) : text;
}

std::string list_of(const std::string& heading, const std::vector<Entry>& entries, std::size_t width) {
  if (entries.empty()) return "";
  std::size_t column = 0;
  for (const Entry& entry : entries)
    column = std::max(column, std::min(widest_label, text_width(entry.label)) + 4);
  std::string text = "\n" + heading + ":\n";
  for (const Entry& entry : entries)
    text += labelled("  " + entry.label, without_orphan(entry.about, width), column, width);
  return text;
}

std::vector<Entry> arguments_of(const CLI::App& app) {
  std::vector<Entry> entries;
  for (const CLI::Option* option : app.get_options([](const CLI::Option* o) { return o->get_positional(); }))
    entries.push_back({typed_form(*option), option->get_description()});
  return entries;
}

std::vector<Entry> options_of(const CLI::App& app) {
  std::vector<Entry> entries;
  for (const CLI::Option* option :
       app.get_options([](const CLI::Option* o) { return !o->get_positional(); })) {
    std::string about = option->get_description();
    if (option->get_required()) about += " (required)";
    if (!option->get_default_str().empty()) about += " (default " + option->get_default_str() + ")";
    entries.push_back({typed_form(*option), about});
  }
  return entries;
}

std::vector<Entry> commands_of(const CLI::App& app) {
  std::vector<Entry> entries;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    entries.push_back({command->get_name(), command->get_description()});
  return entries;
}

std::string usage_of(const CLI::App& app) {
  std::string usage = "usage: " + typed_form(app);
  if (!commands_of(app).empty()) return usage + " COMMAND ...";
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_required()) {
      usage += " " + typed_form(*option);
    } else if (option->get_positional()) {
      usage += " [" + typed_form(*option) + "]";
    }
  }
  return usage + " [OPTIONS]";
}

/// A command to type, over several lines where it must be.
std::string command_line(const std::string& line, std::size_t width) {
  std::string text;
  const std::vector<std::string> lines = wrapped(line, width - 4);
  for (std::size_t i = 0; i < lines.size(); ++i)
    text += (i > 0 ? "  " : "") + lines[i] + (i + 1 < lines.size() ? " \\\n" : "\n");
  return text;
}

std::string footer_of(const CLI::App& app, std::size_t width) {
  if (app.get_footer().empty()) return "";
  std::istringstream lines(app.get_footer());
  std::string text = "\n";
  for (std::string line; std::getline(lines, line);)
    text +=
        line.starts_with("  ") ? command_line(line, width) : indented(without_orphan(line, width), 0, width);
  return text;
}

}  // namespace

std::string typed_form(const CLI::Option& option) {
  if (option.get_positional()) return option.get_name(true);
  std::string names;
  for (const std::string& name : option.get_snames()) names += "-" + name + ", ";
  for (const std::string& name : option.get_lnames()) names += "--" + name + ", ";
  names.resize(names.size() - 2);
  const bool takes_value = option.get_items_expected_max() > 0;
  return takes_value ? names + " " + option.get_type_name() : names;
}

std::string typed_form(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : typed_form(*parent) + " " + command.get_name();
}

std::string HelpText::make_help(const CLI::App* app, std::string /*name*/,
                                CLI::AppFormatMode /*mode*/) const {
  const std::size_t width = style_of(Stream::out).width;
  const std::string about = app->get_description() + (app->get_description().ends_with('.') ? "" : ".");
  return indented(usage_of(*app), 0, width) + "\n" + indented(without_orphan(about, width), 0, width) +
         list_of("Commands", commands_of(*app), width) + list_of("Arguments", arguments_of(*app), width) +
         list_of("Options", options_of(*app), width) + footer_of(*app, width);
}

}  // namespace evenkeel::cli
