// There and back through every layout, and what is refused.
#include "tost/kinds/convert.h"

#include <gtest/gtest.h>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/io/safetensors.h"
#include "tost/io/safetensors_index.h"
#include "tost/io/tokenizers.h"
#include "tost/kinds/model_layouts.h"
#include "tost/nn/state_dict.h"
#include "tost/testing/errors.h"
#include "tost/testing/temp_dir.h"

namespace tost {
namespace {

using testing::usage_error_of;

namespace fs = std::filesystem;

bool same_bits(const torch::Tensor& a, const torch::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         std::memcmp(a.contiguous().data_ptr(), b.contiguous().data_ptr(), a.nbytes()) == 0;
}

void expect_same(const fs::path& a, const fs::path& b) {
  const PortableModel x = load_portable(a, Weights::kRaw), y = load_portable(b, Weights::kRaw);
  EXPECT_EQ(x.description(), y.description());
  ASSERT_EQ(x.state.size(), y.state.size());
  for (const auto& [name, tensor] : x.state) {
    ASSERT_EQ(y.state.count(name), 1u) << name;
    EXPECT_TRUE(same_bits(tensor, y.state.at(name))) << name;
  }
}

// All 256 bytes, and three joined from them.
std::shared_ptr<const Tokenizer> small_bpe() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (const char* word : {"th", "the", " the"}) tokens.emplace_back(word);
  return make_bpe_tokenizer(tokens, "a test");
}

class Convert : public ::testing::Test {
 protected:
  Convert() { torch::manual_seed(3); }

  fs::path path(const std::string& name) const { return dir.path() / name; }

  fs::path vision_file() const {
    ModelInfo info;
    info.config.mixer = "tssa";
    info.config.image_size = 32;
    info.config.patch = 4;
    info.config.stem_depth = 2;
    info.config.dim = 16;
    info.config.depth = 2;
    info.config.heads = 4;
    info.config.classes = 3;
    info.config.class_blocks = 1;
    info.config.registers = 2;
    info.classes = {"circle", "square", "a \"quoted\" name"};
    info.preprocess = {.size = 32, .crop_ratio = 0.875, .mean = {.1, .2, .3}, .std = {1, 2, 3}};
    const auto model = make_image_classifier(info.config);
    save_model_file(path("vision.safetensors"), *model, info);
    return path("vision.safetensors");
  }

  fs::path language_file(const std::string& mixer, bool bias = false, double scale = 0.5) const {
    LanguageInfo info;
    info.config.mixer = mixer;
    info.config.vocab = 260;
    info.config.block = 16;
    info.config.dim = 8;
    info.config.depth = info.config.heads = 2;
    info.config.bias = bias;
    info.config.layer_scale = scale;
    info.tokenizer = small_bpe();
    info.training = {{"recipe", "char"}};
    const auto model = make_language_model(info.config);
    const torch::NoGradGuard no_grad;
    for (auto& p : model->parameters()) p.add_(torch::randn_like(p), 0.1);
    save_language_file(path(mixer + ".safetensors"), *model, info);
    return path(mixer + ".safetensors");
  }

  ConvertResult convert(const fs::path& in, const std::string& out,
                        const std::string& layout = "auto") const {
    return convert_model(in, path(out), {.layout = layout});
  }

  torch::Tensor logits(const fs::path& file) const {
    const torch::NoGradGuard no_grad;
    return load_language_file(file).model->forward(torch::arange(4).view({1, 4}));
  }

