#include "tost/cli/options.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "tost/base/error.h"
#include "tost/ops/device.h"
#include "tost/store/shipped_models.h"

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

void add_data_options(CLI::App& command, DataSpec& spec, bool required) {
  CLI::Option* data =
      command.add_option("--data", spec.path, "Folder of the data, or 'shapes' (generated)");
  if (required) data->required();
  command
      .add_option("--data-format", spec.format, "auto, idx, cifar10, cifar100, folder or shapes")
      ->capture_default_str();
}

}  // namespace tost
