#include "tost/cli/flag_values.h"

#include <charconv>
#include <cmath>
#include <iostream>
#include <string>
#include <vector>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/data/named_sets.h"

namespace tost {
namespace {

template <class T>
bool read_number(const std::string& text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// Each of these returns what is wrong with a value, or "".
std::string judge_text(const std::string& text) {
  return text.empty() ? "the value is empty; give one, or leave this out." : "";
}

std::string judge_count(const std::string& text) {
  int64_t value = 0;
  if (text.empty()) return judge_text(text);
  if (!read_number(text, value)) return cat("'", text, "' is not an integer of this size.");
  return value < 0 ? cat(value, " is negative; an integer from 0 on is expected.") : "";
}

std::string judge_number(const std::string& text) {
  double value = 0;
  if (text.empty()) return judge_text(text);
  return read_number(text, value) && std::isfinite(value)
             ? ""
             : cat("'", text, "' is not a finite number.");
}

void check_one(CLI::Option& option) {
  // Flags without a value have no type, nor have the settings of a table.
  const std::string type = option.get_type_name();
  const auto add = [&](std::string (*judge)(const std::string&)) {
    option.check(CLI::Validator([judge](std::string& text) { return judge(text); }, ""));
  };
  if (starts_with(type, "INT") || starts_with(type, "UINT")) add(judge_count);
  if (starts_with(type, "FLOAT")) add(judge_number);
  if (starts_with(type, "TEXT") && option.get_name() != "--prompt") add(judge_text);
}

std::vector<CLI::App*> commands_of(CLI::App& app) {
  return app.get_subcommands([](CLI::App*) { return true; });
}

// `text`: PATH, or TASK=PATH.
void note_data_name(const CLI::App& command, const std::string& text) {
  const std::string path = text.substr(text.find('=') + 1);
  const CLI::Option* format = command.get_option_no_throw("--data-format");
  const bool told = format != nullptr && format->count() > 0;
  if (!means_generated(path, told ? format->results().back() : "auto")) return;
  if (!path_exists(path)) return;
  std::cerr << "note: " << path << " means the generated set; the " << path
            << " in this folder is ./" << path << "\n";
}

}  // namespace

std::string at_least_one(const std::string& text) {
  int64_t value = 0;
  return read_number(text, value) && value >= 1 ? ""
                                                : cat("'", text, "' is not an integer from 1 on");
}

void note_data_names(CLI::App& app) {
  for (const char* flag : {"--data", "--against"}) {
    CLI::Option* option = app.get_option_no_throw(flag);
    if (option == nullptr) continue;
    option->each([&app](const std::string& text) { note_data_name(app, text); });
  }
  for (CLI::App* command : commands_of(app)) note_data_names(*command);
}

void check_flag_values(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) check_one(*option);
  for (CLI::App* command : commands_of(app)) check_flag_values(*command);
}

}  // namespace tost
