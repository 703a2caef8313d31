#include "tost/store/recognise.h"

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/io/safe_text.h"

namespace tost {
namespace {

using Json = nlohmann::ordered_json;

class NamedWeights {
 public:
  NamedWeights(const NamedShapes& shapes, std::string prefix)
      : shapes_(shapes), prefix_(std::move(prefix)) {}

  const std::vector<int64_t>* find(const std::string& name) const {
    const auto found = shapes_.find(prefix_ + name);
    return found == shapes_.end() ? nullptr : &found->second;
  }
  // Side `d` of a tensor; null where there is no such tensor or side.
  Json side(const std::string& name, size_t d) const {
    const auto* shape = find(name);
    return shape != nullptr && d < shape->size() ? Json((*shape)[d]) : Json();
  }
  // How many of before0after, before1after, … there are.
  int64_t count(const std::string& before, const std::string& after) const {
    int64_t n = 0;
    while (find(before + cat(n) + after) != nullptr) ++n;
    return n;
  }
  const std::string& prefix() const { return prefix_; }

 private:
  const NamedShapes& shapes_;
  std::string prefix_;
};

// Of a stem of convolutions: each stage that halves the side doubles the width, and the first one
// halves it too. The side of the kernel where one convolution does it all.
Json patch_side(const NamedWeights& weights, const std::string& projection) {
  if (weights.find("patch_embed.proj.weight") != nullptr) {
    return weights.side("patch_embed.proj.weight", 2);
  }
  const Json first = weights.side("patch_embed.proj.0.0.weight", 0);
  const Json last = weights.side("blocks.0" + projection, 1);
  if (first.is_null() || last.is_null()) return Json();
  const auto narrow = first.get<int64_t>(), wide = last.get<int64_t>();
  constexpr int64_t kMostSide = 4096;
  if (narrow < 1 || wide < narrow || wide % narrow != 0 || wide / narrow > kMostSide / 2)
    return Json();
  return 2 * (wide / narrow);
}

Json vision(const NamedWeights& weights) {
  const bool means = weights.find("blocks.0.attn.router.weight") != nullptr;
  const bool tssa = !means && weights.find("blocks.0.attn.temp") != nullptr;
  const std::string projection = means ? ".attn.c_attn.weight" : ".attn.qkv.weight";
  const bool xca = weights.find("blocks.0.attn.temperature") != nullptr;
  const int64_t class_blocks = weights.count("cls_attn_blocks.", ".attn.qkv.weight");
  const bool sequence = weights.find("embed.tokens.weight") != nullptr;
  const char* family = sequence            ? "ToST sequence classifier"
                       : class_blocks == 0 ? (tssa ? "ToST image classifier" : "timm ViT")
                       : tssa || means     ? "ToST image classifier"
                       : xca               ? "XCiT image classifier"
                                           : "ViT image classifier with class attention";
  Json model;
  model["prefix"] = escaped(weights.prefix());
  model["family"] = family;
  model["mixer"] = means ? "means" : tssa ? "tssa" : xca ? "xca" : "softmax";
  model["dim"] = weights.side("blocks.0" + projection, 1);
  model["depth"] = weights.count("blocks.", projection);
  model["class_depth"] = class_blocks;
  model["heads"] =
      weights.side(tssa || means ? "blocks.0.attn.temp" : "blocks.0.attn.temperature", 0);
  if (sequence) {
    model["vocab"] = weights.side("embed.tokens.weight", 0);
  } else {
    model["patch"] = patch_side(weights, projection);
  }
  model["classes"] = weights.side("head.weight", 0);
  return model;
}

Json language(const NamedWeights& weights) {
  const bool tssa = weights.find("h.0.attn.temp") != nullptr;
  const Json rows = weights.side("h.0.attn.c_attn.weight", 0);
  const Json dim = weights.side("wte.weight", 1);
  // Hugging Face keeps GPT-2's matrices the other way round.
  const bool transposed = !tssa && rows == dim;
  Json model;
  model["prefix"] = escaped(weights.prefix());
  model["family"] = tssa         ? "ToST language model"
                    : transposed ? "GPT-2 (Hugging Face layout)"
                                 : "GPT (nanoGPT layout)";
  model["mixer"] = tssa ? "tssa" : "softmax";
  model["dim"] = dim;
  model["depth"] = weights.count("h.", ".attn.c_attn.weight");
  model["heads"] = weights.side("h.0.attn.temp", 0);
  model["block"] = weights.side("wpe.weight", 0);
  model["vocab"] = weights.side("wte.weight", 0);
  return model;
}

}  // namespace

nlohmann::ordered_json recognise_models(const NamedShapes& shapes) {
  constexpr size_t kMostModels = 16;
  const std::string image = "blocks.0.attn.qkv.weight", means = "blocks.0.attn.c_attn.weight",
                    text = "h.0.attn.c_attn.weight";
  Json models = Json::array();
  for (const auto& [name, shape] : shapes) {
    if (models.size() >= kMostModels) break;
    for (const std::string& anchor : {image, means, text}) {
      if (!ends_with(name, anchor)) continue;
      const std::string prefix = name.substr(0, name.size() - anchor.size());
      if (!prefix.empty() && prefix.back() != '.') continue;
      models.push_back(anchor == text ? language({shapes, prefix}) : vision({shapes, prefix}));
    }
  }
  return models;
}

}  // namespace tost
