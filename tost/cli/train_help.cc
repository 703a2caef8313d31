// The help of `tost train`: settings in groups, for the kind of run that other flags select.
#include <algorithm>
#include <vector>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/cli/field_option.h"
#include "tost/kinds/kinds.h"

namespace tost {
namespace {

using nlohmann::json;

// A group of settings: --help shows those in `usual`, --help-all also those in `rest`.
struct TrainHeading {
  const char* title;
  std::vector<std::string> usual, rest;
  bool one_kind = false;  // so that the title names the kind
};

const std::vector<TrainHeading>& headings() {
  static const std::vector<TrainHeading> kHeadings = {
      {"What",
       {"recipe", "model", "mixer", "from", "data", "holdout", "epochs", "max_steps", "batch", "lr",
        "seed", "precision", "device", "threads"},
       {"mlp", "model_options"}},
      {"Image models", {"image_size"}, {"drop_path"}, true},
      {"Sequence data",
       {"max_length"},
       {"min_tokens", "max_tokens", "max_depth", "max_arguments"},
       true},
      {"Tasks of tokens", {}, {"eval_samples"}, true},
      {"Text",
       {"tokenizer"},
       {"eval_batches", "sample_every_steps", "sample_prompt", "sample_tokens",
        "sample_temperature"}},
      {"Models of text and sequences",
       {"block"},
       {"depth",        "heads",          "dim",          "mlp_hidden",
        "dropout",      "layer_scale",    "positions",    "pool",
        "conv",         "decay",          "means",        "gate",
        "scale_pi",     "bias_positions", "window",       "attention_dropout",
        "beta_range",   "delta_steps",    "hybrid_every", "hybrid_mixer",
        "length_groups"}},
      {"Optimisation",
       {},
       {"optimizer", "momentum", "accumulate", "recompute", "lr_reference_batch", "min_lr",
        "warmup_lr", "warmup_epochs", "warmup_steps", "schedule", "schedule_lag", "weight_decay",
        "decay_all", "beta1", "beta2", "eps", "clip", "ema_decay", "evaluate_ema"}},
      {"Records",
       {},
       {"evaluate_every", "evaluate_every_steps", "checkpoint_every", "checkpoint_every_steps",
        "keep_last", "background_saves", "save_retries", "log_every", "bound_every_steps"}},
      {"Guards", {}, {"outlier_z", "outlier_limit", "rollbacks", "rollback_lr", "data_timeout"}},
      {"Several processes",
       {},
       {"peer_timeout", "peer_backend", "sequence_parallel", "shard_optimizer",
        "compress_gradients"}},
      {"Data of pictures and sequences",
       {},
       {"data_format", "data_seed", "train_size", "test_size", "eval_batch"}},
      {"Image data",
       {},
       {"data_side", "workers", "max_unreadable", "resize", "crop_ratio", "interpolation"},
       true},
      {"Image augmentation",
       {},
       {"crop", "crop_pad", "crop_min_scale", "flip", "randaugment", "randaugment_magnitude",
        "randaugment_noise", "color_jitter", "erase", "mixup", "cutmix", "mix_probability",
        "mix_switch", "label_smoothing", "repeats"},
       true},
      {"Other settings", {}, {}},
  };
  return kHeadings;
}

const TrainHeading& heading_of(const std::string& key) {
  return headings()[train_place(key).heading];
}

bool is_default(const std::string& key) {
  return train_place(key).place < heading_of(key).usual.size();
}

const FieldInfo* find_field(const RunKind& kind, const std::string& key) {
  for (const FieldInfo& field : kind.fields) {
    if (field.key == key) return &field;
  }
  return nullptr;
}

std::string default_value(const RunKind& kind, const std::string& recipe, const std::string& key) {
  return show_setting(kind.usual(recipe).value(key, json()));
}

// The field of a setting, with the joined choices and help texts of all kinds.
FieldInfo joined_field(const std::string& key) {
  FieldInfo joined;
  std::vector<std::string> nouns;
  bool same = true;
  for (const RunKind& kind : run_kinds()) {
    const FieldInfo* field = find_field(kind, key);
    if (field == nullptr) continue;
    if (nouns.empty()) {
      joined = *field;
    } else {
      join_choices(joined, *field);
      if (joined.help != field->help) {
        joined.help += "; " + kind.noun + "s: " + field->help;
        same = false;
      }
    }
    nouns.push_back(kind.noun + "s");
  }
  const bool named = nouns.size() == run_kinds().size() || heading_of(key).one_kind;
  if (same && !named) joined.help += " (" + join(nouns, ", ") + ")";
  return joined;
}

// The default of a setting: "64", or "small 64, char 12" if the recipes of the kinds differ.
std::string joined_default(const std::string& key) {
  std::vector<std::string> values, parts;
  for (const RunKind& kind : run_kinds()) {
    const std::string& recipe = kind.recipes.front();
    const std::string value = default_value(kind, recipe, key);
    if (value.empty()) continue;
    values.push_back(value);
    parts.push_back(recipe == value ? value : recipe + " " + value);
  }
  const bool same = std::equal(values.begin() + !values.empty(), values.end(), values.begin());
  return values.empty() ? "" : same ? values.front() : join(parts, ", ");
}

// Replaces several empty lines by one.
std::string without_gaps(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c != '\n' || !ends_with(result, "\n\n")) result += c;
  }
  return result;
}

