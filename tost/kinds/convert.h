// Models from one checkpoint layout into another. Weights are moved bit for bit unless a smaller
// type, another size or folded scales are asked for. All else that this program knows of a model is
// kept: converted back it is the same model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tost/kinds/vision/model_file.h"
#include "tost/torch.h"

namespace tost {

// tost      one safetensors file that describes itself
// official  a .pth or .pt as the official training scripts write it (vision: model, args; language:
//           model, model_args); nanoGPT reads the language one where the model has no LayerScale
// hub       a folder: config.json, model.safetensors, and preprocessor_config.json or the
//           tokenizer's files
// timm      a folder: config.json with architecture and pretrained_cfg, model.safetensors; pictures
// nanogpt   a .pt for nanoGPT: softmax language models, LayerScale folded into the projections
// gpt2      a folder as transformers' GPT2LMHeadModel reads it: the same models, with biases
std::vector<std::string> model_layout_names();

struct ConvertOptions {
  // "auto": by the ending of the output, tost for .safetensors, official for .pth, .pt and .bin,
  // hub for anything else.
  std::string layout = "auto";
  Weights weights = Weights::kRaw;
  std::string dtype = "float32";  // of floating tensors: float32, bfloat16, float16
  int64_t image_size = 0;         // of pictures; 0: as it is. No weight depends on it.
  // Of language models with learned positions; 0: as it is. A shorter block keeps the first
  // position vectors, a longer one interpolates them linearly; membership biases stay as they are.
  int64_t block = 0;
  // Folders: weights of more bytes than this lie in shards of at most so many, with an index
  // (save_sharded_safetensors); 0: always one file.
  int64_t shard_bytes = 0;
  std::string prefix = {};  // before every name, of torch files: "_orig_mod.", "module."
};

struct ConvertResult {
  std::string kind, layout;  // "vision", "language" or "sequence"; never "auto"
  int64_t tensors = 0, bytes = 0;
  std::vector<std::filesystem::path> files;
  std::vector<std::string> notes;  // what a user should know of the result
};

// `in` as for load_model_file. The output appears whole or not at all. Throws a usage Error for an
// output that exists, options that do not fit the model, and models that a layout cannot hold, each
// before anything is written; data Errors for what cannot be read, and a disk without room.
ConvertResult convert_model(const std::filesystem::path& in, const std::filesystem::path& out,
                            const ConvertOptions& options);

}  // namespace tost
