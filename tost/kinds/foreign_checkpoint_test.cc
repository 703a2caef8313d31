#include <gtest/gtest.h>

#include "tests/testing/errors.h"
#include "tests/testing/temp_dir.h"
#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/io/torch_test_util.h"
#include "tost/kinds/language/file.h"
#include "tost/kinds/vision/model_file.h"
#include "tost/nn/state_dict.h"
#include "tost/ops/safetensors.h"
#include "tost/store/foreign_source.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using testing::data_error_of;
using testing::dict;
using testing::integer;
using testing::str;

// Tensors as a pickled dict over two storages: "0" of float32, "1" of int64.
class Pickled {
 public:
  std::string tensor(const torch::Tensor& value) {
    const bool longs = value.scalar_type() == torch::kInt64;
    const torch::Tensor plain = value.contiguous();
    std::string& data = longs ? longs_ : floats_;
    const int64_t offset = int64_t(data.size()) / plain.element_size();
    data.append(static_cast<const char*>(plain.const_data_ptr()), plain.nbytes());
    return longs ? view("1", "LongStorage", offset, plain)
                 : view("0", "FloatStorage", offset, plain);
  }
  std::string state(const StateDict& tensors, const std::string& prefix = "") {
    std::vector<std::string> parts;
    for (const auto& [name, value] : tensors) {
      parts.push_back(str(prefix + name));
      parts.push_back(tensor(value));
    }
    return dict(parts);
  }
  // The file whose object is `object`, made with tensor() and state().
  std::string file(std::string object) const {
    fill_in(object, kFloats, int64_t(floats_.size()) / 4);
    fill_in(object, kLongs, int64_t(longs_.size()) / 8);
    auto items = testing::torch_items(object, floats_);
    items.push_back({"m/data/1", longs_});
    return testing::make_zip(items).bytes;
  }

 private:
  // Stand for the sizes of the storages, which are known at the end.
  static constexpr int64_t kFloats = 0x71717171, kLongs = 0x72727272;

  static std::string view(const char* key, const char* type, int64_t offset,
                          const torch::Tensor& value) {
    return testing::tensor(testing::storage(key, type[0] == 'L' ? kLongs : kFloats, type), offset,
                           testing::integers(value.sizes().vec()),
                           testing::integers(value.strides().vec()));
  }
  static void fill_in(std::string& object, int64_t mark, int64_t size) {
    const std::string from = integer(mark), to = integer(size);
    for (size_t at = object.find(from); at != object.npos; at = object.find(from, at + 1)) {
      object.replace(at, from.size(), to);
    }
  }

  std::string floats_, longs_;
};

class OfficialFile : public ::testing::Test {
 protected:
  OfficialFile() {
    torch::manual_seed(7);
    language = make_language_model(language_config);
    vision = make_image_classifier(vision_config);
    vision->eval();
  }

  fs::path write(const std::string& bytes, const std::string& name = "ckpt.pt") const {
    write_file_atomic(dir.path() / name, bytes);
    return dir.path() / name;
  }
  // {"model": state, `more`}
  fs::path write_model(const StateDict& state, const std::vector<std::string>& more = {},
                       const std::string& prefix = "") const {
    Pickled pickled;
    std::vector<std::string> parts{str("model"), pickled.state(state, prefix)};
    parts.insert(parts.end(), more.begin(), more.end());
    return write(pickled.file(dict(parts)));
  }
  static std::vector<std::string> heads(const char* group = "model_args") {
    return {str(group), dict({str("n_head"), integer(2)})};
  }
  static std::vector<std::string> args(const std::string& model, int64_t side = 32) {
    return {str("args"), dict({str("model"), str(model), str("input_size"), integer(side)})};
  }
  static void expect_error(const std::string& found, const std::vector<std::string>& parts) {
    for (const std::string& part : parts) {
      EXPECT_NE(found.find(part), found.npos) << "'" << part << "' is not in: " << found;
    }
  }
  std::string language_error(const fs::path& file, Weights weights = Weights::kRaw) const {
    return data_error_of([&] { load_language_file(file, weights); });
  }
  std::string vision_error(const fs::path& file) const {
    return data_error_of([&] { load_model_file(file); });
  }

