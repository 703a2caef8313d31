#include "tost/eval/session_file.h"

#include <algorithm>

#include "tost/base/error.h"
#include "tost/eval/metadata.h"
#include "tost/io/safetensors.h"
#include "tost/models/state_dict.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using torch::Tensor;

constexpr char kSessionKey[] = "tost.session";

// Whatever the precision the model runs in: the sum is over the weights' upper 16 bits, which
// bfloat16 keeps up to rounding, so weights are rounded first.
int64_t weight_sum(const LanguageModel& model) {
  int64_t sum = 0;
  for (const auto& [name, tensor] : state_dict(model)) {
    const auto bits = tensor.to(torch::kBFloat16).contiguous().view(torch::kShort);
    sum = int64_t(uint64_t(sum) * 31 + uint64_t(bits.to(torch::kLong).sum().item<int64_t>()));
  }
  return sum;
}

Tensor to_tensor(const std::vector<int64_t>& values) {
  return torch::tensor(values, torch::kLong);
}

std::string block_key(size_t block, const std::string& name) {
  return cat("block.", block, ".", name);
}

std::vector<int64_t> ids_from(const SafetensorsFile& content, const char* name, int64_t vocab,
                              const std::string& where) {
  const auto found = content.tensors.find(name);
  if (found == content.tensors.end()) fail_data(where, " lacks '", name, "'.");
  const auto& tensor = found->second;
  if (tensor.scalar_type() != torch::kLong || tensor.dim() != 1) {
    fail_data(where, " has '", name, "' of another type than a list of token ids.");
  }
  const auto* ids = tensor.const_data_ptr<int64_t>();
  std::vector<int64_t> values(ids, ids + tensor.numel());
  for (const int64_t id : values) {
    if (id < 0 || id >= vocab) {
      fail_data(where, " has the token ", id, " in '", name, "', outside the vocabulary of ", vocab,
                ".");
    }
  }
  return values;
}

// A tensor as the model at hand would have made it: same name and rank, and the same sizes but for
// the number of tokens a cache keeps.
Tensor checked(const Tensor& tensor, const Tensor& example, const std::string& name,
               int64_t position, const std::string& where) {
  bool fits = tensor.dim() == example.dim() && tensor.is_floating_point() &&
              (tensor.scalar_type() == torch::kDouble) == (example.scalar_type() == torch::kDouble);
  const bool cache = name == "k" || name == "v";
  for (int64_t i = 0; fits && i < tensor.dim(); ++i) {
    fits = cache && i == 2 ? tensor.size(i) <= position : tensor.size(i) == example.size(i);
  }
  if (!fits) {
    fail_data(where, " has '", name, "' of type ", tensor.scalar_type(), " and sizes ",
              tensor.sizes(), ", which this model does not keep.");
  }
  if (!tensor.isfinite().all().item<bool>()) {
    fail_data(where, " has values in '", name, "' that are not finite.");
  }
  return tensor.to(example.scalar_type());
}

void read_state(const SafetensorsFile& content, LanguageModel& model, const std::string& where,
                LanguageState& state) {
  LanguageState example;
  model.extend(torch::zeros({1, 1}, torch::kLong), example);
  size_t used = 0;
  state.blocks.resize(example.blocks.size());
  for (size_t i = 0; i < example.blocks.size(); ++i) {
    for (const auto& [name, tensor] : example.blocks[i]) {
      const auto found = content.tensors.find(block_key(i, name));
      if (found == content.tensors.end()) fail_data(where, " lacks '", block_key(i, name), "'.");
      state.blocks[i][name] = checked(found->second, tensor, name, state.position, where);
      ++used;
    }
  }
  if (used + 3 != content.tensors.size()) {
    fail_data(where, " holds ", content.tensors.size(), " tensors where this model keeps ",
              used + 3, ".");
  }
}

}  // namespace

void save_session(const fs::path& file, const TextSession& session, const LanguageModel& model) {
  std::map<std::string, Tensor> tensors{{"pending", to_tensor(session.pending)},
                                        {"history", to_tensor(session.history)},
                                        {"seen", to_tensor(session.seen)}};
  for (size_t i = 0; i < session.state.blocks.size(); ++i) {
    for (const auto& [name, tensor] : session.state.blocks[i]) {
      tensors[block_key(i, name)] = tensor.contiguous();
    }
  }
  const json head{{"position", session.state.position},
                  {"draws", session.draws},
                  {"config", to_json(model.config())},
                  {"weight_sum", weight_sum(model)}};
  save_safetensors(file, tensors, {{kSessionKey, head.dump()}});
}

TextSession load_session(const fs::path& file, LanguageModel& model) {
  const std::string where = cat("Session '", file.string(), "'");
  const SafetensorsFile content = load_safetensors(file);
  if (!content.metadata.count(kSessionKey)) fail_data(where, " is not a session of this program.");
  const json head = metadata_json(content.metadata, kSessionKey, where);
  expect_keys(head, {"position", "draws", "config", "weight_sum"}, where);
  return read_from(where, [&] {
    if (head["config"] != to_json(model.config()) || head["weight_sum"] != weight_sum(model)) {
      fail_data("it was written with another model; use that one, or start a new session.");
    }
    TextSession session;
    head["draws"].get_to(session.draws);
    head["position"].get_to(session.state.position);
    if (session.state.position < 1 || session.state.position > model.max_context()) {
      fail_data("its position is ", session.state.position, ".");
    }
    const int64_t vocab = model.config().vocab;
    session.pending = ids_from(content, "pending", vocab, "it");
    session.history = ids_from(content, "history", vocab, "it");
    session.seen = ids_from(content, "seen", vocab, "it");
    read_state(content, model, "it", session.state);
    return session;
  });
}

}  // namespace tost
