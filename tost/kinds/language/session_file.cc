#include "tost/kinds/language/session_file.h"

#include <algorithm>

#include "tost/base/error.h"
#include "tost/io/parse_json.h"
#include "tost/io/safetensors.h"
#include "tost/nn/state_dict.h"
#include "tost/store/metadata.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using torch::Tensor;

constexpr char kSessionKey[] = "tost.session";
constexpr int64_t kMaxTokens = int64_t{1} << 40;
constexpr double kMaxValue = 1e30;  // squares of larger ones overflow float32 in the next steps

// A sum over the upper 16 bits of weights rounded to bfloat16, so that it is the same for every
// precision in which the model runs.
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

// The text that was held back, which is at most the beginning of one character.
std::string held_from(const SafetensorsFile& content, const std::string& where) {
  const auto found = content.tensors.find("held");
  if (found == content.tensors.end() || found->second.scalar_type() != torch::kByte ||
      found->second.dim() != 1 || found->second.numel() > 3) {
    fail_data(where, " has no 'held' of up to three bytes.");
  }
  const auto* bytes = found->second.const_data_ptr<uint8_t>();
  return std::string(bytes, bytes + found->second.numel());
}

// Copies a tensor, after checking its sizes: those of `cached` tokens if it is a cache, else those
// of the example.
Tensor checked(const Tensor& tensor, const Tensor& example, const std::string& name, int64_t cached,
               const std::string& where) {
  bool fits = tensor.dim() == example.dim() && tensor.is_floating_point() &&
              (tensor.scalar_type() == torch::kDouble) == (example.scalar_type() == torch::kDouble);
  const bool cache = name == "k" || name == "v";
  for (int64_t i = 0; fits && i < tensor.dim(); ++i) {
    fits = tensor.size(i) == (cache && i == 2 ? cached : example.size(i));
  }
  if (!fits) {
    fail_data(where, " has '", name, "' of type ", tensor.scalar_type(), " and sizes ",
              tensor.sizes(), ", which this model does not keep.");
  }
  if (!(tensor.abs() <= kMaxValue).all().item<bool>()) {
    fail_data(where, " has values in '", name, "' that are not finite or larger than ", kMaxValue,
              ".");
  }
  return tensor.to(example.options(), /*non_blocking=*/false, /*copy=*/true);
}

std::map<std::string, Tensor> tensors_of(const TextSession& session) {
  const auto held = torch::empty({int64_t(session.held.size())}, torch::kByte);
  std::copy(session.held.begin(), session.held.end(), held.data_ptr<uint8_t>());
  std::map<std::string, Tensor> tensors{{"pending", to_tensor(session.pending)},
                                        {"history", to_tensor(session.history)},
                                        {"seen", to_tensor(session.seen)},
                                        {"held", held}};
  for (size_t i = 0; i < session.state.blocks.size(); ++i) {
    for (const auto& [name, tensor] : session.state.blocks[i]) {
      tensors[block_key(i, name)] = tensor.contiguous();
    }
  }
  return tensors;
}

std::map<std::string, std::string> head_of(const TextSession& session, const json& config,
                                           int64_t weight_sum) {
  const json head{{"position", session.state.position},
                  {"draws", session.draws},
                  {"config", config},
                  {"weight_sum", weight_sum}};
  return {{kSessionKey, json_text(head)}};
}

}  // namespace

SessionFormat::SessionFormat(LanguageModel& model)
    : config_(to_json(model.config())),
      weight_sum_(tost::weight_sum(model)),
      vocab_(model.config().vocab),
      window_(model.config().options.window),
      block_(model.config().positions == "learned" ? model.max_context() : 0) {
  model.extend(torch::zeros({1, 1}, torch::kLong), example_);
}

void SessionFormat::read_state(const SafetensorsFile& content, LanguageState& state) const {
  const int64_t position = state.position;
  const int64_t cached = window_ > 0 ? std::min(position, window_ - 1) : position;
  size_t used = 0;
  state.blocks.resize(position > 0 ? example_.blocks.size() : 0);
  for (size_t i = 0; i < state.blocks.size(); ++i) {
    for (const auto& [name, tensor] : example_.blocks[i]) {
      const auto found = content.tensors.find(block_key(i, name));
      if (found == content.tensors.end()) fail_data("it lacks '", block_key(i, name), "'.");
      state.blocks[i][name] = checked(found->second, tensor, name, cached, "it");
      ++used;
    }
  }
  if (used + 4 != content.tensors.size()) {
    fail_data("it holds ", content.tensors.size(), " tensors where this model keeps ", used + 4,
              ".");
  }
}

std::string SessionFormat::bytes(const TextSession& session,
                                 const std::map<std::string, std::string>& notes) const {
  auto head = head_of(session, config_, weight_sum_);
  head.insert(notes.begin(), notes.end());
  return safetensors_bytes(tensors_of(session), head);
}

void SessionFormat::save(const fs::path& file, const TextSession& session) const {
  save_safetensors(file, tensors_of(session), head_of(session, config_, weight_sum_));
}

TextSession SessionFormat::read(const SafetensorsFile& content, const std::string& where) const {
  if (!content.metadata.count(kSessionKey)) fail_data(where, " is not a session of this program.");
  const json head = metadata_json(content.metadata, kSessionKey, where);
  expect_keys(head, {"position", "draws", "config", "weight_sum"}, where);
  return read_from(where, [&] {
    // Settings that older files do not have take their default values.
    if (to_json(language_config_from_json(head["config"])) != config_ ||
        head["weight_sum"] != weight_sum_) {
      fail_data("it was written with another model; use that one, or start a new session.");
    }
    TextSession session;
    session.draws = json_integer(head["draws"]);
    session.state.position = json_integer(head["position"]);
    const int64_t position = session.state.position;
    if (position < 0 || position > (block_ > 0 ? std::min(block_, kMaxTokens) : kMaxTokens)) {
      fail_data("its position is ", position, ".");
    }
    session.pending = ids_from(content, "pending", vocab_, "it");
    if (position == 0 && session.pending.empty()) fail_data("it holds nothing.");
    session.history = ids_from(content, "history", vocab_, "it");
    session.seen = ids_from(content, "seen", vocab_, "it");
    const auto remembered = int64_t(session.history.size());
    if (remembered < (block_ > 0 ? position : 0) || remembered > block_) {
      fail_data("it remembers ", remembered, " tokens at position ", position, ".");
    }
    session.held = held_from(content, "it");
    read_state(content, session.state);
    return session;
  });
}

void save_session(const fs::path& file, const TextSession& session, LanguageModel& model) {
  SessionFormat(model).save(file, session);
}

TextSession load_session(const fs::path& file, LanguageModel& model) {
  const std::string where = cat("Session '", file.string(), "'");
  return SessionFormat(model).read(load_safetensors(file), where);
}

}  // namespace tost
