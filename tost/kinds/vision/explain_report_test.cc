// Reports of tiny models: what is in them, what is left out, and that nothing breaks them.
#include "tost/kinds/vision/explain_report.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <numeric>

#include "tests/testing/errors.h"
#include "tests/testing/shared.h"
#include "tests/testing/temp_dir.h"
#include "tost/base/error.h"
#include "tost/engine/vision_engine.h"
#include "tost/explain/report.h"
#include "tost/io/shapes.h"
#include "tost/nn/state_dict.h"
#include "tost/ops/arrays.h"
#include "tost/ops/safetensors.h"

namespace tost {
namespace {

using nlohmann::json;

LoadedModel tiny_model(VisionConfig config) {
  torch::manual_seed(5);
  config.dim = 16;
  config.depth = 2;
  config.heads = 2;
  LoadedModel loaded;
  const ShapesDataset data(0, "train", 16, 4);
  config.classes = int64_t(data.classes().size());
  loaded.info = {config, data.classes(), {}};
  loaded.info.preprocess.size = config.image_size;
  loaded.model = make_image_classifier(config);
  loaded.model->eval();
  loaded.file = "model.safetensors";
  return loaded;
}

LoadedModel tiny_model(const std::string& mixer = "tssa") {
  VisionConfig config;
  config.mixer = mixer;
  config.patch = 4;
  config.image_size = 16;
  return tiny_model(config);
}

VisionExplainOptions with_data(int64_t samples = 6) {
  VisionExplainOptions options;
  options.samples = samples;
  options.train = std::make_shared<ShapesDataset>(0, "train", 16, 8);
  options.held = std::make_shared<ShapesDataset>(0, "validation", 16, 8);
  options.held_split = "validation";
  options.data = "shapes";
  return options;
}

TEST(VisionReport, HoldsEveryPanelAndNumber) {
  VisionExplainOptions options = with_data();
  options.bound = true;
  const auto report = explain_vision(tiny_model(), options);
  ASSERT_TRUE(report.has_value());
  const json numbers = to_json(*report);
  ASSERT_EQ(numbers["pictures"].size(), 4u);
  const json& layer = numbers["pictures"][0]["layers"][1];
  ASSERT_EQ(layer["memberships"].size(), 2u);
  ASSERT_EQ(layer["memberships"][0].size(), 4u);
  EXPECT_NEAR(
      layer["memberships"][0][3][2].get<double>() + layer["memberships"][1][3][2].get<double>(), 1,
      2e-5);
  const json& split = numbers["splits"][1];
  EXPECT_EQ(split["split"], "validation");
  EXPECT_EQ(split["pictures"], 6);
  EXPECT_EQ(split["layers"][0]["correlation"]["matrices"][1]["absolute"].size(), 8u);
  EXPECT_LE(split["layers"][0]["compression"]["after_residual"]["mean"].get<double>(),
            numbers["compression_ceiling"].get<double>() + 1e-9);
  for (const json& gap : split["layers"][1]["bound"]) {
    EXPECT_GE(gap["gap"]["mean"].get<double>(), 0);
  }
  EXPECT_EQ(split["segmentation"]["layers"].size(), 2u);
  EXPECT_EQ(numbers["spectra"].size(), 2u);
  EXPECT_TRUE(numbers["pictures"][0]["image"].get<std::string>().starts_with(
      "data:image/png;base64,iVBOR"));
}

TEST(VisionReport, IsDeterministic) {
  const LoadedModel loaded = tiny_model();
  const auto first = explain_vision(loaded, with_data());
  const auto second = explain_vision(loaded, with_data());
  EXPECT_EQ(to_json(*first), to_json(*second));
}

TEST(VisionReport, ClassAttentionSumsToOne) {
  const LoadedModel loaded = tiny_model();
  const auto maps = picture_maps(*loaded.model, loaded.info,
                                 dataset_picture(*with_data().held, 0, loaded.info.preprocess));
  ASSERT_EQ(maps.class_attention.size(), 2u);
  for (const auto& head : maps.class_attention[1]) {
    EXPECT_NEAR(std::accumulate(head.begin(), head.end(), 0.0), 1, 1e-6);
  }
}

TEST(VisionReport, CompressionIsThatOfTheLayersTokens) {
  const LoadedModel loaded = tiny_model();
  const auto input = dataset_picture(*with_data().held, 0, loaded.info.preprocess);
  VisionTrace trace;
  loaded.model->forward_traced(tensor_of(input.values), trace);
  const auto maps = picture_maps(*loaded.model, loaded.info, input);
  for (size_t i = 0; i < maps.layers.size(); ++i) {
    EXPECT_DOUBLE_EQ(
        maps.layers[i].compression_before,
        layer_compression(trace.blocks[i].mixer.w, trace.blocks[i].mixer.pi).item<double>());
    EXPECT_GT(maps.layers[i].compression_after, 0);
  }
  const LoadedModel softmax = tiny_model("softmax");
  const auto others = picture_maps(*softmax.model, softmax.info, input);
  EXPECT_TRUE(std::isnan(others.layers[0].compression_before));
}

// Compares all numbers within 1e-5, relative beyond 1.
void expect_near(const json& found, const json& wanted, const std::string& where) {
  if (wanted.is_number()) {
    const double value = wanted.get<double>();
    const double step = where.find("norms") == std::string::npos ? 0 : 1.01e-4;  // of rounding
    EXPECT_NEAR(found.get<double>(), value, step + 1e-5 * std::max(1.0, std::abs(value))) << where;
  } else if (!wanted.is_structured()) {
    EXPECT_EQ(found, wanted) << where;
  } else {
    ASSERT_EQ(found.size(), wanted.size()) << where;
    auto other = found.begin();
    for (auto item = wanted.begin(); item != wanted.end(); ++item, ++other) {
      const std::string key = wanted.is_object() ? item.key() : "";
      if (wanted.is_object()) {
        ASSERT_EQ(other.key(), key);
      }
      expect_near(*other, *item, where + "/" + key);
    }
  }
}

TEST(PictureMaps, OfTheEngineAreThoseOfTheModules) {
  for (const char* mixer : {"tssa", "means", "softmax", "none"}) {
    for (const int64_t stem : {0, 1, 2}) {
      VisionConfig config;
      config.mixer = mixer;
      config.patch = 4;
      config.image_size = 24;
      config.stem_depth = stem;
      config.registers = 2 * stem;
      config.tokens_norm = stem != 1;
      config.qkv_bias = stem != 2;
      const LoadedModel loaded = tiny_model(config);
      const torch::NoGradGuard no_grad;
      for (auto& each : loaded.model->parameters()) each.add_(torch::randn_like(each) * 0.2);
      WeightSource source(arrays_of(state_dict(*loaded.model)), "The model");
      PictureEngine engine(loaded.info.config, source, Precision::kFp32);
      const auto picture = dataset_picture(*with_data().held, 1, loaded.info.preprocess);
      const json found = to_json(picture_maps(engine, loaded.info, picture));
      const json wanted = to_json(picture_maps(*loaded.model, loaded.info, picture));
      EXPECT_EQ(found["layers"][1]["memberships"].is_null(), mixer[0] == 's' || mixer[0] == 'n');
      expect_near(found, wanted, cat(mixer, stem));
    }
  }
}

TEST(VisionReport, OtherMixersSayWhatIsLeft) {
  for (const char* mixer : {"softmax", "xca", "linear", "none"}) {
    const auto report = explain_vision(tiny_model(mixer), with_data());
    ASSERT_EQ(report->left_out.size(), 1u);
    const json numbers = to_json(*report);
    EXPECT_TRUE(numbers["spectra"].empty());
    EXPECT_FALSE(numbers["splits"][1]["layers"][0]["has_memberships"]);
    EXPECT_TRUE(numbers["pictures"][0]["layers"][0]["memberships"].is_null());
    EXPECT_NE(report->left_out[0].reason.find("class attention and token norms"),
              std::string::npos);
  }
  const auto uniform = explain_vision(tiny_model("uniform"), with_data());
  EXPECT_DOUBLE_EQ(to_json(*uniform)["pictures"][0]["layers"][0]["memberships"][0][0][0], 0.5);
  EXPECT_NE(uniform->left_out[0].reason.find("1/2"), std::string::npos);
  VisionConfig linear;
  linear.architecture = "linear";
  linear.image_size = 16;
  const auto plain = explain_vision(tiny_model(linear), with_data());
  EXPECT_TRUE(to_json(*plain)["pictures"][0]["layers"].empty());
  EXPECT_TRUE(to_json(*plain)["splits"][1]["layers"].empty());
}

TEST(VisionReport, RegistersAreTokensNextToThePatches) {
  VisionConfig config;
  config.patch = 4;
  config.image_size = 16;
  config.registers = 3;
  const auto report = explain_vision(tiny_model(config), with_data());
  const json layer = to_json(*report)["pictures"][0]["layers"][0];
  EXPECT_EQ(layer["register_norms"].size(), 3u);
  EXPECT_EQ(layer["memberships"][0].size(), 4u);
  EXPECT_TRUE(to_json(*report)["splits"][1]["layers"][0]["norms"]["register_mean"].is_number());
}

TEST(VisionReport, OneTokenAndAConstantPicture) {
  testing::TempDir dir;
  write_png((dir.path() / "flat.png").string(), Image(7, 5, 3));
  VisionConfig config;
  config.patch = 4;
  config.image_size = 4;
  VisionExplainOptions options = with_data();
  options.images = {(dir.path() / "flat.png").string()};
  options.bound = true;
  const auto report = explain_vision(tiny_model(config), options);
  const json picture = to_json(*report)["pictures"][0];
  EXPECT_TRUE(picture["resized"]);
  EXPECT_EQ(picture["rows"], 1);
}

TEST(VisionReport, WeightsThatAreNotFinite) {
  const LoadedModel loaded = tiny_model();
  const torch::NoGradGuard no_grad;
  for (auto& parameter : loaded.model->parameters()) parameter.fill_(NAN);
  VisionExplainOptions options = with_data();
  options.bound = true;
  const auto report = explain_vision(loaded, options);
  EXPECT_NE(to_json(*report).dump().find("null"), std::string::npos);
}

TEST(VisionReport, HostileNamesAreEscaped) {
  testing::TempDir dir;
  const std::string file = (dir.path() / "<img src=x onerror=alert(1)>.png").string();
  write_png(file, Image(16, 16, 3));
  LoadedModel loaded = tiny_model();
  for (std::string& name : loaded.info.classes) name = "<script>alert(2)</script>";
  loaded.info.config.name = "\"><b>";
  VisionExplainOptions options;
  options.images = {file};
  const std::string page = report_page(to_json(explain_vision(loaded, options).value()));
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_EQ(page.find("<img src=x"), std::string::npos);
  EXPECT_EQ(page.find("\"><b>"), std::string::npos);
  EXPECT_NE(page.find("\\u003cscript>alert(2)\\u003c/script>"), std::string::npos);
}

TEST(VisionReport, WithoutDataStatisticsAreLeftOut) {
  testing::TempDir dir;
  const std::string file = (dir.path() / "a.png").string();
  write_png(file, Image(16, 16, 3));
  VisionExplainOptions options;
  options.images = {file};
  options.no_data = "There is no data; give --data.";
  const auto report = explain_vision(tiny_model(), options);
  const json numbers = to_json(*report);
  EXPECT_TRUE(numbers["splits"].empty());
  EXPECT_EQ(numbers["left_out"][0]["reason"], "There is no data; give --data.");
}

TEST(VisionReport, ClassesOfOtherNamesAreReported) {
  LoadedModel loaded = tiny_model();
  EXPECT_EQ(explain_vision(loaded, with_data())->class_warning, "");
  loaded.info.classes[0] = "zebra";
  const auto report = explain_vision(loaded, with_data());
  EXPECT_NE(report->class_warning.find("against zebra, ...); they are matched by number"),
            std::string::npos);
  EXPECT_TRUE(to_json(*report)["class_names_differ"].is_string());
}

TEST(VisionReport, MembershipsKeepTheirOrderInJson) {
  const auto report = explain_vision(tiny_model(), with_data());
  const json numbers = to_json(*report);
  for (size_t i = 0; i < 2; ++i) {
    const json& layer = numbers["pictures"][0]["layers"][i];
    const auto& pi = report->pictures[0].layers[i].memberships;
    for (int64_t token = 0; token < 16; ++token) {
      for (int64_t head = 0; head < 2; ++head) {
        EXPECT_EQ(float(layer["memberships"][size_t(head)][size_t(token / 4)][size_t(token % 4)]),
                  float(pi[size_t(head)][size_t(token)]));
      }
    }
  }
}

TEST(VisionReport, CompressionIsComparedInTheSamePicture) {
  const auto report = explain_vision(tiny_model(), with_data());
  for (const LayerStatistics& layer : report->splits[1].layers) {
    EXPECT_NEAR(layer.rate_change.mean, layer.rate_after.mean - layer.rate_input.mean, 1e-9);
    EXPECT_EQ(layer.rate_change.count, 6);
    EXPECT_LT(layer.rate_change.deviation,
              layer.rate_after.deviation + layer.rate_input.deviation + 1e-9);
    EXPECT_NEAR(6 * layer.rate_lowered, std::round(6 * layer.rate_lowered), 1e-9);
  }
}

// The codes written out from each layer's input and the dictionary's weights.
TEST(VisionReport, SparsityIsThatOfTheCodes) {
  EXPECT_FALSE(to_json(*explain_vision(tiny_model(), with_data()))
                   .at("splits")[0]["layers"][0]
                   .contains("sparsity"));
  for (const std::string mlp : {"tied", "ista"}) {
    VisionConfig config;
    config.mixer = "tssa-tied", config.patch = 4, config.image_size = 16;
    config.mlp = mlp;
    const LoadedModel loaded = tiny_model(config);
    const auto options = with_data(2);
    const auto report = explain_vision(loaded, options);
    const json layers = to_json(*report).at("splits")[1]["layers"];
    std::vector<double> nonzero(layers.size()), l1(layers.size());
    for (const int64_t index : spaced_indices(options.held->size(), 2)) {
      const torch::NoGradGuard no_grad;
      VisionTrace trace;
      const auto picture = dataset_picture(*options.held, index, loaded.info.preprocess);
      loaded.model->forward_traced(tensor_of(picture.values), trace);
      for (size_t i = 0; i < layers.size(); ++i) {
        const auto block = blocks_of(*loaded.model)[i];
        const torch::Tensor d = block->mlp->dictionary->weight, b = block->mlp->dictionary->bias;
        const torch::Tensor x = block->norm2->forward(trace.blocks[i].mixed)[0];
        const torch::Tensor a = torch::relu(
            mlp == "tied"
                ? torch::matmul(x, d.t()) + b
                : x + block->mlp->step * (torch::matmul(x - torch::matmul(x, d), d.t()) + b));
        nonzero[i] += 0.5 * (a > 0).to(torch::kDouble).mean().item<double>();
        l1[i] += 0.5 * a.sum(1).mean().item<double>();
      }
    }
    for (size_t i = 0; i < layers.size(); ++i) {
      const json& found = layers[i].at("sparsity");
      EXPECT_NEAR(found["nonzero"]["mean"].get<double>(), nonzero[i], 0.01) << mlp;
      EXPECT_NEAR(found["l1"]["mean"].get<double>(), l1[i], 1e-4 * (1 + l1[i])) << mlp;
    }
  }
}

TEST(VisionReport, RefusesWhatDoesNotExist) {
  const LoadedModel loaded = tiny_model();
  const auto refusal = [&](VisionExplainOptions options) -> std::string {
    return testing::error_of([&] { explain_vision(loaded, options); });
  };
  VisionExplainOptions options = with_data();
  options.layers = {1, 3};
  EXPECT_EQ(refusal(options), "There is no layer 3; the model has 2 layers, counted from 1.");
  options.layers = {};
  options.heads = {0};
  EXPECT_EQ(refusal(options), "There is no head 0; the model has 2 heads, counted from 1.");
  options.heads = {};
  options.samples = 0;
  EXPECT_NE(refusal(options).find("--samples is 0"), std::string::npos);
  EXPECT_NE(refusal({}).find("no picture to explain"), std::string::npos);
  options.samples = 1;
  options.images = {"nowhere.png"};
  EXPECT_NE(refusal(options).find("nowhere.png"), std::string::npos);
}

TEST(VisionReport, StopsOnRequest) {
  const std::atomic<bool> stop = true;
  VisionExplainOptions options = with_data();
  options.stop = &stop;
  EXPECT_FALSE(explain_vision(tiny_model(), options).has_value());
}

TEST(VisionReportSlow, HundredsOfPicturesStaySmall) {
  testing::TempDir dir;
  VisionExplainOptions options;
  const ShapesDataset data(0, "test", 64, 300);
  for (int64_t i = 0; i < 300; ++i) {
    options.images.push_back((dir.path() / cat(i, ".png")).string());
    write_png(options.images.back(), data.image(i));
  }
  VisionConfig config;
  config.patch = 4;
  config.image_size = 64;
  const auto report = explain_vision(tiny_model(config), options);
  EXPECT_EQ(report->pictures.size(), 8u);
  EXPECT_EQ(to_json(*report)["other_pictures"].size(), 292u);
  EXPECT_LT(report_page(to_json(*report)).size(), size_t{20} << 20);
}

TEST(VisionReport, MembershipsEqualTheOfficialCode) {
  TOST_SHARED_OR_SKIP(folder, "parity/vision_tssa_p16");
  const auto expected = load_safetensors(folder / "expected.safetensors").tensors;
  LoadedModel loaded;
  VisionConfig& config = loaded.info.config;
  config.patch = 16;
  config.image_size = 64;
  config.dim = 32;
  config.depth = 2;
  config.heads = 4;
  config.classes = 10;
  config.qkv_bias = false;
  loaded.info.classes.assign(10, "class");
  loaded.model = make_image_classifier(config, WeightInit::kNone);
  load_state_dict(*loaded.model, load_safetensors(folder / "state.safetensors").tensors);
  loaded.model->eval();
  const auto& input = expected.at("input");
  for (int64_t i = 0; i < input.size(0); ++i) {
    PictureInput picture;
    picture.values = arrays_of({{"", input[i].unsqueeze(0)}}).at("");
    const PictureMaps maps = picture_maps(*loaded.model, loaded.info, picture);
    for (size_t layer = 0; layer < 2; ++layer) {
      const auto wanted = expected.at(cat("block.", layer, ".membership"))[i].to(torch::kDouble);
      for (int64_t head = 0; head < 4; ++head) {
        const auto found =
            torch::tensor(maps.layers[layer].memberships[size_t(head)], torch::kDouble);
        EXPECT_LE((found - wanted[head]).abs().max().item<double>(), 1e-5) << i << " " << layer;
      }
    }
  }
}

}  // namespace
}  // namespace tost
