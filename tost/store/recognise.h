// Which model a set of weights is of, from names and shapes alone.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tost {

using NamedShapes = std::map<std::string, std::vector<int64_t>>;

// One object for every set of weights among the names ("model.…", "model_ema.…", with _orig_mod. or
// module. before the names or not): {"prefix", "family", "mixer", "dim", "depth", "heads", …}, with
// what names and shapes tell. Families: the official ToST's image classifiers and the XCiT and
// ViT models they are compared with, timm's ViT, ToST's language models and nanoGPT/GPT-2. Empty
// where none is recognised.
nlohmann::ordered_json recognise_models(const NamedShapes& shapes);

}  // namespace tost