  testing::TempDir dir;
  const torch::NoGradGuard no_grad;
  const torch::Tensor ids = torch::arange(6).view({1, 6});
  const LanguageConfig language_config = [] {
    LanguageConfig c;
    c.vocab = 11;
    c.block = c.dim = 8;
    c.depth = c.heads = 2;
    c.mixer = "softmax";
    return c;
  }();
  std::shared_ptr<LanguageModel> language;
  VisionConfig vision_config{.mixer = "softmax",
                             .image_size = 32,
                             .patch = 8,
                             .dim = 16,
                             .depth = 1,
                             .heads = 4,
                             .classes = 3,
                             .class_blocks = 1};
  std::shared_ptr<ImageClassifier> vision;
};

TEST_F(OfficialFile, PrefixesOfNamesAreTakenOff) {
  language->eval();
  const torch::Tensor wanted = language->forward(ids);
  for (const char* prefix :
       {"", "module.", "_orig_mod.", "_orig_mod.module.", "module._orig_mod."}) {
    const auto loaded = load_language_file(write_model(state_dict(*language), heads(), prefix));
    EXPECT_TRUE(torch::equal(loaded.model->forward(ids), wanted)) << prefix;
  }
  StateDict twice = state_dict(*language);
  twice["module.transformer.ln_f.weight"] = torch::zeros({8});
  expect_error(language_error(write_model(twice, heads())),
               {"ckpt.pt", "'transformer.ln_f.weight' twice"});
}

TEST_F(OfficialFile, ADictOfTensorsIsAModelToo) {
  Pickled pickled;
  const fs::path file = write(pickled.file(pickled.state(state_dict(*vision))), "w.bin");
  EXPECT_EQ(model_kind(file), "vision");
  expect_error(vision_error(file), {"w.bin", "attention heads", "args.model is missing"});
  expect_error(data_error_of([&] { load_model_file(file, Weights::kEma); }),
               {"w.bin", "averaged weights", "'model_ema'"});
}

TEST_F(OfficialFile, HeadsOfASoftmaxMixerComeFromTheArguments) {
  const StateDict state = state_dict(*language);
  expect_error(language_error(write_model(state)), {"ckpt.pt", "attention heads", "n_head"});
  EXPECT_EQ(load_language_file(write_model(state, heads())).info.config.heads, 2);
  EXPECT_EQ(load_language_file(write_model(state, heads("config"))).info.config.heads, 2);

  const StateDict pictures = state_dict(*vision);
  expect_error(vision_error(write_model(pictures, args("my_vit"))),
               {"'my_vit'", "not a model known"});
  expect_error(vision_error(write_model(pictures, args("tost_cab_tiny_12_p16"))),
               {"mixer softmax", "whose mixer is tssa"});
  const LoadedModel loaded = load_model_file(write_model(pictures, args("vit_cab_tiny_12_p8")));
  EXPECT_EQ(loaded.info.config, vision_config);
  const torch::Tensor images = torch::randn({2, 3, 32, 32});
  EXPECT_TRUE(torch::equal(loaded.model->forward(images), vision->forward(images)));
}

TEST_F(OfficialFile, TheInputSideIsThatOfTheArguments) {
  const StateDict state = state_dict(*vision);
  const auto side = [&](int64_t value) { return write_model(state, args("vit_nano_p4", value)); };
  EXPECT_EQ(load_model_file(side(48)).info.preprocess.size, 48);
  expect_error(vision_error(side(50)), {"ckpt.pt", "50", "divisible"});
  expect_error(vision_error(side(-1)), {"ckpt.pt", "args.input_size"});
}

TEST_F(OfficialFile, WithoutAveragedWeightsTheRawOnesAreOffered) {
  auto more = heads();
  more.insert(more.end(), {str("model_ema"), "N"});  // None
  const fs::path file = write_model(state_dict(*language), more);
  EXPECT_EQ(language_error(file), "");
  const std::string error = language_error(file, Weights::kEma);
  expect_error(error, {"ckpt.pt", "no 'model_ema' in it but 'model', 'model_args'", "raw weights"});
  EXPECT_EQ(data_error_of([&] { model_kind(file, Weights::kEma); }), error);
}

