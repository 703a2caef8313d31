// tost quantize: writes a model with its weights in fewer bits, and measures what that costs.
#include <algorithm>
#include <iomanip>
#include <iostream>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/cli/commands.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"
#include "tost/cli/terminal.h"
#include "tost/engine/packed_linear.h"
#include "tost/kinds/kinds.h"
#include "tost/store/weights_file.h"

namespace tost {
namespace {

using nlohmann::json;

struct QuantizeCommand {
  RunOptions run;
  std::string in, out, precision = "int8";
  DataSpec data;
  std::string split;
  bool ema = false, quiet = false;
};

json score(const QuantizeCommand& c, const Kind& kind, const json& data, const std::string& file,
           Weights weights) {
  ProgressLine line(c.quiet || c.run.json);
  ScoreRequest request;
  request.file = file;
  request.weights = weights;
  request.data = data;
  request.split = c.split;
  request.progress = [&](int64_t done, int64_t total, const char* what) {
    line.update(done, total, what);
  };
  request.stop = stop_flag();
  const json scores = kind.score(request);
  line.finish();
  if (scores.is_null()) return scores;
  json shown;
  for (const char* key : {"precision", "top1", "loss", "bits_per_byte"}) {
    if (scores.contains(key)) shown[key] = scores[key];
  }
  for (const char* items : {"images", "sequences", "tokens"}) {
    if (!scores.contains(items)) continue;
    shown[items] = scores[items];
    shown["per_second"] =
        scores[items].get<double>() / std::max(scores["seconds"].get<double>(), 1e-9);
  }
  return shown;
}

void print_row(const char* name, const json& before, const json& after, const char* key, int digits,
               double scale = 1) {
  if (!before.contains(key) || !before[key].is_number() || !after[key].is_number()) return;
  std::cout << std::left << std::setw(18) << name << std::right << std::fixed
            << std::setprecision(digits) << std::setw(12)
            << plain_nan(scale * before[key].get<double>()) << std::setw(12)
            << plain_nan(scale * after[key].get<double>()) << "\n";
}

void print_quantize(const QuantizeCommand& c, Precision precision, const json& report) {
  const auto before = report["bytes_before"].get<int64_t>();
  const auto after = report["bytes_after"].get<int64_t>();
  std::cout << "wrote " << c.out << " (" << report["kind"].get<std::string>() << " model, "
            << report["rounded_tensors"] << " of " << report["tensors"] << " tensors in "
            << c.precision << ")\n"
            << "bytes             " << human_bytes(before) << " in float32, now "
            << human_bytes(after) << "\n"
            << std::setprecision(3) << "largest error     "
            << 100 * report["largest_weight_error"].get<double>()
            << " % of the largest weight of its tensor\n"
            << "mean error        " << 100 * report["mean_weight_error"].get<double>()
            << " % of the mean weight\n";
  if (report.contains("products")) {
    std::cout << "products here     " << report["products"].get<std::string>()
              << (multiplies_as_packed(packing_of(precision)) ? "\n"
                                                              : ": smaller files, not faster\n");
  }
  if (!report.contains("after")) return;
  const json &b = report["before"], &a = report["after"];
  std::cout << std::left << std::setw(18) << "" << std::right << std::setw(12)
            << b["precision"].get<std::string>() << std::setw(12)
            << a["precision"].get<std::string>() << "\n";
  print_row("top1 %", b, a, "top1", 2, 100);
  print_row("loss", b, a, "loss", 4);
  print_row("bits per byte", b, a, "bits_per_byte", 4);
  print_row("a second", b, a, "per_second", 0);
}

void run_quantize(const QuantizeCommand& c) {
  set_threads(c.run.threads);
  const Weights weights = c.ema ? Weights::kEma : Weights::kRaw;
  const Precision precision = storable_precision(c.precision);
  check_quantize_output(c.out, precision);
  // Refuses an unsuitable precision or data set before anything is written.
  const Kind& kind = kind_named(model_kind(c.in, weights));
  json before, products, data{{"data", c.data.path}};
  // Omits the method for decoding, which gains from fewer bits with every method.
  if (!kind.decodes) products = product_method(packing_of(precision));
  if (!c.data.path.empty()) {
    if (c.data.format != "auto") data["data_format"] = c.data.format;
    data = scored_data(data, find_model_file(c.in, weights), kind.data_keys);
    before = score(c, kind, data, c.in, weights);
    if (before.is_null()) return say_interrupted();
  }
  const QuantizeResult result = quantize_model(c.in, c.out, precision, weights);
  json report = to_json(result);
  if (!products.is_null()) report["products"] = products;
  if (!c.data.path.empty()) {
    report["data"] = c.data.path;
    report["before"] = before;
    report["after"] = score(c, kind, data, c.out, Weights::kRaw);
    if (report["after"].is_null()) return say_interrupted();
  }
  c.run.json ? print_json(report) : print_quantize(c, precision, report);
}

}  // namespace

void add_quantize_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("quantize", "Write a model with its weights in fewer bits");
  auto options = std::make_shared<QuantizeCommand>();
  options->data.path.clear();  // none: not scored
  add_model_argument(*command, "in", options->in);
  command->add_option("out", options->out, ".safetensors file to write; must not exist")
      ->required();
  add_value(*command, "--precision", options->precision,
            list_of(integer_precisions()) + " or bf16");
  add_data_options(*command, options->data, false);
  command->get_option("--data")->description(
      "Data to score the model on, before and after (default: none)");
  command->add_option("--split", options->split, "Of the data (default: as tost eval)");
  command->add_flag("--ema", options->ema, "The averaged weights");
  command->add_flag("--quiet", options->quiet, "No progress");
  add_run_options(*command, options->run);
  add_example(*command,
              "  tost quantize run small.safetensors --precision int8 --data fashion-mnist\n"
              "  tost quantize run small.safetensors --precision int4 --data tinyshakespeare");
  command->callback([options] { run_quantize(*options); });
}

}  // namespace tost
