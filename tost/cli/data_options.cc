// Options of commands that read data.
#include <iostream>

#include "tost/base/path.h"
#include "tost/cli/options.h"
#include "tost/io/named_sets.h"

namespace tost {

void add_data_options(CLI::App& command, std::string& path, std::string& format, bool required) {
  CLI::Option* data =
      command.add_option("--data", path, "Folder of the data, or 'shapes' (generated)");
  if (required) data->required();
  command.add_option("--data-format", format, "auto, idx, cifar10, cifar100, folder or shapes")
      ->capture_default_str();
}

namespace {

// `text`: PATH, or TASK=PATH.
void note_data_name(const CLI::App& command, const std::string& text) {
  const std::string path = text.substr(text.find('=') + 1);
  const CLI::Option* format = command.get_option_no_throw("--data-format");
  const bool chosen = format != nullptr && format->count() > 0;
  if (!means_generated(path, chosen ? format->results().back() : "auto")) return;
  if (!path_exists(path)) return;
  std::cerr << "note: " << path << " means the generated set; the " << path
            << " in this folder is ./" << path << "\n";
}

}  // namespace

void note_data_names(CLI::App& app) {
  for (const char* flag : {"--data", "--against"}) {
    CLI::Option* option = app.get_option_no_throw(flag);
    if (option == nullptr) continue;
    option->each([&app](const std::string& text) { note_data_name(app, text); });
  }
  for (CLI::App* command : commands_of(app)) note_data_names(*command);
}

}  // namespace tost