TEST_F(OfficialFile, AMissingModelIsNamedWithWhatIsThere) {
  const fs::path file = write(testing::torch_zip(dict({str("epoch"), integer(3)})));
  expect_error(data_error_of([&] { model_kind(file); }), {"ckpt.pt", "no 'model'", "'epoch'"});
  const fs::path other = write_model({{"layer.weight", torch::ones({2})}});
  expect_error(language_error(other), {"ckpt.pt", "no model known", "'layer.weight'"});
}

TEST_F(OfficialFile, AWrongTensorIsNamed) {
  StateDict state = state_dict(*language);
  state["transformer.h.1.ln_2.weight"] = torch::ones({5});
  expect_error(language_error(write_model(state, heads())),
               {"ckpt.pt", "'transformer.h.1.ln_2.weight'", "[5]", "[8]"});
  state.erase("transformer.h.1.ln_2.weight");
  expect_error(language_error(write_model(state, heads())),
               {"ckpt.pt", "lacks 'transformer.h.1.ln_2.weight'"});
  state = state_dict(*language);
  state["transformer.wte.weight"] = torch::ones({11});
  expect_error(language_error(write_model(state, heads())), {"'transformer.wte.weight'"});
}

TEST_F(OfficialFile, WeightsThatAreNotFiniteAreNamed) {
  StateDict weights = state_dict(*language);
  weights["transformer.ln_f.weight"] = torch::full({8}, NAN);
  expect_error(language_error(write_model(weights, heads())),
               {"ckpt.pt", "tensor 'transformer.ln_f.weight' that are not finite"});
  weights = state_dict(*vision);
  weights["head.bias"] = torch::full({3}, INFINITY);
  expect_error(vision_error(write_model(weights, args("vit_cab_tiny_12_p8"))),
               {"ckpt.pt", "tensor 'head.bias' that are not finite"});
}

TEST_F(OfficialFile, TheHeadMustBeTheTokenTable) {
  StateDict state = state_dict(*language);
  state["lm_head.weight"] = state.at("transformer.wte.weight");
  EXPECT_EQ(language_error(write_model(state, heads())), "");
  state["lm_head.weight"] = state.at("transformer.wte.weight") + 1;
  expect_error(language_error(write_model(state, heads())), {"ckpt.pt", "'lm_head.weight'"});
}

TEST_F(OfficialFile, ModelsOfNanoGptHaveLayerScaleOne) {
  StateDict state = state_dict(*language);
  for (const char* block : {"0", "1"}) {
    for (const char* gamma : {"gamma1", "gamma2"}) {
      const std::string name = cat("transformer.h.", block, ".", gamma);
      state.at(name).fill_(1);
      state.erase(name);
    }
    state[cat("transformer.h.", block, ".attn.bias")] = torch::ones({1, 1, 8, 8});
  }
  language->eval();
  const auto loaded = load_language_file(write_model(state, heads()));
  EXPECT_TRUE(torch::equal(loaded.model->forward(ids), language->forward(ids)));
}

TEST_F(OfficialFile, AModelOfAnotherKindIsRefused) {
  expect_error(vision_error(write_model(state_dict(*language), heads())),
               {"ckpt.pt", "holds a language model, not an image classifier"});
  expect_error(language_error(write_model(state_dict(*vision))),
               {"ckpt.pt", "holds a vision model, not a language model"});
}

TEST_F(OfficialFile, ATruncatedFileIsRefusedWhereverItIsCut) {
  const std::string bytes = read_file(write_model(state_dict(*language), heads()), 1 << 20);
  for (const size_t part : {0, 1, 3, 7, 9}) {
    const fs::path file = write(bytes.substr(0, bytes.size() * part / 10));
    expect_error(language_error(file), {"ckpt.pt"});
  }
}

TEST_F(OfficialFile, AShapeWithoutBytesIsRefused) {
  Pickled pickled;
  StateDict state = state_dict(*language);
  state.erase("transformer.wpe.weight");
  std::string tensors = pickled.state(state);
  tensors.pop_back();  // the opcode that ends the dict
  tensors += str("transformer.wpe.weight") +
             testing::tensor(testing::storage("0", 0x71717171), 0, testing::integers({1 << 20, 8}),
                             testing::integers({0, 1})) +
             "u";
  const fs::path file = write(pickled.file(dict({str("model"), tensors})));
  expect_error(language_error(file), {"ckpt.pt", "'transformer.wpe.weight'", "8388608"});
}

