// tost models: lists the trained models that come with the program, and shows their cards.
#include <algorithm>
#include <iomanip>
#include <iostream>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/cli/commands.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"
#include "tost/engine/metadata.h"
#include "tost/engine/shipped_models.h"
#include "tost/io/parse_json.h"
#include "tost/io/safetensors_index.h"

namespace tost {
namespace {

struct ModelsCommand {
  std::vector<std::string> names;
  bool json = false;
};

std::string kind_of(const ShippedModel& model) {
  return stored_kind(read_safetensors_header(model.file).metadata,
                     cat("'", model.file.string(), "'"));
}

std::string kind_label(const ShippedModel& model) {
  const std::string kind = kind_of(model);
  return kind == "vision" ? "image" : kind;
}

std::string card_text(const ShippedModel& model, const char* key) {
  return model.card.at(key).get<std::string>();
}

nlohmann::json card_json(const ShippedModel& model) {
  nlohmann::json card = model.card;
  card["kind"] = kind_of(model);
  card["path"] = model.file.string();
  return card;
}

std::vector<ShippedModel> chosen(const std::vector<std::string>& names) {
  const auto all = shipped_models();
  if (all.empty()) {
    fail_data(
        "this program has no shipped models next to it; install tost again, or name their "
        "folder in TOST_MODELS.");
  }
  if (names.empty()) return all;
  std::vector<ShippedModel> models;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(all, name, &ShippedModel::name);
    if (found == all.end()) {
      const auto known = shipped_names();
      fail_usage("'", name, "' is not a shipped model; there are ", join(known, ", "), ".",
                 did_you_mean(name, known));
    }
    models.push_back(*found);
  }
  return models;
}

void print_table(const std::vector<ShippedModel>& models) {
  std::cout << std::left << std::setw(10) << "name" << std::setw(10) << "kind" << std::setw(11)
            << "size" << std::setw(16) << "data" << std::setw(14) << "licence"
            << "score\n";
  for (const ShippedModel& model : models) {
    std::cout << std::setw(10) << model.name << std::setw(10) << kind_label(model) << std::setw(11)
              << human_bytes(model.entry.bytes) << std::setw(16) << card_text(model, "data")
              << std::setw(14) << card_text(model, "licence") << card_text(model, "score") << "\n";
  }
  std::cout << "`tost models NAME` shows a model's card. Use: tost predict " << models.front().name
            << " photo.png\n";
}

// Prints the texts of the card with their names; only --json shows the other values.
void print_card(const ShippedModel& model) {
  const auto line = [](const std::string& key, const std::string& value) {
    std::cout << std::left << std::setw(12) << key << value << "\n";
  };
  line("name", model.name);
  line("kind", kind_label(model) + " model");
  line("file", cat(model.file.string(), " (", human_bytes(model.entry.bytes), ")"));
  for (const auto& [key, value] : model.card.items()) {
    if (value.is_string() && key != "name") line(key, value.get<std::string>());
  }
  if (!model.card.contains("commands")) return;
  for (const auto& [key, command] : model.card["commands"].items()) {
    line(key, command.is_string() ? command.get<std::string>() : json_text(command));
  }
}

// Returns the models with intact files, and reports the other models on stderr.
std::vector<ShippedModel> intact(const std::vector<ShippedModel>& all) {
  std::vector<ShippedModel> models;
  for (const ShippedModel& model : all) {
    try {
      check_shipped(model);
      models.push_back(model);
    } catch (const Error& error) {
      std::cerr << "tost models: " << error.what() << "\n";
      set_exit_code(kExitData);
    }
  }
  return models;
}

void run_models(const ModelsCommand& c) {
  const auto models = intact(chosen(c.names));
  if (models.empty()) return;
  if (c.json) {
    auto list = nlohmann::json::array();
    for (const ShippedModel& model : models) list.push_back(card_json(model));
    return print_json({{"folder", shipped_folder().string()}, {"models", list}});
  }
  if (c.names.empty()) return print_table(models);
  for (const ShippedModel& model : models) {
    if (&model != &models.front()) std::cout << "\n";
    print_card(model);
  }
}

}  // namespace

void add_models_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("models", "The trained models that come with the program");
  auto options = std::make_shared<ModelsCommand>();
  command->add_option("names", options->names, "Show the cards of these");
  command->add_flag("--json", options->json, "One JSON object on stdout instead of text");
  add_example(*command,
              "  tost models\n"
              "  tost models words");
  command->callback([options] { run_models(*options); });
}

}  // namespace tost
