// The program without torch: what the engine can run starts at once. Everything else is left to the
// full program.
#include <algorithm>
#include <string_view>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/base/posix.h"
#include "tost/base/text.h"
#include "tost/bench/engine_bench.h"
#include "tost/bench/model_bench.h"
#include "tost/cli/commands.h"
#include "tost/cli/eval_command.h"
#include "tost/cli/model_commands.h"
#include "tost/cli/program.h"
#include "tost/engine/language_text.h"
#include "tost/engine/model_files.h"
#include "tost/engine/run_layout.h"
#include "tost/engine/threads.h"
#include "tost/engine/vision_file.h"
#include "tost/io/text_layout.h"

namespace tost {
namespace {

// Whether the full program is installed next to this one, and its torch is there.
bool has_full_program() {
  Dl_info own;
  static const char here = 0;
  if (dladdr(&here, &own) == 0) return false;
  const auto folder = std::filesystem::path(own.dli_fname).parent_path();
  return dlopen((folder / "libtost_program.so").c_str(), RTLD_NOW) != nullptr;
}

// The full program, where it is installed, knows more of what is wrong with a file.
std::filesystem::path intact_file(const std::string& path, Weights weights) {
  try {
    const auto file = find_intact_model_file(path, weights);
    const std::string ending = file.extension().string() + ".";
    constexpr std::string_view kEndings = ".safetensors.pth.pt.bin.ckpt.";
    if (kEndings.find(ending) != kEndings.npos || has_full_program()) return file;
    fail_data("'", file.string(),
              "' does not end as models do, in .safetensors, .pth, .pt, .bin or .ckpt.");
  } catch (const Error&) {
    if (has_full_program()) throw NeedsFullProgram();
    throw;
  }
}

// The file of a model of this kind that the engine runs.
std::filesystem::path engine_file(const std::string& path, Weights weights, bool pictures) {
  const auto file = intact_file(path, weights);
  if (pictures ? pictures_run_in_engine(file) : runs_in_engine(file)) return file;
  const bool other = pictures ? runs_in_engine(file) : pictures_run_in_engine(file);
  if (!other || has_full_program()) throw NeedsFullProgram();
  fail_usage("'", file.string(), "' holds ",
             pictures ? "a language model; tost generate continues texts."
                      : "an image model; tost predict names what pictures show.");
}

OpenedText open_with_engine(const ModelChoice& o) {
  if (o.device != "cpu") throw NeedsFullProgram();
  const auto file = engine_file(o.path, o.weights(), /*pictures=*/false);
  auto opened =
      open_engine_language(file, o.precision, o.windows ? Layout::kStored : Layout::kPassing);
  choose_tokenizer({o.tokenizer, o.data, o.holdout}, opened.info, file.string());
  const Precision precision = opened.model->precision();
  return {std::move(opened.model), std::move(opened.info), file.string(), precision, nullptr};
}

PredictReport predict_with_engine(const PredictRequest& request, const KindFlags& flags) {
  const bool of_texts = std::ranges::any_of(
      flags.at("sequence"), [](const CLI::Option* flag) { return flag->count() > 0; });
  if (request.device != "cpu" || !request.engine || of_texts) throw NeedsFullProgram();
  const auto file = engine_file(request.file, request.weights, /*pictures=*/true);
  const OpenedVision opened = open_engine_vision(file, request.precision);
  return {file, predict_pictures(opened.info, request.pictures, request.batch, request.top,
                                 [&](const float* images, int64_t count, float* logits) {
                                   opened.logits(images, count, logits);
                                 })};
}

OpenServed find_for_engine(const ModelChoice& o) {
  if (!o.tokenizer.empty()) throw NeedsFullProgram();
  const auto found = intact_file(o.path, Weights::kRaw);
  if (pictures_run_in_engine(found)) {
    return [o, found](ServedModel& to, const ServiceLimits& limits, Metrics&) {
      const auto opened = std::make_shared<OpenedVision>(open_engine_vision(found, o.precision));
      PictureModel pictures{opened->info, opened->precision,
                            [opened](const float* images, int64_t count, float* logits) {
                              opened->logits(images, count, logits);
                            }};
      if (o.explain) {
        pictures.explain = [opened](PictureInput input) {
          return picture_maps(*opened->engine, opened->info, std::move(input));
        };
      }
      to.pictures = std::make_unique<PictureService>(std::move(pictures), limits.queue);
    };
  }
  if (!runs_in_engine(found)) throw NeedsFullProgram();
  return [o, found](ServedModel& to, const ServiceLimits& limits, Metrics& metrics) {
    auto opened = open_engine_language(found, o.precision, Layout::kStored);
    to.language = std::make_unique<LanguageService>(
        ServedText{std::move(opened.model), std::move(opened.info), o.explain}, limits, metrics);
  };
}

// The full program, where it is installed, knows which kinds of model a flag goes with.
void refuse_flags(const std::vector<CLI::Option*>& flags, const char* kind) {
  for (const CLI::Option* flag : flags) {
    if (flag->count() == 0) continue;
    if (has_full_program()) throw NeedsFullProgram();
    fail_usage(flag->get_name(), " goes with ", kind, " models alone.");
  }
}

void eval_pictures_with_engine(const CLI::App& app, EvalCommand& command,
                               const std::filesystem::path& file) {
  run_class_eval(app, command, [&](const ScoreOptions& options) {
    const OpenedVision opened = open_engine_vision(file, command.model.precision);
    nlohmann::json report =
        score_pictures(opened.info, {.path = command.model.data, .format = command.data_format},
                       options, [&](const float* images, int64_t count, float* logits) {
                         opened.logits(images, count, logits);
                       });
    if (report.is_null()) return report;
    report.update({{"checkpoint", file.string()}, {"precision", opened.precision}});
    return report;
  });
}

// Leaves flags of other kinds of model, tasks of tokens and runs of image models, whose settings
// training knows, to the full program.
void eval_with_engine(const CLI::App& app, EvalCommand& command, const KindFlags& flags) {
  const ModelChoice& o = command.model;
  const bool others = !app.remaining().empty();
  if (others && !has_full_program()) throw CLI::ExtrasError(app.get_name(), app.remaining());
  if (others || is_token_task(o.data)) throw NeedsFullProgram();
  const auto file = intact_file(o.path, o.weights());
  if (runs_in_engine(file)) {
    refuse_flags(flags.at("vision"), "image");
    return run_language_eval(app, command, open_with_engine, nullptr);
  }
  const bool stored = command.run.device == "cpu" && !run_config_file(file);
  if (!stored || !pictures_run_in_engine(file)) throw NeedsFullProgram();
  refuse_flags(flags.at("language"), "language");
  eval_pictures_with_engine(app, command, file);
}

// Leaves to the full program what only torch knows; the text of tost info says it for GPUs alone.
void describe_without_torch(const InfoCommand& command, nlohmann::json& info) {
  const bool more = command.run.json || info["build"]["cuda"].get<bool>();
  if (command.models || (more && has_full_program())) throw NeedsFullProgram();
}

// The number of parameters in a file, without statistics of batch norms and scales of integers.
int64_t parameters_in(const Arrays& arrays) {
  int64_t count = 0;
  for (const auto& [name, array] : arrays) {
    const bool other = name.find(".running_") != std::string::npos ||
                       ends_with(name, ".num_batches_tracked") || ends_with(name, ".weight.scale");
    const int64_t packed = array.dtype() == TorchDtype::kUInt8 ? 2 : 1;  // int4
    if (!other) count += array.numel() * packed;
  }
  return count;
}

std::unique_ptr<BenchModel> open_bench_engine(const BenchModelSource& source) {
  const bool path = source.name.find_first_of("./") != std::string::npos;
  if (!path && !path_exists(source.name)) throw NeedsFullProgram();  // a preset
  const auto file = intact_file(source.name, Weights::kRaw);
  const ArraysFile content = load_arrays(file);
  if (pictures_run_in_engine(file)) {
    return std::make_unique<BenchPictures>(
        model_info_of(content.metadata, file.string()).config, parameters_in(content.arrays),
        [file](Precision p) { return std::move(open_engine_vision(file, name_of(p)).engine); });
  }
  if (!runs_in_engine(file)) throw NeedsFullProgram();
  return std::make_unique<BenchTexts>(
      language_info_of(content.metadata, file.string()).config, [file](Precision p) {
        return std::move(open_engine_language(file, name_of(p), Layout::kStored).model);
      });
}

std::unique_ptr<BenchDevice> bench_cpu(const std::string& name) {
  if (name != "cpu") throw NeedsFullProgram();
  return std::make_unique<BenchDevice>();
}

void add_bench_command(CLI::App& app) {
  CLI::App* bench = app.add_subcommand("bench");
  add_bench_model_command(*bench, {open_bench_engine, bench_cpu, set_engine_threads});
  CLI::App* command = bench->get_subcommand("model");
  command->parse_complete_callback([command] {
    const auto given = [&](const char* flag) { return command->get_option(flag)->count() > 0; };
    const auto& engines = command->get_option("--engine")->results();
    if (given("--mixer") || given("--save-weights") || given("--save-logits") ||
        std::ranges::find(engines, "off") != engines.end() ||
        (engines.empty() && has_full_program())) {
      throw NeedsFullProgram();
    }
  });
}

void add_eval_command(CLI::App& app) {
  auto options = std::make_shared<EvalCommand>();
  CLI::App* command = add_eval_command(app, *options);
  const KindFlags flags{{"vision", add_picture_eval_options(*command, *options)},
                        {"language", add_language_eval_options(*command, *options)}};
  command->allow_extras();
  command->callback([command, options, flags] { eval_with_engine(*command, *options, flags); });
}

void add_small_commands(CLI::App& app) {
  add_eval_command(app);
  add_generate_command(app, open_with_engine);
  add_predict_command(app, predict_with_engine);
  add_serve_command(app, find_for_engine);
  add_models_command(app);
  add_info_command(app, describe_without_torch);
  add_bench_command(app);
  add_data_tokens_command(*app.add_subcommand("data"));
  add_inspect_command(app);
  CLI::App* inspect = app.get_subcommand("inspect");
  inspect->parse_complete_callback([inspect] {
    // Its sentence on a path that is not there names presets as well.
    if (!path_exists(inspect->get_option("file")->as<std::string>()) && has_full_program()) {
      throw NeedsFullProgram();
    }
  });
}

}  // namespace
}  // namespace tost

// Returns the exit code, or -1 if the full program must run instead.
extern "C" int tost_run_small_program(int argc, char** argv) {
  using namespace tost;
  // The help of `tost eval` lists the flags of all kinds of model.
  const bool help = std::any_of(
      argv, argv + argc, [](std::string_view word) { return word == "--help" || word == "-h"; });
  const std::string_view command = argc > 1 ? argv[1] : "", part = argc > 2 ? argv[2] : "";
  if (help && command == "eval" && has_full_program()) return -1;
  if (command == "data" && part != "tokens") return -1;
  if (command == "bench" && part != "model") return -1;
  const auto explain = [](const std::exception&) { return std::string(); };
  try {
    return run_program(argc, argv, {add_small_commands, set_engine_threads, explain});
  } catch (const NeedsFullProgram&) {
    return -1;
  }
}
