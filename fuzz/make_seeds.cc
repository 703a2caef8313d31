// Writes a few valid inputs of every target, from which a fuzzer finds its way: fuzz/make_seeds
// FOLDER.
#include <zlib.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/data/listops.h"
#include "tost/io/image.h"
#include "tost/io/jpeg_test_util.h"
#include "tost/io/safetensors_test_util.h"
#include "tost/io/token_file.h"
#include "tost/io/tokenizers.h"
#include "tost/io/torch_test_util.h"

namespace tost {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder(const fs::path& root, const char* target) : path_(root / target) {
    fs::create_directories(path_);
  }
  void add(const std::string& bytes) {
    std::ofstream(path_ / cat("seed-", count_++), std::ios::binary) << bytes;
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  int count_ = 10;
};

std::string gzip(const std::string& bytes) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY);
  std::string packed(bytes.size() + 100, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string idx(const std::vector<char>& dims, size_t values) {
  std::string bytes{0, 0, 8, static_cast<char>(dims.size())};
  for (const char side : dims) bytes += std::string{0, 0, 0, side};
  return bytes + std::string(values, 7);
}

void add_arrays(const fs::path& root) {
  Folder files(root, "idx");
  for (const auto& [dims, values] : std::vector<std::pair<std::vector<char>, size_t>>{
           {{2, 3, 2}, 12}, {{5}, 5}, {{2, 3, 2}, 11}, {{5}, 6}, {{1, 0, 1}, 0}}) {
    const std::string choice(1, dims.size() == 3 ? 0 : 1), file = idx(dims, values);
    files.add(choice + file);
    files.add(choice + gzip(file));
    files.add(choice + gzip(file) + gzip("more"));
  }
  Folder records(root, "cifar");
  for (const char label : {0, 9, 10}) {
    records.add(std::string{0, label} + std::string(3072, 50));
    records.add(std::string{1, 1, label} + std::string(3072, 50));
  }
  for (const char* names : {"cat\ndog\n", "\r\n", "cat\n\ndog", "", "a\r\nb \r\n\n\n"}) {
    records.add(std::string("\2") + names);
  }
}

void add_images(const fs::path& root) {
  Folder files(root, "image");
  for (const int64_t channels : {1, 3}) {
    for (const int64_t side : {1, 7, 17}) {
      Image image(side, side + 1, channels);
      for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = uint8_t(i * 37);
      files.add(encode_png(image));
      files.add(testing::encode_jpeg(image, 70));
    }
  }
}

void add_tokens(const fs::path& root) {
  Folder files(root, "token_file");
  for (const auto format : {TokenFormat::kNanoGpt, TokenFormat::kLlmC}) {
    for (const size_t count : {1, 5, 200}) {
      const fs::path path = files.path() / "writing";
      TokenFileWriter writer(path, format);
      for (size_t i = 0; i < count; ++i) writer.add({int32_t(i * 300 % 65'536)});
      writer.finish();
      const std::string bytes = read_file(path, 1 << 20);
      for (const char choice : {0, 1, 2}) files.add(std::string(1, choice) + bytes);
      fs::remove(path);
    }
  }
}

void add_tokenizers(const fs::path& root) {
  Folder files(root, "tokenizer");
  CharSet set;
  set.add("the fox, 12 ü\n", "seed");
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  tokens.insert(tokens.end(), {"th", "the"});
  for (const auto& tokenizer :
       {make_byte_tokenizer(), set.tokenizer(), make_word_tokenizer("a b b\nc", 10, "seed"),
        make_bpe_tokenizer(tokens, "seed")}) {
    files.add(std::string(1, 0) + tokenizer->to_json().dump());
  }
  files.add("\1the thing's  in\n\n 123 über \xF0\x9F\x98\x80 \xFF\xFE don't");
  files.add(std::string("\2#version: 0.2\nt h\nth e\nĠ t\n\0{\"the\":1}", 39));
  files.add("\3IQ== 0\nIg== 1\nIw== 2\n");
  files.add("\4IQ== Ig== Iw==");
  files.add("\5the fox über");
}

void add_texts(const fs::path& root) {
  Folder files(root, "json");
  for (const char* text :
       {R"({"a":[1,-2.5e3,true,null,"ü\n\ud83d\ude00"],"b":{"c":{}}})", "[[[[]]]]", "1e400",
        R"({"recipe":"other","decay_all":true,"steps":7,"rate":0.25,"data":"x","schedule":"epoch",
            "model_options":{"dim":8}})",
        R"({"steps":0})", R"({"a":1,"model":2,"classes":3})", "{\"k\":1,\"k\":2}",
        R"({"mixer":"softmax","depth":3,"scale":0.5,"bias":true})"}) {
    for (const char choice : {0, 1, 2, 3, 4}) files.add(std::string(1, choice) + text);
  }
  Folder tables(root, "sequences");
  std::string table = "Source\tTarget\n";
  for (int i = 0; i < 6; ++i) {
    const std::string code =
        listops_sample({.max_depth = 4, .min_tokens = 4, .max_tokens = 40}, 1, "train", i);
    table += listops_text(code) + "\t" + std::to_string(listops_value(code)) + "\n";
    tables.add("\4" + listops_text(code));
  }
  tables.add(std::string(1, 0) + table);
  for (const char* text : {"[MAX 2 9 ]\t9", "7\t( ( ( [MED 1 ) 7 ) 9 ] )", "7\t7\r\n\r\n8\t8"}) {
    tables.add(std::string(1, 0) + text);
  }
  tables.add("\1label\ttext\n1\tgood\n0\tbad\r\n1.0\tfine\n");
  tables.add("\1neg\tbad\npos\tgood\textra\n");
  tables.add("\0021\t7\t8\tone\ttwo\n0\t7\t9\tone\tthree\n");
}

void add_safetensors(const fs::path& root) {
  Folder files(root, "safetensors");
  for (const auto& cases :
       {testing::frame_cases(), testing::entry_cases(), testing::place_cases()}) {
    for (const auto& one : cases) files.add(std::string(1, 0) + one.bytes);
  }
  for (
      const char* index :
      {R"({"metadata":{"total_size":8},"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}})",
       R"({"weight_map":{"a":"../m.safetensors"}})", R"({"weight_map":{}})"}) {
    files.add(std::string("\1") + index);
  }
}

