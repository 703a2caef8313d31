#include "tost/engine/session_file.h"

#include <algorithm>
#include <cmath>

#include "tost/base/error.h"
#include "tost/engine/metadata.h"
#include "tost/io/parse_json.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr char kSessionKey[] = "tost.session";
constexpr int64_t kMaxTokens = int64_t{1} << 40;
constexpr double kMaxValue = 1e30;  // squares of larger ones overflow float32 in the next steps

Array to_array(const std::vector<int64_t>& values) {
  return Array::of(values, TorchDtype::kInt64);
}

std::string block_key(size_t block, const std::string& name) {
  return cat("block.", block, ".", name);
}

std::vector<int64_t> ids_from(const ArraysFile& content, const char* name, int64_t vocab,
                              const std::string& where) {
  const auto found = content.arrays.find(name);
  if (found == content.arrays.end()) fail_data(where, " lacks '", name, "'.");
  const Array& array = found->second;
  if (array.dtype() != TorchDtype::kInt64 || array.shape().size() != 1) {
    fail_data(where, " has '", name, "' of another type than a list of token ids.");
  }
  const auto* ids = array.data<int64_t>();
  std::vector<int64_t> values(ids, ids + array.numel());
  for (const int64_t id : values) {
    if (id < 0 || id >= vocab) {
      fail_data(where, " has the token ", id, " in '", name, "', outside the vocabulary of ", vocab,
                ".");
    }
  }
  return values;
}

// Checks that the held bytes are at most the beginning of one character.
std::string held_from(const ArraysFile& content, const std::string& where) {
  const auto found = content.arrays.find("held");
  if (found == content.arrays.end() || found->second.dtype() != TorchDtype::kUInt8 ||
      found->second.shape().size() != 1 || found->second.numel() > 3) {
    fail_data(where, " has no 'held' of up to three bytes.");
  }
  const auto* bytes = found->second.data<char>();
  return std::string(bytes, bytes + found->second.numel());
}

template <class T>
bool all_usual(const Array& array) {
  return std::all_of(array.data<T>(), array.data<T>() + array.numel(),
                     [](T x) { return std::abs(x) <= kMaxValue; });
}

// Copies an array, which must have the sizes of a cache with `cached` tokens, or those of
// `example`.
Array checked(const Array& array, const Array& example, const std::string& name, int64_t cached,
              const std::string& where) {
  Array::Shape wanted = example.shape();
  if (name == "k" || name == "v") wanted.at(2) = cached;
  if (array.shape() != wanted || array.dtype() != example.dtype()) {
    fail_data(where, " has '", name, "' of type ", shown(array),
              ", which this model does not keep.");
  }
  const bool wide = array.dtype() == TorchDtype::kFloat64;
  if (!(wide ? all_usual<double>(array) : all_usual<float>(array.as_float()))) {
    fail_data(where, " has values in '", name, "' that are not finite or larger than ", kMaxValue,
              ".");
  }
  return array.clone();
}

Arrays arrays_in(const TextSession& session) {
  Arrays arrays{{"pending", to_array(session.pending)},
                {"history", to_array(session.history)},
                {"seen", to_array(session.seen)},
                {"held", Array::of(std::vector<char>(session.held.begin(), session.held.end()),
                                   TorchDtype::kUInt8)}};
  for (size_t i = 0; i < session.state.blocks.size(); ++i) {
    for (const auto& [name, array] : session.state.blocks[i]) arrays[block_key(i, name)] = array;
  }
  return arrays;
}

}  // namespace

SessionFormat::SessionFormat(TextModel& model)
    : model_(model),
      config_(to_json(model.config())),
      vocab_(model.config().vocab),
      window_(model.config().options.window),
      block_(model.config().positions == "learned" ? model.config().block : 0) {
  const int64_t first = 0;
  model.extend(&first, 1, 1, example_);
}

// The same for every precision the model runs in: weights are rounded to bfloat16, and the sum is
// over their bits.
int64_t SessionFormat::weight_sum() const {
  std::call_once(summed_, [this] {
    uint64_t sum = 0;
    model_.each_weight([&sum](const Array& weight) {
      const Array wide = weight.as_float();
      int64_t bits = 0;
      for (int64_t i = 0; i < wide.numel(); ++i) bits += int16_t(to_bfloat16(wide.data()[i]));
      sum = sum * 31 + uint64_t(bits);
    });
    weight_sum_ = int64_t(sum);
  });
  return weight_sum_;
}

std::map<std::string, std::string> SessionFormat::head_of(const TextSession& session) const {
  const json head{{"position", session.state.position},
                  {"draws", session.draws},
                  {"config", config_},
                  {"weight_sum", weight_sum()}};
  return {{kSessionKey, json_text(head)}};
}

void SessionFormat::read_state(const ArraysFile& content, LanguageState& state) const {
  const int64_t position = state.position;
  const int64_t cached = window_ > 0 ? std::min(position, window_ - 1) : position;
  size_t used = 0;
  state.blocks.resize(position > 0 ? example_.blocks.size() : 0);
  for (size_t i = 0; i < state.blocks.size(); ++i) {
    for (const auto& [name, array] : example_.blocks[i]) {
      const auto found = content.arrays.find(block_key(i, name));
      if (found == content.arrays.end()) fail_data("it lacks '", block_key(i, name), "'.");
      state.blocks[i][name] = checked(found->second, array, name, cached, "it");
      ++used;
    }
  }
  if (used + 4 != content.arrays.size()) {
    fail_data("it holds ", content.arrays.size(), " tensors where this model keeps ", used + 4,
              ".");
  }
}

std::string SessionFormat::bytes(const TextSession& session,
                                 const std::map<std::string, std::string>& notes) const {
  auto head = head_of(session);
  head.insert(notes.begin(), notes.end());
  return arrays_bytes(arrays_in(session), head);
}

void SessionFormat::save(const fs::path& file, const TextSession& session) const {
  save_arrays(file, arrays_in(session), head_of(session));
}

TextSession SessionFormat::read(const ArraysFile& content, const std::string& where) const {
  if (!content.metadata.count(kSessionKey)) fail_data(where, " is not a session of this program.");
  const json head = metadata_json(content.metadata, kSessionKey, where);
  expect_keys(head, {"position", "draws", "config", "weight_sum"}, where);
  return read_from(where, [&] {
    // Gives settings that older files lack their default values.
    if (to_json(language_config_from_json(head["config"])) != config_ ||
        head["weight_sum"] != weight_sum()) {
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

void save_session(const fs::path& file, const TextSession& session, TextModel& model) {
  TextSession on_cpu = session;
  on_cpu.state = model.on_cpu(session.state);
  SessionFormat(model).save(file, on_cpu);
}

TextSession load_session(const fs::path& file, TextModel& model) {
  const std::string where = cat("Session '", file.string(), "'");
  return SessionFormat(model).read(load_arrays(file), where);
}

}  // namespace tost
