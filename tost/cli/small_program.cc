// The program without torch: what the engine can run starts at once. Everything else is left to the
// full program.
#include <algorithm>

#include "tost/cli/generate.h"
#include "tost/cli/predict.h"
#include "tost/cli/program.h"
#include "tost/engine/model_files.h"
#include "tost/engine/threads.h"
#include "tost/engine/vision_file.h"
#include "tost/io/safetensors_index.h"

namespace tost {
namespace {

OpenedText open_with_engine(const TextChoice& o) {
  if (o.device != "cpu" || !o.tokenizer.empty()) throw NeedsFullProgram();
  const auto file = find_intact_model_file(o.checkpoint, o.ema ? Weights::kEma : Weights::kRaw);
  if (!runs_in_engine(file)) throw NeedsFullProgram();
  auto opened = open_engine_language(file, o.precision);
  needed_tokenizer(opened.info, "it cannot write text");
  return {std::move(opened.model), std::move(opened.info), file.string(), nullptr};
}

PredictReport predict_with_engine(const PredictRequest& request, const KindFlags& flags) {
  const auto& of_texts = flags.at("sequence");
  const bool pictures = std::all_of(of_texts.begin(), of_texts.end(),
                                    [](const CLI::Option* flag) { return flag->count() == 0; });
  if (request.device != "cpu" || !request.engine || !pictures) throw NeedsFullProgram();
  const auto file = find_intact_model_file(request.file, request.weights);
  if (!pictures_run_in_engine(file)) throw NeedsFullProgram();
  const auto [engine, info] = open_engine_vision(file, request.precision);
  const int64_t side = info.preprocess.size;
  return {file, predict_pictures(info, request.pictures, request.batch, request.top,
                                 [&](const float* images, int64_t count, float* logits) {
                                   engine->forward(images, count, side, side, logits);
                                 })};
}

void add_commands(CLI::App& app) {
  add_generate_command(app, open_with_engine);
  add_predict_command(app, predict_with_engine);
}

}  // namespace
}  // namespace tost

// Returns the exit code, or -1 if the full program must run instead.
extern "C" int tost_run_small_program(int argc, char** argv) {
  using namespace tost;
  const auto explain = [](const std::exception&) { return std::string(); };
  try {
    return run_program(argc, argv, {add_commands, set_engine_threads, explain});
  } catch (const NeedsFullProgram&) {
    return -1;
  }
}
