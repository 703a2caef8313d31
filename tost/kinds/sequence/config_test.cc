#include "tost/kinds/sequence/config.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <map>
#include <string>

#include "tost/base/error.h"
#include "tost/kinds/sequence/classifier.h"
#include "tost/nn/state_dict.h"

namespace tost {
namespace sequence_config_test {

using nlohmann::json;

void expect_error(ErrorKind kind, const std::string& part, const std::function<void()>& action) {
  try {
    action();
    FAIL() << "no error; expected one with '" << part << "'";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(SequenceConfigJson, EveryPresetComesBackEqual) {
  for (const auto& name : sequence_preset_names()) {
    const auto config = sequence_preset(name);
    EXPECT_EQ(sequence_config_from_json(json::parse(to_json(config).dump())), config) << name;
  }
}

TEST(SequenceConfigJson, SizesAreRequiredUnlessThereIsABase) {
  const auto whole = to_json(sequence_preset("tost_seq_tiny"));
  for (const auto& item : whole.items()) {
    auto partial = whole;
    partial.erase(item.key());
    const std::string key = item.key();
    const bool required = key == "mixer" || key == "vocab" || key == "max_length" || key == "dim" ||
                          key == "depth" || key == "heads" || key == "classes";
    if (required) {
      expect_error(ErrorKind::kData, "'" + key + "'", [&] { sequence_config_from_json(partial); });
    } else {
      EXPECT_NO_THROW(sequence_config_from_json(partial)) << key;
    }
  }
  SequenceConfig base = sequence_preset("tost_lra_text");
  base.dim = 64;
  EXPECT_EQ(sequence_config_from_json(json{{"dim", 64}}, sequence_preset("tost_lra_text")), base);
}

TEST(SequenceConfigJson, WrongTypesAndKeysAreNamed) {
  const auto with = [](const std::string& key, const json& value) {
    auto config = to_json(sequence_preset("tost_seq_tiny"));
    config[key] = value;
    return [config] { sequence_config_from_json(config); };
  };
  expect_error(ErrorKind::kData, "'positions'", with("position", "none"));
  expect_error(ErrorKind::kData, "'pairs' must be true or false", with("pairs", 1));
  expect_error(ErrorKind::kData, "'dim' must be an integer", with("dim", 64.5));
  expect_error(ErrorKind::kData, "'vocab'", with("vocab", uint64_t{1} << 63));
  expect_error(ErrorKind::kData, "object", [] { sequence_config_from_json(json::array({1, 2})); });
}

TEST(SequenceConfig, ImpossibleSettingsAreUsageErrors) {
  const auto with = [](const std::function<void(SequenceConfig&)>& change) {
    return [change] {
      auto config = sequence_preset("tost_seq_tiny");
      change(config);
      validate(config);
    };
  };
  const auto usage = [&](const std::string& part, const std::function<void(SequenceConfig&)>& f) {
    expect_error(ErrorKind::kUsage, part, with(f));
  };
  usage("'tssa'", [](auto& c) { c.mixer = "tsa"; });
  usage("'softmax'", [](auto& c) { c.hybrid_mixer = "sofmax"; });
  usage("heads", [](auto& c) { c.heads = 3; });
  usage("'vocab'", [](auto& c) { c.vocab = 1; });
  usage("'classes'", [](auto& c) { c.classes = 0; });
  usage("'max_length'", [](auto& c) { c.max_length = 0; });
  usage("'depth'", [](auto& c) { c.depth = -1; });
  usage("'mlp_hidden'", [](auto& c) { c.mlp_hidden = -5; });
  usage("'hybrid_every'", [](auto& c) { c.hybrid_every = -1; });
  usage("'dropout'", [](auto& c) { c.dropout = 1; });
  usage("'layer_scale'", [](auto& c) { c.layer_scale = std::numeric_limits<double>::quiet_NaN(); });
  usage("'mean'", [](auto& c) { c.pool = "men"; });
  usage("'sinusoidal'", [](auto& c) { c.positions = "sinusoid"; });
  usage("parameters", [](auto& c) { c.dim = c.heads = 16384, c.depth = 1024; });
}

// Counted by hand from the sizes: the benchmark's models are small.
TEST(SequencePresets, HaveTheSizesOfTheBenchmark) {
  const std::map<std::string, int64_t> wanted{{"tost_lra_listops", 15'783'482},
                                              {"tost_lra_text", 2'701'842},
                                              {"tost_lra_retrieval", 958'994},
                                              {"tost_lra_image", 232'594},
                                              {"tost_lra_pathfinder", 100'230},
                                              {"tost_lra_pathx", 537'060},
                                              {"tost_lra", 695'442},
                                              {"tost_s4_listops", 801'322},
                                              {"tost_s4_image", 9'608'810},
                                              {"tost_seq_tiny", 67'274}};
  for (const auto& name : sequence_preset_names()) {
    const auto model = make_sequence_classifier(sequence_preset(name), WeightInit::kNone);
    EXPECT_EQ(model->config().name, name);
    if (wanted.contains(name)) {
      EXPECT_EQ(parameter_count(*model), wanted.at(name)) << name;
    }
  }
  for (const auto& item : wanted) EXPECT_NO_THROW(sequence_preset(item.first));
  expect_error(ErrorKind::kUsage, "'tost_lra_text'", [] { sequence_preset("tost_lra_texts"); });
}

}  // namespace sequence_config_test
}  // namespace tost
