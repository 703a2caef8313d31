// tost export: a model as a file that other runtimes read.
#include <iostream>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/cli/commands.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"
#include "tost/kinds/kinds.h"

namespace tost {
namespace {

struct ExportCommand {
  std::string in, onnx;
  bool ema = false, memberships = false, json = false;
};

void run_export(const ExportCommand& c) {
  const std::filesystem::path out = c.onnx;
  if (to_lower(out.extension().string()) != ".onnx") {
    fail_usage("'", c.onnx, "' does not end in .onnx, as ONNX files do.");
  }
  if (is_taken(out)) fail_usage("'", c.onnx, "' exists; name a file that does not.");
  const Weights weights = c.ema ? Weights::kEma : Weights::kRaw;
  const Kind& kind = kind_named(model_kind(c.in, weights));
  if (!kind.onnx) {
    fail_usage("'", c.in, "' holds ", with_article(kind.label + " model"),
               "; image and language models have an ONNX form.");
  }
  const OpenedModel opened = kind.open(c.in, weights);
  const OnnxGraph graph = kind.onnx(*opened.model, c.memberships);
  graph.save(out, TOST_VERSION, opened.metadata);
  const int64_t bytes = file_bytes(out);
  if (c.json) {
    return print_json({{"kind", kind.name},
                       {"file", c.onnx},
                       {"format", "onnx"},
                       {"opset", 17},
                       {"nodes", graph.node_count()},
                       {"bytes", bytes}});
  }
  std::cout << "wrote " << c.onnx << " (" << kind.name << " model, ONNX opset 17, "
            << graph.node_count() << " nodes, " << human_bytes(bytes) << ")\n";
}

}  // namespace

void add_export_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("export", "Write a model for other runtimes");
  auto options = std::make_shared<ExportCommand>();
  add_model_argument(*command, "in", options->in);
  command->add_option("--onnx", options->onnx, "ONNX file to write; must not exist")->required();
  command->add_flag("--memberships", options->memberships,
                    "Of image models: also the memberships of every layer");
  command->add_flag("--ema", options->ema, "The averaged weights");
  command->add_flag("--json", options->json, "One JSON object on stdout instead of text");
  add_example(*command,
              "  tost export run --onnx model.onnx --memberships\n"
              "  tost export lm --onnx lm.onnx");
  command->callback([options] { run_export(*options); });
}

}  // namespace tost
