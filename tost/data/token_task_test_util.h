// Small tasks of tokens for tests.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tost/ops/safetensors.h"
#include "tost/torch.h"

namespace tost::testing {

// A sample of `length` random tokens repeats its first one at the end: the target there is the
// second one. One group a length, of `samples` samples in every split.
inline void write_token_task(const std::filesystem::path& folder,
                             const std::vector<int64_t>& lengths, int64_t vocabulary = 16,
                             int64_t samples = 12,
                             std::map<std::string, std::string> metadata = {}) {
  std::filesystem::create_directories(folder);
  const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  auto generator = at::make_generator<at::CPUGeneratorImpl>(7);
  for (const char* split : {"train", "validation", "test"}) {
    const int64_t rows = samples * std::ssize(lengths);
    const auto whole = torch::TensorOptions(torch::kInt64);
    torch::Tensor tokens = torch::randint(vocabulary, {rows, longest}, generator, whole);
    torch::Tensor targets = torch::full({rows, longest}, -1, whole);
    torch::Tensor group = torch::empty({rows}, whole);
    std::string names;
    for (size_t i = 0; i < lengths.size(); ++i) {
      const auto part = torch::indexing::Slice(int64_t(i) * samples, int64_t(i + 1) * samples);
      tokens.index_put_({part, lengths[i] - 1}, tokens.index({part, 0}));
      targets.index_put_({part, lengths[i] - 1}, tokens.index({part, 1}));
      group.index_put_({part}, int64_t(i));
      names += (i == 0 ? "\"" : ", \"") + std::to_string(lengths[i]) + "\"";
    }
    metadata.insert({{"vocabulary", std::to_string(vocabulary)},
                     {"task", "test"},
                     {"groups", "[" + names + "]"}});
    save_safetensors(folder / (std::string(split) + ".safetensors"),
                     {{"tokens", tokens}, {"targets", targets}, {"group", group}}, metadata);
  }
}

}  // namespace tost::testing
