// The interface of a kind of model for the training loop, the command line and --help.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tost/train/config_form.h"
#include "tost/train/loop_config.h"
#include "tost/train/train_task.h"

namespace tost {

// The content of the folder of a resumed run.
struct SavedRun {
  nlohmann::json config;
  std::string config_where;             // for messages
  std::optional<nlohmann::json> model;  // nothing: the run ended before it was written
  std::string model_where;
  bool has_checkpoint = false;  // whose weights replace those the task begins with
};

struct PreparedRun {
  LoopConfig loop;
  nlohmann::json config;              // the effective configuration, for the run folder
  std::vector<std::string> messages;  // about a resumed run's changed settings
  // Opens the data and makes the model; called after threads and torch's generator are set.
  std::function<std::unique_ptr<TrainTask>()> make_task;
};

struct RunKind {
  std::string name;                  // "vision"
  std::string files;                 // model_kind() of its files; several kinds may write the same
  std::string noun;                  // "image model"
  std::vector<FieldInfo> fields;     // all settings
  std::vector<std::string> models;   // presets
  std::vector<std::string> recipes;  // the first is the default
  // The values of all settings of a recipe.
  std::function<nlohmann::json(const std::string& recipe)> usual;
  // Makes the settings of a new run, or those of a resumed run changed by `values`. Throws usage
  // Errors.
  std::function<PreparedRun(const nlohmann::json& values, const SavedRun* saved)> prepare;
  // Checks a configuration without starting the run; may be null.
  std::function<void(const nlohmann::json& config)> check;
  std::string metric;        // by which runs are compared: "top1", "accuracy" or "loss"
  bool corruptible = false;  // scored on damaged pictures, too
  bool scored = false;       // by `tost eval RUN`, on the data it was trained with
};

// The constructor of `Task` takes a configuration, the description of a resumed run's model, and
// whether that run has a checkpoint. `read_info` reads the description.
template <class Task, class Config, class Info>
RunKind make_run_kind(std::string name, std::string noun, const ConfigForm<Config>& form,
                      std::vector<std::string> models,
                      Info (*read_info)(const nlohmann::json&, const std::string& where)) {
  RunKind kind;
  kind.files = name;
  kind.name = std::move(name);
  kind.noun = std::move(noun);
  kind.fields = form.fields.fields();
  kind.fields.insert(kind.fields.end(), form.shorthands.begin(), form.shorthands.end());
  kind.models = std::move(models);
  kind.recipes = names_of(form.recipes);
  kind.usual = [&form](const std::string& recipe) {
    return form.fields.to_json(make_recipe(form, recipe));
  };
  kind.prepare = [&form, read_info](const nlohmann::json& values, const SavedRun* saved) {
    PreparedRun run;
    const Config config =
        saved == nullptr
            ? make_config(form, values)
            : resume_config(form, make_config(form, saved->config, saved->config_where), values,
                            run.messages);
    run.loop = config;
    run.config = form.fields.to_json(config);
    if (!config.from.empty()) run.config.erase("model");  // the file decides
    run.make_task = [config, read_info, saved]() -> std::unique_ptr<TrainTask> {
      std::optional<Info> info;
      if (saved != nullptr && saved->model) info = read_info(*saved->model, saved->model_where);
      return std::make_unique<Task>(config, std::move(info),
                                    saved != nullptr && saved->has_checkpoint);
    };
    return run;
  };
  return kind;
}

}  // namespace tost
