#include "tost/engine/shipped_models.h"

#include <algorithm>
#include <cstdlib>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/machine.h"
#include "tost/base/path.h"
#include "tost/engine/metadata.h"
#include "tost/io/parse_json.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int64_t kMaxCardBytes = 1 << 20;

// Allows only lower-case letters, digits and dashes, so that a name is not a path.
void check_shipped_name(const std::string& name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  };
  if (name.empty() || !std::all_of(name.begin(), name.end(), plain)) {
    fail_data("a model's name is not made of lower-case letters, digits and dashes.");
  }
}

ShippedModel shipped_model(const fs::path& folder, const json& card) {
  ShippedModel model{
      .name = card.at("name").get<std::string>(), .file = {}, .entry = {}, .card = card};
  check_shipped_name(model.name);
  model.file = folder / (model.name + ".safetensors");
  model.entry = manifest_entry(card.at("file"), model.name, "it");
  for (const char* text : {"about", "data", "licence", "score"}) {
    (void)card.at(text).get_ref<const std::string&>();
  }
  return model;
}

}  // namespace

fs::path shipped_folder() {
  if (const char* set = std::getenv("TOST_MODELS"); set != nullptr && *set != '\0') return set;
  const fs::path program = program_file().parent_path();
  for (const fs::path& folder : {program / "models", program.parent_path() / "share/tost/models"}) {
    if (path_exists(folder / kCardsFile)) return folder;
  }
  return {};
}

std::vector<ShippedModel> shipped_models() {
  const fs::path folder = shipped_folder();
  if (folder.empty()) return {};
  const fs::path list = folder / kCardsFile;
  const std::string where = cat("'", list.string(), "'");
  const json object = parse_json(read_file(list, kMaxCardBytes), where, {.unique_keys = true});
  return read_from(where, [&] {
    std::vector<ShippedModel> models;
    for (const json& card : object.at("models")) models.push_back(shipped_model(folder, card));
    return models;
  });
}

std::vector<std::string> shipped_names() {
  std::vector<std::string> names;
  for (const ShippedModel& model : shipped_models()) names.push_back(model.name);
  return names;
}

void check_shipped(const ShippedModel& model) {
  verify_entry(model.file, model.entry, "install tost again");
}

std::string model_path(const std::string& text) {
  // Does not read the list of models for a path, which most arguments are.
  if (text.find_first_of("./") != std::string::npos || path_exists(text)) return text;
  for (const ShippedModel& model : shipped_models()) {
    if (model.name != text) continue;
    check_shipped(model);
    return model.file.string();
  }
  return text;
}

}  // namespace tost