TEST_F(OfficialFile, WeightsWithoutDescriptionInSafetensors) {
  const VisionConfig tssa{.image_size = 32,
                          .patch = 8,
                          .dim = 16,
                          .depth = 1,
                          .heads = 4,
                          .classes = 3,
                          .class_blocks = 1};
  const auto source = make_image_classifier(tssa);
  source->eval();
  const fs::path file = dir.path() / "w.safetensors";
  save_safetensors(file, state_dict(*source));
  EXPECT_TRUE(is_foreign_checkpoint(file));
  EXPECT_EQ(model_kind(file), "vision");
  const LoadedModel bare = load_model_file(file);
  EXPECT_EQ(bare.info.config.image_size, 224);
  EXPECT_EQ(bare.info.classes, (std::vector<std::string>{"0", "1", "2"}));
  const torch::Tensor images = torch::randn({1, 3, 32, 32});
  EXPECT_TRUE(torch::equal(bare.model->forward(images), source->forward(images)));
  expect_error(data_error_of([&] { load_model_file(file, Weights::kEma); }),
               {"w.safetensors", "raw"});

  const auto config = [&](const std::string& text) {
    write_file_atomic(dir.path() / "config.json", text);
  };
  config(R"({"architecture": "tost_x", "label_names": ["a", "b", "c"], "pretrained_cfg":
            {"input_size": [3, 32, 32], "mean": [0, 0, 0], "std": [1, 1, 1], "crop_pct": 0.9,
             "interpolation": "bilinear"}})");
  const ModelInfo described = load_model_file(file).info;
  EXPECT_EQ(described.config.image_size, 32);
  EXPECT_EQ(described.preprocess.crop_ratio, 0.9);
  EXPECT_EQ(described.preprocess.interpolation, "bilinear");
  EXPECT_EQ(described.classes.back(), "c");
  for (const char* bad : {"[]", "{", R"({"n_head": "two"})", R"({"n_head": 1e300})",
                          R"({"n_head": 12.5})", R"({"n_head": -1})", R"({"label_names": ["a"]})",
                          R"({"pretrained_cfg": {"input_size": [3]}})"}) {
    config(bad);
    expect_error(vision_error(file), {"w.safetensors"});
  }
}

TEST_F(OfficialFile, Gpt2OfHuggingFaceIsTurnedRound) {
  LanguageConfig config = language_config;
  config.bias = true;
  config.activation = "gelu-tanh";  // where config.json names none
  const auto source = make_language_model(config);
  source->eval();
  StateDict state;
  for (const auto& [name, tensor] : state_dict(*source)) {
    if (name.find("gamma") != name.npos) {
      tensor.fill_(1);
      continue;
    }
    const bool linear = tensor.dim() == 2 && name.find("transformer.h.") == 0;
    state[name.substr(std::string("transformer.").size())] =
        linear ? tensor.t().contiguous() : tensor;
  }
  state["h.0.attn.bias"] = torch::ones({1, 1, 8, 8});
  state["h.0.attn.masked_bias"] = torch::tensor(-1e4);
  const fs::path file = dir.path() / "g.safetensors";
  save_safetensors(file, state);
  expect_error(language_error(file), {"g.safetensors", "attention heads", "n_head"});
  write_file_atomic(dir.path() / "config.json", R"({"model_type": "gpt2", "n_head": 2})");
  const auto loaded = load_language_file(file);
  EXPECT_TRUE(torch::equal(loaded.model->forward(ids), source->forward(ids)));
}

TEST_F(OfficialFile, IsKnownByNameOrContent) {
  const fs::path file = write_model(state_dict(*language), heads());
  EXPECT_TRUE(is_torch_checkpoint(file));
  EXPECT_TRUE(is_torch_checkpoint("missing.PTH"));
  EXPECT_TRUE(is_torch_checkpoint("pytorch_model.bin"));
  fs::copy_file(file, dir.path() / "model");
  EXPECT_TRUE(is_torch_checkpoint(dir.path() / "model"));
  EXPECT_EQ(model_kind(dir.path() / "model"), "language");
  EXPECT_FALSE(is_torch_checkpoint("model.safetensors"));
  EXPECT_FALSE(is_torch_checkpoint(dir.path()));
  expect_error(language_error(write("no checkpoint", "x.pth")), {"x.pth", "zip"});
}

}  // namespace
}  // namespace tost
