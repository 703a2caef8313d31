// Commands that the full and the small program have, which open models in different ways.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "tost/cli/options.h"
#include "tost/engine/language_file.h"
#include "tost/engine/predict.h"
#include "tost/serve/app.h"

namespace tost {

struct BenchBackend;

// The model of a command, and how it is to run.
struct ModelChoice {
  std::string path;
  std::string precision;  // empty: the file's
  std::string tokenizer;  // empty: the model's
  std::string data;       // that it is scored on; a tokenizer may be made from their text
  double holdout = 0.1;   // of that text
  std::string device = "cpu";
  bool ema = false;
  bool windows = false;  // reads many tokens at a time, rather than one
  bool explain = true;   // by /v1/explain, where the program can

  Weights weights() const { return ema ? Weights::kEma : Weights::kRaw; }
};

struct OpenedText {
  std::shared_ptr<TextModel> model;
  LanguageInfo info;
  std::string file;
  Precision precision = Precision::kFp32;
  std::shared_ptr<void> scope;  // of the calls; may be null
};
using OpenText = OpenedText (*)(const ModelChoice& choice);

void add_generate_command(CLI::App& app, OpenText open);

using Predict = PredictReport (*)(const PredictRequest& request, const KindFlags& flags);

void add_predict_command(CLI::App& app, Predict predict);

// Opens the model into its place among those served.
using OpenServed = std::function<void(ServedModel&, const ServiceLimits&, Metrics&)>;
// Finds out whether this program serves the model, and how. Starts nothing, so that the small
// program may still leave all to the full one.
using FindServed = OpenServed (*)(const ModelChoice& choice);

void add_serve_command(CLI::App& app, FindServed find);

struct InfoCommand {
  RunOptions run;
  bool models = false;
};
// Adds what only torch knows to a description of the program; prints the presets.
using AskTorch = void (*)(const InfoCommand& command, nlohmann::json& info);

void add_info_command(CLI::App& app, AskTorch ask);

void add_bench_model_command(CLI::App& bench, const BenchBackend& backend);

}  // namespace tost
