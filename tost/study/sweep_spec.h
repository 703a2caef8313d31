// What a sweep file asks for: variants of a training run, each with several seeds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tost {

struct SweepVariant {
  std::string name;
  nlohmann::json settings = nlohmann::json::object();  // over those of the sweep
  bool pretrained = true;  // false: without the first stage that the sweep may have
};

// One axis of a product; "model_options.heads" is a field of the object model_options.
struct GridAxis {
  std::string key;
  std::vector<nlohmann::json> values;
};

struct SweepCorruptions {
  std::vector<std::string> kinds;
  std::vector<int64_t> strengths;
  std::string split = "test";
};

enum class SweepPlot {
  kDots,   // the score of every variant, mean and spread
  kCurve,  // the score of the evaluations during training
  kLines,  // the score over the strength of each corruption
};

struct SweepSpec {
  std::string title, note;
  nlohmann::json settings = nlohmann::json::object();  // as in a run's config.json
  std::vector<SweepVariant> variants;
  std::vector<GridAxis> grid;
  std::vector<int64_t> seeds;
  std::optional<nlohmann::json> pretrain;  // a first stage's settings, over all others
  std::optional<SweepCorruptions> corruptions;
  std::string split;  // scored after training; "": test for pictures and sequences
  SweepPlot plot = SweepPlot::kDots;
};

// Keys: title, note, settings, variants [{name, settings, pretrain: false}], grid {key: [values]},
// seeds, pretrain, corruptions {kinds, strengths, split}, score {split}, plot dots|curve|lines.
// seeds and one of variants and grid are needed. Strict: usage Errors naming `where` for unknown
// keys (nearest offered), wrong types, names that cannot be folders, and what is given twice. The
// settings themselves are checked by make_plan().
SweepSpec sweep_spec_from_json(const nlohmann::ordered_json& json, const std::string& where);

// Throws also a data Error for a file that cannot be read, a usage Error for one that is not JSON
// object, above 1 MiB or nested deeper than 16 levels.
SweepSpec read_sweep_file(const std::filesystem::path& path);

// Letters, digits and . _ - +, at most 80, beginning with a letter or digit: a folder's name on
// every system.
bool is_variant_name(const std::string& name);

}  // namespace tost
