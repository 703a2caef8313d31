#include "tost/cli/options.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <string_view>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/engine/shipped_models.h"

namespace tost {

void add_example(CLI::App& command, const std::string& lines) {
  command.footer("Example:\n" + lines);
}

void add_device_option(CLI::App& command, RunOptions& options) {
  command
      .add_option("--device", options.device,
                  "cpu, cuda, cuda:N (the GPU of number N), or auto: a GPU where torch sees one")
      ->capture_default_str();
}

void add_run_options(CLI::App& command, RunOptions& options) {
  command.add_option("--threads", options.threads, "Compute threads (0: all cores)");
  command.add_flag("--json", options.json, "One JSON object on stdout instead of text");
}

void add_model_argument(CLI::App& command, const char* name, std::string& value) {
  accept_shipped_names(
      *command
           .add_option(name, value,
                       "Run folder, checkpoint folder, .safetensors, .pth or .pt file, or a "
                       "shipped model (tost models)")
           ->required());
}

void accept_shipped_names(CLI::Option& option) {
  option.transform(CLI::Validator(
      [](std::string& text) {
        text = model_path(text);
        return std::string();
      },
      ""));
}

CLI::Option* add_tokenizer_option(CLI::App& command, std::string& name) {
  return command.add_option("--tokenizer", name,
                            "Of a model whose file holds none: gpt2:FOLDER, gpt2, bytes, "
                            "file:TOKENIZER.json, or made from --data: chars, words:N");
}

std::string quoted(const std::string& text) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("._-/=+:,").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return text;
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

void check_output_file(const char* flag, const std::string& path) {
  if (path.empty()) return;
  const auto folder = std::filesystem::path(path).parent_path();
  if (is_folder(path)) {
    fail_usage("--", flag, " ", path, " is a folder; name a file.");
  }
  if (folder.empty() || is_folder(folder)) return;
  fail_usage("--", flag, " ", path, ": there is no folder ", folder.string(), "; make it first.");
}

void check_output_ending(const char* flag, const std::string& path,
                         const std::vector<std::string>& endings) {
  check_output_file(flag, path);
  if (path.empty()) return;
  for (const std::string& ending : endings) {
    if (ends_with(path, ending)) return;
  }
  fail_usage("--", flag, " is '", path, "'; it must end in ", join(endings, " or "), ".");
}

namespace {

template <class T>
bool read_number(const std::string& text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// A check of a value returns a message about a wrong value, or "" for a correct one.
std::string text_error(const std::string& text) {
  return text.empty() ? "the value is empty; give one, or leave this out." : "";
}

std::string count_error(const std::string& text) {
  int64_t value = 0;
  if (text.empty()) return text_error(text);
  if (!read_number(text, value)) return cat("'", text, "' is not an integer of this size.");
  return value < 0 ? cat(value, " is negative; an integer from 0 on is expected.") : "";
}

std::string number_error(const std::string& text) {
  double value = 0;
  if (text.empty()) return text_error(text);
  return read_number(text, value) && std::isfinite(value)
             ? ""
             : cat("'", text, "' is not a finite number.");
}

void check_one(CLI::Option& option) {
  // Checks only options with a type: others have no value, or a table checks them.
  const std::string type = option.get_type_name();
  const auto add = [&](std::string (*error_of)(const std::string&)) {
    option.check(CLI::Validator([error_of](std::string& text) { return error_of(text); }, ""));
  };
  if (starts_with(type, "INT") || starts_with(type, "UINT")) add(count_error);
  if (starts_with(type, "FLOAT")) add(number_error);
  if (starts_with(type, "TEXT") && option.get_name() != "--prompt") add(text_error);
}

}  // namespace

std::vector<CLI::App*> commands_of(CLI::App& app) {
  return app.get_subcommands([](CLI::App*) { return true; });
}

void check_flag_values(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) check_one(*option);
  for (CLI::App* command : commands_of(app)) check_flag_values(*command);
}

}  // namespace tost
