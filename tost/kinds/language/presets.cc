// Named causal language models.
#include <array>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/engine/model_files.h"
#include "tost/kinds/language/model.h"

namespace tost {
namespace {

struct LanguageSize {
  const char* name;
  int64_t dim, depth, heads, block, vocab;
  double layer_scale;
  double dropout;
  int64_t means_heads;  // of the tost_means family
};
constexpr std::array kLanguageSizes{
    // The sizes of the paper (Table 4), and the vocabulary of the code: 50,257 rounded up to a
    // multiple of 64.
    LanguageSize{"base", 768, 12, 12, 1024, 50304, 1e-5, 0, 12},
    LanguageSize{"medium", 1024, 24, 16, 1024, 50304, 1e-5, 0, 16},
    LanguageSize{"large", 1280, 36, 20, 1024, 50304, 1e-5, 0, 20},
    // nanoGPT's settings for characters on a CPU and on a GPU; the vocabulary follows the data.
    // LayerScale starts at 1, because an initial value of 1e-5 hardly grows in 2,000 steps.
    LanguageSize{"char", 128, 4, 4, 64, 65, 1, 0, 8},
    LanguageSize{"char_gpu", 384, 6, 6, 256, 65, 1, 0.2, 12},
    // The size for words of a small corpus on a CPU; the vocabulary follows the data.
    LanguageSize{"words", 128, 4, 4, 256, 8192, 1, 0, 8},
};

struct LanguageFamily {
  const char* prefix;
  const char* mixer;
};
// tost_means is not in the paper; it is the best model of constant memory in the ablations of
// docs/language.md.
constexpr std::array kLanguageFamilies{LanguageFamily{"tost_gpt", "tssa"},
                                       LanguageFamily{"gpt", "softmax"},
                                       LanguageFamily{"tost_means", "means"}};

void make_means(const LanguageSize& size, LanguageConfig& c) {
  c.heads = size.means_heads;
  c.positions = "none";
  c.layer_scale = 1;
  c.options.conv = 4;
  c.options.decay = "learned";
  c.options.gate = true;
}

// Two blocks as in arXiv 2312.04927; vocabulary and block follow the task. tost_recall_stream can
// read beyond its training lengths.
LanguageConfig recall_preset(bool stream) {
  LanguageConfig c;
  c.name = stream ? "tost_recall_stream" : "tost_recall";
  c.vocab = 256;
  c.block = 256;
  c.dim = 64;
  c.depth = 2;
  c.heads = 2;
  c.layer_scale = 1;
  if (!stream) return c;
  c.positions = "none";
  c.options.conv = 4;
  return c;
}

}  // namespace

std::vector<std::string> recall_preset_names() {
  return {recall_preset(false).name, recall_preset(true).name};
}

std::vector<std::string> language_preset_names() {
  std::vector<std::string> names;
  for (const auto& family : kLanguageFamilies) {
    for (const auto& size : kLanguageSizes) names.push_back(cat(family.prefix, "_", size.name));
  }
  return names;
}

LanguageConfig language_preset(const std::string& name) {
  for (const bool stream : {false, true}) {
    if (name == recall_preset(stream).name) return recall_preset(stream);
  }
  for (const auto& family : kLanguageFamilies) {
    for (const auto& size : kLanguageSizes) {
      if (name != cat(family.prefix, "_", size.name)) continue;
      LanguageConfig c;
      c.name = name;
      c.mixer = family.mixer;
      c.dim = size.dim;
      c.depth = size.depth;
      c.heads = size.heads;
      c.block = size.block;
      c.vocab = size.vocab;
      c.layer_scale = size.layer_scale;
      c.dropout = size.dropout;
      if (c.mixer == "means") make_means(size, c);
      return c;
    }
  }
  const auto names = language_preset_names();
  fail_usage("There is no language model '", name, "'; the models are ", join(names, ", "), ".",
             did_you_mean(name, names));
}

const PresetNames language_names{language_preset_names()};
const PresetNames recall_names{recall_preset_names()};

}  // namespace tost
