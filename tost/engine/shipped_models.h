// The small trained models that come with the program, by name.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tost/engine/manifest.h"

namespace tost {

// The file that lists the models in their folder: an object with the array "models".
inline constexpr char kCardsFile[] = "models.json";

struct ShippedModel {
  std::string name;
  std::filesystem::path file;  // FOLDER/NAME.safetensors
  ManifestEntry entry;         // size and checksum that the file must have
  nlohmann::json card;         // its object in the list, which docs/models.md describes
};

// The folder that TOST_MODELS names, else models/ next to the program or ../share/tost/models.
// Empty if there is none.
std::filesystem::path shipped_folder();

// The shipped models in the order of the list; empty if there is no folder. Throws a data Error for
// a bad list. Does not read the models' files.
std::vector<ShippedModel> shipped_models();
std::vector<std::string> shipped_names();

// Throws a data Error if the file of the model is missing or differs from the model's card.
void check_shipped(const ShippedModel& model);

// Resolves the MODEL of a command: an existing file or folder is `text` itself; otherwise the name
// of a shipped model gives its checked file.
std::string model_path(const std::string& text);

}  // namespace tost
