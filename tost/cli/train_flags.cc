#include "tost/cli/train_flags.h"

#include <algorithm>

#include "tost/base/text.h"
#include "tost/io/parse_json.h"
#include "tost/train/run_kind.h"

namespace tost {
namespace {

using nlohmann::json;

// Headings of --help, in order; keys not named here stand under "Other settings".
struct Heading {
  const char* title;
  std::vector<std::string> keys;
};

const std::vector<Heading>& headings() {
  static const std::vector<Heading> kHeadings = {
      {"What",
       {"recipe", "model", "mixer", "model_options", "from", "data", "holdout", "epochs",
        "max_steps", "batch", "lr", "seed", "precision", "device", "threads"}},
      {"Optimisation",
       {"accumulate", "recompute", "lr_reference_batch", "min_lr", "warmup_lr", "warmup_epochs",
        "warmup_steps", "schedule", "schedule_lag", "weight_decay", "decay_all", "beta1", "beta2",
        "eps", "clip", "ema_decay", "evaluate_ema"}},
      {"Records",
       {"evaluate_every", "evaluate_every_steps", "checkpoint_every", "checkpoint_every_steps",
        "keep_last", "log_every", "bound_every_steps"}},
      {"Guards", {"outlier_z", "outlier_limit", "rollbacks", "rollback_lr", "data_timeout"}},
      {"Image models", {"image_size", "drop_path"}},
      {"Image data",
       {"data_format", "data_seed", "data_side", "train_size", "test_size", "workers",
        "max_unreadable", "eval_batch", "resize", "crop_ratio", "interpolation"}},
      {"Image augmentation",
       {"crop", "crop_pad", "crop_min_scale", "fast_decode", "flip", "randaugment",
        "randaugment_magnitude", "randaugment_noise", "color_jitter", "erase", "mixup", "cutmix",
        "mix_probability", "mix_switch", "label_smoothing", "repeats"}},
      {"Sequence models", {"mlp_hidden", "pool", "length_groups"}},
      {"Sequence data",
       {"max_length", "min_tokens", "max_tokens", "max_depth", "max_arguments", "side",
        "contour_length"}},
      {"Language models",
       {"block", "depth", "heads", "dim", "dropout", "layer_scale", "positions", "conv", "decay",
        "means", "gate", "scale_pi", "bias_positions", "window", "hybrid_every", "hybrid_mixer"}},
      {"Recall",
       {"task", "lengths", "pairs", "vocab", "power", "random_filler", "distractors", "questions",
        "haystack", "gap", "eval_samples"}},
      {"Text",
       {"tokenizer", "eval_batches", "sample_every_steps", "sample_prompt", "sample_tokens",
        "sample_temperature"}},
  };
  return kHeadings;
}

constexpr char kOther[] = "Other settings";

std::string heading_of(const std::string& key) {
  for (const Heading& heading : headings()) {
    if (std::find(heading.keys.begin(), heading.keys.end(), key) != heading.keys.end())
      return heading.title;
  }
  return kOther;
}

std::string flag_name(const std::string& key) {
  std::string name = "--" + key;
  std::replace(name.begin() + 2, name.end(), '_', '-');
  return name;
}

// A setting as all kinds that have it see it; the chosen kind judges the value more narrowly.
struct SharedField {
  FieldInfo info;
  std::vector<std::string> kinds;
  std::vector<std::pair<std::string, std::string>> usual;  // recipe, its value; where not empty
};

void join_in(SharedField& shared, const RunKind& kind, const FieldInfo& field) {
  if (shared.info.help != field.help) shared.info.help += "; " + kind.noun + "s: " + field.help;
  shared.info.low = std::min(shared.info.low, field.low);
  shared.info.high = std::max(shared.info.high, field.high);
  for (const std::string& choice : field.choices) {
    auto& choices = shared.info.choices;
    if (std::find(choices.begin(), choices.end(), choice) == choices.end())
      choices.push_back(choice);
  }
}

void add_usual(SharedField& shared, const RunKind& kind) {
  const auto value = kind.usual.find(shared.info.key);
  if (value == kind.usual.end()) return;
  const std::string text = value->is_string() ? value->get<std::string>() : json_text(*value);
  if (!text.empty() && text != "{}") shared.usual.emplace_back(kind.recipes.front(), text);
}

std::vector<SharedField> shared_fields() {
  std::vector<SharedField> all;
  for (const RunKind& kind : run_kinds()) {
    for (const FieldInfo& field : kind.fields) {
      auto found = std::find_if(all.begin(), all.end(),
                                [&](const SharedField& s) { return s.info.key == field.key; });
      if (found == all.end()) {
        found = all.insert(all.end(), {field, {}, {}});
      } else {
        join_in(*found, kind, field);
      }
      found->kinds.push_back(kind.noun + "s");
      add_usual(*found, kind);
    }
  }
  return all;
}

// Says whose setting it is where the heading does not.
std::string help_of(const SharedField& shared) {
  const std::string heading = heading_of(shared.info.key);
  const bool general = heading == "What" || heading == "Optimisation" || heading == "Records";
  const bool all = shared.kinds.size() == run_kinds().size();
  return shared.info.help + (general && !all ? " (" + join(shared.kinds, ", ") + ")" : "");
}

// "64", or "small 64, char 12" where recipes differ.
std::string show_usual(const SharedField& shared) {
  if (shared.usual.empty()) return "";
  const bool same = std::all_of(shared.usual.begin(), shared.usual.end(), [&](const auto& u) {
    return u.second == shared.usual.front().second;
  });
  if (same) return shared.usual.front().second;
  std::vector<std::string> parts;
  for (const auto& [recipe, value] : shared.usual) {
    parts.push_back(recipe == value ? value : recipe + " " + value);
  }
  return join(parts, ", ");
}

void add_field(CLI::App& command, const SharedField& shared, json& values) {
  const FieldInfo& field = shared.info;
  const std::string flag = flag_name(field.key);
  CLI::Option* option = nullptr;
  if (field.type == FieldType::kBool) {
    option = command.add_flag_function(
        flag + ",!--no-" + flag.substr(2),
        [&values, key = field.key](int64_t on) { values[key] = on > 0; }, help_of(shared));
  } else {
    // Long lists of names are for `tost info --models`.
    const bool listed = !field.choices.empty() && field.choices.size() <= 8;
    option = command.add_option_function<std::string>(
        flag,
        [&values, field](const std::string& text) {
          values[field.key] = value_from_text(field, text);
        },
        help_of(shared) + (listed ? " (" + join(field.choices, ", ") + ")" : ""));
    const std::string usual = show_usual(shared);
    if (!usual.empty()) option->default_str(usual);
  }
  option->group(heading_of(field.key))->take_last();
}

}  // namespace

void add_train_fields(CLI::App& command, json& values) {
  const std::vector<SharedField> fields = shared_fields();
  // In the order of the headings, so that --help shows them so.
  for (const Heading& heading : headings()) {
    for (const std::string& key : heading.keys) {
      for (const SharedField& field : fields) {
        if (field.info.key == key) add_field(command, field, values);
      }
    }
  }
  for (const SharedField& field : fields) {
    if (heading_of(field.info.key) == kOther) add_field(command, field, values);
  }
}

}  // namespace tost