class TrainHelp : public CLI::Formatter {
 public:
  TrainHelp(CLI::App& command, std::map<std::string, CLI::Option*> options, std::string examples)
      : command_(command), options_(std::move(options)), examples_(std::move(examples)) {
    column_width(command.get_formatter()->get_column_width());
  }

  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    const bool all = mode == CLI::AppFormatMode::All;
    const RunKind* kind = selected_kind();
    if (all && kind == nullptr) {
      show_all();
    } else {
      show_kind(kind == nullptr ? run_kinds().front() : *kind, all);
    }
    return without_gaps(CLI::Formatter::make_help(app, std::move(name), mode));
  }

 private:
  std::string value_of(const char* key) const {
    const auto& results = options_.at(key)->results();
    return results.empty() ? "" : results.back();
  }

  // The kind of run that the flags select; null if flags select no kind or several kinds.
  const RunKind* selected_kind() const {
    json values = json::object();
    for (const char* key : {"recipe", "model", "from"}) {
      if (!value_of(key).empty()) values[key] = value_of(key);
    }
    try {
      return values.empty() ? kind_of_data(value_of("data")) : &choose_run_kind(values);
    } catch (const Error&) {
      return nullptr;
    }
  }

  void show_all() const {
    for (const auto& [key, option] : options_) {
      option->group(heading_of(key).title);
      describe_field(*option, joined_field(key), joined_default(key));
    }
    command_.footer("Values are those of the first recipe of each kind.\n" + examples_);
  }

  void show_kind(const RunKind& kind, bool all) const {
    const std::string recipe_name = value_of("recipe");
    const bool known =
        std::find(kind.recipes.begin(), kind.recipes.end(), recipe_name) != kind.recipes.end();
    const std::string recipe = known ? recipe_name : kind.recipes.front();
    for (const auto& [key, option] : options_) {
      const FieldInfo* field = find_field(kind, key);
      const bool shown = field != nullptr && (all || is_default(key));
      option->group(shown ? heading_of(key).title : "");
      if (shown) describe_field(*option, *field, default_value(kind, recipe, key));
    }
    std::vector<std::string> others;
    for (const RunKind& other : run_kinds()) {
      if (&other != &kind) others.push_back(cat(other.recipes.front(), " (", other.noun, "s)"));
    }
    command_.footer(cat("Settings of ", kind.noun, "s, with the values of recipe ", recipe,
                        all ? "." : "; --help-all shows the rest.",
                        "\nOther kinds: --help with --recipe ", join(others, ", "), ".\n",
                        examples_));
  }

  CLI::App& command_;
  std::map<std::string, CLI::Option*> options_;
  std::string examples_;
};

}  // namespace

TrainPlace train_place(const std::string& key) {
  for (size_t h = 0; h < headings().size(); ++h) {
    std::vector<std::string> keys = headings()[h].usual;
    keys.insert(keys.end(), headings()[h].rest.begin(), headings()[h].rest.end());
    const auto found = std::find(keys.begin(), keys.end(), key);
    if (found != keys.end()) return {h, static_cast<size_t>(found - keys.begin())};
  }
  return {headings().size() - 1, 0};
}

void set_train_help(CLI::App& command, std::map<std::string, CLI::Option*> options,
                    std::string examples) {
  command.set_help_all_flag("--help-all", "Print all settings and exit");
  command.formatter(std::make_shared<TrainHelp>(command, std::move(options), std::move(examples)));
}

}  // namespace tost
