// What is fuzzed: one function a reader of outside files. Whatever is wrong with the input ends in
// tost::Error, which is caught here; anything else that is thrown, a broken promise of the reader
// included, is a finding.
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
  const char* name;  // of its folder in fuzz/corpus
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

// Several readers share a target: the input's first byte tells which, the rest is theirs.
inline unsigned take_choice(std::string_view& input) {
  if (input.empty()) return 0;
  const auto choice = static_cast<unsigned char>(input.front());
  input.remove_prefix(1);
  return choice;
}

// A promise that a reader makes about what it has accepted.
inline void promise(bool kept, const char* what) {
  if (!kept) throw std::logic_error(what);
}

}  // namespace tost::fuzz
