// The fuzz targets: one function for each reader of outside files. Every defect of the input must
// throw tost::Error, which is caught here. Any other exception is a finding, and so is a result
// that breaks the reader's contract.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "tost/base/error.h"

namespace tost::fuzz {

void try_checkpoint(std::string_view input);
void try_cifar(std::string_view input);
void try_idx(std::string_view input);
void try_image(std::string_view input);
void try_json(std::string_view input);
void try_model_config(std::string_view input);
void try_request(std::string_view input);
void try_safetensors(std::string_view input);
void try_sequences(std::string_view input);
void try_token_file(std::string_view input);
void try_tokenizer(std::string_view input);
void try_torch_file(std::string_view input);

struct Target {
  const char* name;  // of its archive in fuzz/corpus
  void (*run)(std::string_view input);
};

inline constexpr Target kTargets[] = {
    {"checkpoint", try_checkpoint},
    {"cifar", try_cifar},
    {"idx", try_idx},
    {"image", try_image},
    {"json", try_json},
    {"model_config", try_model_config},
    {"request", try_request},
    {"safetensors", try_safetensors},
    {"sequences", try_sequences},
    {"token_file", try_token_file},
    {"tokenizer", try_tokenizer},
    {"torch_file", try_torch_file},
};

// Runs `read` and swallows its refusal.
template <class Read>
void or_refuse(Read read) {
  try {
    read();
  } catch (const Error&) {
  }
}

// Several readers share a target: the input's first byte selects one, the rest is its input.
inline unsigned take_choice(std::string_view& input) {
  if (input.empty()) return 0;
  const auto choice = static_cast<unsigned char>(input.front());
  input.remove_prefix(1);
  return choice;
}

// A guarantee of a reader about accepted input.
inline void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

}  // namespace tost::fuzz
