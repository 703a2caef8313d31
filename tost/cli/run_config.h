// The settings that a model was trained with, where its file lies in a run folder.
#pragma once

#include <algorithm>
#include <filesystem>
#include <optional>

#include "tost/base/path.h"
#include "tost/store/run_layout.h"
#include "tost/train/config_form.h"

namespace tost {

// The configuration of the run that a model file lies in (RUN/checkpoints/STEP/FILE), if it does
// and the run is of the form's kind, which its recipe tells.
template <class Config>
std::optional<Config> run_config(const ConfigForm<Config>& form,
                                 const std::filesystem::path& model_file) {
  const auto checkpoints = absolute_path(model_file).parent_path().parent_path();
  if (checkpoints.filename() != kCheckpointFolder) return std::nullopt;
  const auto file = checkpoints.parent_path() / kConfigFile;
  if (!is_plain_file(file)) return std::nullopt;
  nlohmann::json values = read_config_file(file);
  const auto recipes = names_of(form.recipes);
  const auto recipe = values.find("recipe");
  const bool other_kind =
      recipe != values.end() && std::find(recipes.begin(), recipes.end(), *recipe) == recipes.end();
  if (other_kind) return std::nullopt;
  values.erase("from");  // need not be there any more
  return make_config(form, values, cat("'", file.string(), "'"));
}

}  // namespace tost