  testing::TempDir dir;
};

TEST_F(Convert, PicturesComeBackBitForBit) {
  const fs::path in = vision_file();
  for (const auto& [out, layout] : std::vector<std::pair<std::string, std::string>>{
           {"a.safetensors", "tost"}, {"b.pth", "official"}, {"c", "hub"}, {"d", "timm"}}) {
    EXPECT_EQ(convert(in, out, layout).layout, layout);
    expect_same(in, path(out));
    EXPECT_FALSE(fs::exists(path(out + ".tmp")));
  }
  EXPECT_TRUE(fs::exists(path("c") / "preprocessor_config.json"));
  EXPECT_NE(read_file(path("d") / "config.json", 1 << 20).find("pretrained_cfg"),
            std::string::npos);
}

TEST_F(Convert, TextComesBackBitForBit) {
  const fs::path in = language_file("tssa");
  for (const auto& [out, layout] : std::vector<std::pair<std::string, std::string>>{
           {"a.safetensors", "tost"}, {"b.pt", "official"}, {"c", "hub"}}) {
    EXPECT_EQ(convert(in, out).layout, layout);
    expect_same(in, path(out));
  }
}

TEST_F(Convert, SequenceModelsComeBackToo) {
  SequenceInfo info;
  info.config = sequence_preset("tost_seq_tiny");
  info.config.dim = 8;
  info.config.heads = 2;
  info.config.mlp_hidden = 8;
  info.coding = {"bytes", 257, false};
  info.classes = {"neg", "pos"};
  const auto model = make_sequence_classifier(info.config);
  const fs::path in = path("s.safetensors");
  save_sequence_file(in, *model, info);
  EXPECT_EQ(convert(in, "s-hub").kind, "sequence");
  expect_same(in, path("s-hub"));
  EXPECT_NE(usage_error_of([&] { convert(in, "s.pth"); }).find("no official layout"),
            std::string::npos);
}

TEST_F(Convert, ChainsOfLayoutsEndWhereTheyBegan) {
  const fs::path in = vision_file();
  convert(in, "a.pth");
  convert(path("a.pth"), "b", "hub");
  convert(path("b"), "c", "timm");
  convert(path("c"), "d.safetensors");
  EXPECT_EQ(read_file(in, 1 << 30), read_file(path("d.safetensors"), 1 << 30));
}

TEST_F(Convert, PrefixesComeOffAgain) {
  const fs::path in = language_file("tssa");
  convert_model(in, path("a.pt"), {.prefix = "_orig_mod."});
  expect_same(in, path("a.pt"));
  EXPECT_NE(read_file(path("a.pt"), 1 << 30).find("_orig_mod.transformer.wte.weight"),
            std::string::npos);
  EXPECT_NE(
      usage_error_of([&] { convert_model(in, path("b"), {.prefix = "module."}); }).find("prefix"),
      std::string::npos);
}

TEST_F(Convert, FoldedModelsGiveTheSameLogits) {
  for (const bool bias : {false, true}) {
    const fs::path in = language_file("softmax", bias);
    const torch::Tensor wanted = logits(in);
    for (const char* layout : {"nanogpt", "gpt2"}) {
      const std::string out = cat(layout, bias, layout == std::string("nanogpt") ? ".pt" : "");
      EXPECT_EQ(convert(in, out, layout).notes.size(), 1u);
      EXPECT_LE((logits(path(out)) - wanted).abs().max().item<double>(),
                2e-6 * wanted.abs().max().item<double>());
    }
  }
}

TEST_F(Convert, FoldingScalesOfOneChangesNothing) {
  const fs::path in = language_file("softmax", true, 1);
  auto loaded = load_language_file(in);
  StateDict state = state_dict(*loaded.model);
  for (auto& [name, tensor] : state) {
    if (name.find("gamma") != name.npos) tensor.fill_(1);
  }
  save_language_file(in, *loaded.model, loaded.info);
  convert(in, "gpt2", "gpt2");
  const StateDict back = load_portable(path("gpt2"), Weights::kRaw).state;
  for (const auto& [name, tensor] : state) EXPECT_TRUE(same_bits(tensor, back.at(name))) << name;
}

TEST_F(Convert, Gpt2FoldersHaveWhatTransformersReads) {
  convert(language_file("softmax"), "g", "gpt2");
  const auto tensors = load_safetensors(path("g") / "model.safetensors").tensors;
  EXPECT_EQ(tensors.at("transformer.h.0.attn.c_attn.weight").sizes(),
            (std::vector<int64_t>{8, 24}));
  EXPECT_EQ(tensors.at("transformer.h.0.attn.c_attn.bias").sizes(), (std::vector<int64_t>{24}));
  EXPECT_EQ(tensors.at("transformer.ln_f.bias").sizes(), (std::vector<int64_t>{8}));
  EXPECT_EQ(tensors.count("transformer.h.0.gamma1"), 0u);
  const auto config = nlohmann::json::parse(read_file(path("g") / "config.json", 1 << 20));
  EXPECT_EQ(config.at("model_type"), "gpt2");
  EXPECT_EQ(config.at("activation_function"), "gelu");
  EXPECT_EQ(config.at("eos_token_id"), 259);
  EXPECT_EQ(read_file(path("g") / "merges.txt", 1 << 20),
            "#version: 0.2\nt h\nth e\n\xc4\xa0 the\n");
  const auto vocabulary = nlohmann::json::parse(read_file(path("g") / "vocab.json", 1 << 20));
  EXPECT_EQ(vocabulary.at("\xc4\xa0the"), 258);
  EXPECT_EQ(vocabulary.at("<|endoftext|>"), 259);
}

TEST_F(Convert, TheApproximateActivationOfGpt2IsKept) {
  convert(language_file("softmax"), "g", "gpt2");
  const fs::path config = path("g") / "config.json";
  std::string text = read_file(config, 1 << 20);
  text.replace(text.find("\"gelu\""), 6, "\"gelu_new\"");
  write_file_atomic(config, text);
  EXPECT_EQ(load_language_file(path("g")).info.config.activation, "gelu-tanh");
  text.replace(text.find("gelu_new"), 8, "swish_xx");
  write_file_atomic(config, text);
  EXPECT_THROW(load_language_file(path("g")), Error);
}

TEST_F(Convert, SmallerTypesRoundOnce) {
  const fs::path in = vision_file();
  convert_model(in, path("half.safetensors"), {.dtype = "bfloat16"});
  const auto halved = load_safetensors(path("half.safetensors")).tensors;
  const StateDict whole = load_portable(in, Weights::kRaw).state;
  EXPECT_EQ(halved.at("cls_token").scalar_type(), torch::kBFloat16);
  for (const auto& [name, tensor] : whole) {
    if (!tensor.is_floating_point()) continue;
    EXPECT_TRUE(same_bits(tensor.to(torch::kBFloat16), halved.at(name))) << name;
  }
  convert_model(path("half.safetensors"), path("again"), {.dtype = "bfloat16"});
  const auto again = load_safetensors(path("again") / "model.safetensors").tensors;
  for (const auto& [name, tensor] : halved) EXPECT_TRUE(same_bits(tensor, again.at(name))) << name;
  EXPECT_NE(usage_error_of([&] { convert_model(in, path("x"), {.dtype = "int8"}); }).find("int8"),
            std::string::npos);
}

TEST_F(Convert, SizesOfPicturesAndContexts) {
  convert_model(vision_file(), path("large.safetensors"), {.image_size = 48});
  const LoadedModel large = load_model_file(path("large.safetensors"));
  EXPECT_EQ(large.info.preprocess.size, 48);
  const torch::NoGradGuard no_grad;
  EXPECT_EQ(large.model->forward(torch::zeros({1, 3, 48, 48})).size(1), 3);

  const fs::path text = language_file("tssa");
  const StateDict before = load_portable(text, Weights::kRaw).state;
  const std::string table = "transformer.wpe.weight";
  convert_model(text, path("short.safetensors"), {.block = 8});
  const StateDict cut = load_portable(path("short.safetensors"), Weights::kRaw).state;
  EXPECT_TRUE(same_bits(cut.at(table), before.at(table).narrow(0, 0, 8)));
  const torch::Tensor ids = torch::arange(8).view({1, 8});
  EXPECT_TRUE(torch::equal(load_language_file(path("short.safetensors")).model->forward(ids),
                           load_language_file(text).model->forward(ids)));
  convert_model(text, path("long.safetensors"), {.block = 31});
  const StateDict stretched = load_portable(path("long.safetensors"), Weights::kRaw).state;
  const torch::Tensor rows = stretched.at(table);
  ASSERT_EQ(rows.size(0), 31);
  // Twice as dense: every second row is an old one.
  EXPECT_LE((rows.slice(0, 0, 31, 2) - before.at(table)).abs().max().item<double>(), 1e-6);
  EXPECT_NE(usage_error_of([&] { convert_model(text, path("x"), {.image_size = 8}); }), "");
  EXPECT_NE(usage_error_of([&] { convert_model(vision_file(), path("x"), {.image_size = 33}); }),
            "");
  EXPECT_FALSE(fs::exists(path("x")));
}

TEST_F(Convert, ALastSlashAndANeighbourDoNoHarm) {
  make_directories(path("m.tmp"));
  write_file_atomic(path("m.tmp") / "mine", "kept");
  const fs::path in = vision_file();
  convert(in, "m/");
  expect_same(in, path("m"));
  EXPECT_EQ(read_file(path("m.tmp") / "mine", 100), "kept");
}

TEST_F(Convert, WidthsThatNoRatioGivesExactlyArrive) {
  LanguageInfo info;
  info.config.mixer = "softmax";
  info.config.vocab = 11;
  info.config.block = 4;
  info.config.dim = 416;
  info.config.depth = 1;
  info.config.heads = 4;
  info.config.mlp_ratio = 960.0 / 416;
  const auto model = make_language_model(info.config);
  save_language_file(path("w.safetensors"), *model, info);
  EXPECT_EQ(state_dict(*model).at("transformer.h.0.mlp.c_fc.weight").size(0), 960);
  convert(path("w.safetensors"), "g", "gpt2");
  EXPECT_EQ(logits(path("g")).size(2), 11);
}

TEST_F(Convert, ShardsAreReadFromTheFolderAndTheIndex) {
  const fs::path pictures = vision_file(), text = language_file("softmax");
  const auto convert_sharded = [&](const fs::path& in, const std::string& out,
                                   const std::string& layout, int64_t bytes) {
    return convert_model(in, path(out), {.layout = layout, .shard_bytes = bytes});
  };
  for (const auto& [in, layout] : std::vector<std::pair<fs::path, std::string>>{
           {pictures, "hub"}, {pictures, "timm"}, {text, "hub"}}) {
    const std::string out = layout + in.stem().string();
    const ConvertResult result = convert_sharded(in, out, layout, 4096);
    EXPECT_FALSE(fs::exists(path(out) / "model.safetensors"));
    EXPECT_EQ(result.files.at(0), path(out) / "model.safetensors.index.json");
    EXPECT_GT(result.files.size(), 3u);
    for (const fs::path& file : result.files) EXPECT_TRUE(fs::exists(file)) << file;
    expect_same(in, path(out));
    expect_same(in, path(out) / "model.safetensors.index.json");
  }
  convert_sharded(text, "one", "hub", 1 << 30);
  EXPECT_TRUE(fs::exists(path("one") / "model.safetensors")) << "no shards where one file does";
  EXPECT_NE(usage_error_of([&] { convert_sharded(text, "x.pt", "official", 9); }).find("hub"),
            std::string::npos);
}

TEST_F(Convert, ShardsThatDoNotBelongTogetherAreRefused) {
  const fs::path text = language_file("softmax");
  convert_model(text, path("g"), {.layout = "gpt2", .shard_bytes = 4096});
  EXPECT_EQ(logits(path("g")).size(2), 260) << "a foreign model in shards";
  const fs::path index = path("g") / "model.safetensors.index.json";
  const fs::path shard = path("g") / read_safetensors_index(index).shards.begin()->first;
  const SafetensorsFile content = load_safetensors(shard);
  auto metadata = content.metadata;
  metadata["format"] = "tf";
  const auto refused = [&](const std::string& words) {
    try {
      load_portable(path("g"), Weights::kRaw);
      ADD_FAILURE() << words;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData);
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  save_safetensors(shard, content.tensors, metadata);
  refused("other metadata");
  auto more = content.tensors;
  more["another"] = torch::zeros({1});
  save_safetensors(shard, more, content.metadata);
  refused("'another'");
  fs::remove(shard);
  refused(shard.filename().string());
}

TEST_F(Convert, RefusesBeforeItWrites) {
  const fs::path text = language_file("tssa");
  EXPECT_NE(usage_error_of([&] { convert(text, "tssa.safetensors"); }).find("exists"),
            std::string::npos);
  EXPECT_NE(usage_error_of([&] { convert(text, "no/folder/x.pt"); }).find("does not exist"),
            std::string::npos);
  EXPECT_NE(usage_error_of([&] { convert(text, "x", "hubb"); }).find("hub"), std::string::npos);
  EXPECT_NE(usage_error_of([&] { convert(text, "x", "timm"); }).find("image"), std::string::npos);
  EXPECT_NE(usage_error_of([&] { convert(text, "x", "gpt2"); }).find("softmax"), std::string::npos);
  EXPECT_NE(usage_error_of([&] { convert(vision_file(), "x", "nanogpt"); }), "");
  EXPECT_FALSE(fs::exists(path("x")));
  EXPECT_FALSE(fs::exists(path("x.tmp")));
}

}  // namespace
}  // namespace tost
