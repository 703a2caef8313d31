// Writing the layouts of convert.h; each call leaves its files whole and durable in place.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tost/kinds/portable_model.h"

namespace tost {

// official and nanogpt. `prefix` before every name.
void write_torch_layout(const PortableModel& model, const std::filesystem::path& file,
                        const std::string& prefix);

// The files of the folders hub, timm and gpt2 beside model.safetensors, by name.
std::map<std::string, std::string> hub_files(const PortableModel& model, const std::string& dtype);
std::map<std::string, std::string> timm_files(const PortableModel& model);
std::map<std::string, std::string> gpt2_files(const PortableModel& model, const std::string& dtype);

// By the names and the orientation that transformers' GPT2LMHeadModel has.
StateDict gpt2_state(const PortableModel& model);

}  // namespace tost
