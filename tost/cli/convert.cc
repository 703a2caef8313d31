// tost convert: a checkpoint into another layout.
#include "tost/kinds/convert.h"

#include <iostream>
#include <nlohmann/json.hpp>

#include "tost/base/text.h"
#include "tost/cli/commands.h"
#include "tost/cli/flag_values.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"
#include "tost/io/parse_json.h"

namespace tost {
namespace {

struct ConvertCommand {
  std::string in, out;
  bool ema = false, json = false;
  ConvertOptions convert;
};

void run_convert(ConvertCommand& options) {
  if (options.ema) options.convert.weights = Weights::kEma;
  const ConvertResult result = convert_model(options.in, options.out, options.convert);
  if (options.json) {
    nlohmann::json files = nlohmann::json::array();
    for (const auto& file : result.files) files.push_back(file.string());
    auto report = TOST_MEMBERS(result, kind, layout, tensors, bytes, notes);
    report.update({{"dtype", options.convert.dtype}, {"files", files}});
    return print_json(report);
  }
  std::cout << "wrote " << options.out << " (" << result.kind << " model, layout " << result.layout
            << ", " << result.tensors << " tensors, " << human_bytes(result.bytes) << ")\n";
  for (const std::string& note : result.notes) std::cout << "note: " << note << "\n";
}

}  // namespace

void add_convert_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("convert", "Write a model in another checkpoint layout");
  auto options = std::make_shared<ConvertCommand>();
  ConvertOptions& convert = options->convert;
  add_model_argument(*command, "in", options->in);
  command->add_option("out", options->out, "File or folder to write; must not exist")->required();
  add_value(*command, "--to", convert.layout,
            "Layout: " + join(model_layout_names(), ", ") +
                " (auto: tost for .safetensors, official for .pth, .pt and .bin, else hub)");
  command->add_flag("--ema", options->ema, "The averaged weights");
  add_value(*command, "--dtype", convert.dtype, "Weights as float32, bfloat16 or float16");
  command->add_option("--image-size", convert.image_size, "Side of the pictures from now on")
      ->check(at_least_one);
  command
      ->add_option("--block", convert.block,
                   "Context of a language model: cut, or positions interpolated")
      ->check(at_least_one);
  command
      ->add_option("--shard-bytes", convert.shard_bytes,
                   "Folders: larger weights in several files of at most so many bytes each")
      ->check(at_least_one);
  command->add_option("--prefix", convert.prefix,
                      "Before every name of a torch file, such as _orig_mod.");
  command->add_flag("--json", options->json, "One JSON object on stdout instead of text");
  add_example(*command,
              "  tost convert checkpoint.pth model.safetensors --ema\n"
              "  tost convert run folder --to hub --dtype bfloat16\n"
              "  tost convert run ckpt.pt --to nanogpt");
  command->callback([options] { run_convert(*options); });
}

}  // namespace tost
