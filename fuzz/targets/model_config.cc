// The architecture of weights from elsewhere: the config.json next to them, the arguments in a
// torch file, and the names and shapes of the tensors.
#include <sstream>

#include "fuzz/memory_file.h"
#include "fuzz/targets.h"
#include "tost/engine/foreign_model.h"
#include "tost/engine/metadata.h"
#include "tost/io/torch_test_util.h"
#include "tost/kinds/vision/config.h"

namespace tost::fuzz {
namespace {

ModelFacts config_facts(std::string_view input) {
  const ModelFacts facts = config_file_facts(MemoryFile(input).path());
  require(facts.image_size.value_or(0) >= 0 && facts.heads.value_or(0) >= 0, "sizes are sizes");
  return facts;
}

// `input` is the pickle of an archive.
ModelFacts pickled_facts(std::string_view input) {
  const std::string archive =
      testing::make_zip({{"m/data.pkl", std::string(input)}, {"m/version", "3"}}).bytes;
  return read_from("fuzz", [&] { return torch_facts(*TorchFile::parse(archive, "fuzz")); });
}

// A line a tensor: its name and sides.
NamedShapes shapes_of(const std::string& text) {
  NamedShapes shapes;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    auto& shape = shapes[plain_name(name)];
    for (int64_t side = 0; shape.size() < 8 && words >> side;) shape.push_back(side & INT64_MAX);
  }
  return shapes;
}

// The lines up to a NUL byte, a config.json after it.
void try_weights(std::string_view input) {
  const size_t cut = std::min(input.find('\0'), input.size());
  ForeignModel weights;
  weights.shapes = shapes_of(std::string(input.substr(0, cut)));
  const auto models = recognise_models(weights.shapes);
  require(models.size() <= 16, "few models");
  ModelFacts facts;
  if (cut < input.size()) facts = config_facts(input.substr(cut + 1));
  for (const auto& model : models) {
    weights.model = model;
    if (!model.contains("class_depth")) continue;
    or_refuse([&] {
      const VisionConfig config = foreign_vision_config(weights, facts);
      require(config.depth <= int64_t(weights.shapes.size()), "a tensor in every block");
      require(config.dim > 0 && config.heads > 0, "a width and heads");
    });
  }
}

}  // namespace

void try_model_config(std::string_view input) {
  const unsigned choice = take_choice(input);
  or_refuse([&] {
    switch (choice % 3) {
      case 0:
        config_facts(input);
        return;
      case 1:
        pickled_facts(input);
        return;
      default:
        return try_weights(input);
    }
  });
}

}  // namespace tost::fuzz
