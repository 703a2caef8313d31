// Tensors in safetensors files.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "tost/torch.h"

namespace tost {

struct SafetensorsFile {
  std::map<std::string, torch::Tensor> tensors;  // CPU, contiguous
  std::map<std::string, std::string> metadata;   // "__metadata__"
};

// Load and save tensors by the functions of engine/arrays_file.h, without copying. Tensors to save
// may have any device and strides; a data Error names one that is not dense.
SafetensorsFile load_safetensors(const std::filesystem::path& path);

void save_safetensors(const std::filesystem::path& path,
                      const std::map<std::string, torch::Tensor>& tensors,
                      const std::map<std::string, std::string>& metadata = {});

}  // namespace tost