void add_checkpoints(const fs::path& root) {
  Folder files(root, "checkpoint");
  const std::string entry = R"({"bytes":2,"crc32c":"e2a22936"})";
  const auto manifest = [&](const std::string& more) {
    return cat(R"({"files":{"model.safetensors":)", entry, R"(,"optimizer.safetensors":)", entry,
               R"(,"state.json":)", entry, more, "}}");
  };
  for (const char* more :
       {"", R"(,"ema.safetensors":{"bytes":0,"crc32c":"00000000"})",
        R"(,"../up":{"bytes":2,"crc32c":"e2a22936"})", R"(,"a":{"bytes":-1,"crc32c":"e2a22936"})",
        R"(,"a":{"bytes":1e300,"crc32c":"x"})", R"(,"state.json":3)"}) {
    for (const char choice : {0, 1}) files.add(std::string(1, choice) + manifest(more));
  }
  files.add(std::string(1, 0) + R"({"files":{}})");
  const auto state = [](const char* step, const char* guards) {
    return cat(R"({"format":1,"step":)", step,
               R"(,"evaluated_step":4,"best":{"value":0.5,"step":4},)",
               R"("sums":{"loss":1.25,"steps":2,"samples":8,"correct":-1})", guards, "}");
  };
  for (const char* guards :
       {"",
        R"(,"guards":{"losses":[1.5,2],"norms":[3,4],"skipped":1,"skipped_in_row":0,)"
        R"("rollbacks":1,"lr_factor":0.5,"data_ahead":3,"rollback_step":4})",
        R"(,"guards":{"losses":[1],"norms":[]})"}) {
    for (const char* step : {"6", "-1", "1e300"}) files.add("\2" + state(step, guards));
  }
  for (const char* name : {"step-000000012\n", "step-000000012\r\n", "step-12", "../x", ""}) {
    files.add(std::string("\3") + name);
  }
}

// The tensors of a model, a line each.
std::string vision_lines(const char* mixer) {
  return cat("blocks.0.attn.qkv.weight 24 8\nblocks.0.mlp.fc1.weight 32 8\n", mixer,
             "cls_attn_blocks.0.attn.qkv.weight 24 8\nhead.weight 10 8\n",
             "patch_embed.proj.0.0.weight 4 3 3 3\npatch_embed.proj.2.0.weight 8 4 3 3\n");
}

void add_model_configs(const fs::path& root) {
  using namespace testing;
  Folder files(root, "model_config");
  const char* const timm =
      R"({"architecture":"tost_cab_tiny_12_p16","label_names":["a","b"],"pretrained_cfg":
          {"input_size":[3,224,224],"interpolation":"bicubic","crop_pct":0.9,"mean":[0.5],"std":[1]}})";
  for (const char* config :
       {timm, R"({"n_head":12,"activation_function":"gelu_new"})", R"({"n_head":1e300})",
        R"({"pretrained_cfg":{"input_size":3,"mean":"x"}})", "[]"}) {
    files.add(std::string(1, 0) + config);
    files.add("\2" + vision_lines("") + std::string(1, 0) + config);
  }
  files.add("\2" + vision_lines("blocks.0.attn.temp 2 1\nblocks.0.attn.qkv.bias 24\n"));
  files.add("\2" + vision_lines("module.blocks.0.attn.temperature 2 1 1\nregisters 1 4 8\n"));
  files.add(
      "\2_orig_mod.transformer.h.0.attn.c_attn.weight 24 8\ntransformer.wte.weight 9 8\n"
      "transformer.wpe.weight 16 8\n");
  const auto pickle = [&](const std::string& group, const std::string& pairs) {
    files.add("\1" + proto() + dict({str(group), pairs}) + ".");
  };
  pickle("args", dict({str("model"), str("tost_cab_tiny_12_p16"), str("input_size"), integer(224),
                       str("tokens_norm"), "\x88"}));
  pickle("args", dict({str("input_size"), integer(-1)}));
  pickle("model_args", dict({str("n_head"), integer(12)}));
  pickle("config", dict({str("n_head"), "N"}));
  pickle("tost", str(R"({"kind":"vision"})"));
}

}  // namespace
}  // namespace tost

int main(int count, char** arguments) try {
  if (count != 2) {
    std::fprintf(stderr, "usage: make_seeds FOLDER\n");
    return 2;
  }
  const std::filesystem::path root = arguments[1];
  tost::add_arrays(root);
  tost::add_images(root);
  tost::add_tokens(root);
  tost::add_tokenizers(root);
  tost::add_texts(root);
  tost::add_safetensors(root);
  tost::add_checkpoints(root);
  tost::add_model_configs(root);
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
