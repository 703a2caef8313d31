// The six tasks of MAD (Mechanistic Architecture Design, arXiv 2403.17844).
#include <algorithm>
#include <map>

#include "tost/base/error.h"
#include "tost/data/recall_source.h"

namespace tost {
namespace {

// Tokens in their order. An answer is a token that the score asks for.
struct Tokens {
  std::vector<int32_t> ids;
  std::vector<int64_t> places;  // of ids: where an answer can be read; -1: it is not asked for

  void add(int32_t id, int64_t place = -1) {
    ids.push_back(id);
    places.push_back(place);
  }
};

// Asks for each answer at the token before it. Training asks for every token instead.
RecallSample next_tokens(const Tokens& tokens, bool training) {
  RecallSample sample{.ids = tokens.ids, .targets = {}, .distances = {}};
  sample.targets.assign(tokens.ids.size(), -1);
  for (size_t i = 0; i + 1 < tokens.ids.size(); ++i) {
    const int64_t place = tokens.places[i + 1];
    if (!training && place < 0) continue;
    sample.targets[i] = tokens.ids[i + 1];
    sample.distances.push_back(training ? 0 : int64_t(i) - place);
  }
  return sample;
}

class MadSource : public RecallSource {
 public:
  MadSource(const RecallSpec& spec, int64_t least_vocab) : spec_(spec) {
    if (spec.vocab >= least_vocab && spec.vocab <= kMaxRecallVocab) return;
    fail_usage("vocab is ", spec.vocab, "; ", spec.task, " needs ", least_vocab, " to ",
               kMaxRecallVocab, " tokens.");
  }

  int64_t vocab() const override { return spec_.vocab; }

  RecallSample sample(const RecallCase& size, const std::string& split,
                      int64_t index) const override {
    check(size);
    Random random = recall_random(spec_.seed, split, index);
    return draw(size, split == "train", random);
  }

 protected:
  virtual RecallSample draw(const RecallCase& size, bool training, Random& random) const = 0;

  RecallSpec spec_;
};

// Keys followed by their values, some of them replaced by two tokens of noise.
class InContextRecall : public MadSource {
 public:
  InContextRecall(const RecallSpec& spec, bool noisy)
      : MadSource(spec, noisy ? kNoiseVocab + 2 : 2),
        symbols_(spec.vocab - (noisy ? kNoiseVocab : 0)),
        noise_(noisy ? spec.noise : 0) {
    if (!(noise_ >= 0 && noise_ < 1)) {
      fail_usage("noise is ", noise_, "; it must be at least 0 and below 1.");
    }
  }

  void check(const RecallCase& size) const override {
    check_recall_length(size, 4, "a pair with a query");
    check_even_length(size, spec_.task);
  }

 private:
  static constexpr int64_t kNoiseVocab = 16;  // the last ids

  RecallSample draw(const RecallCase& size, bool training, Random& random) const override {
    const int64_t pairs = size.length / 2, keys = symbols_ / 2;
    struct Known {
      int32_t value = 0;
      int64_t place = -1;
    };
    std::map<int32_t, Known> known;
    std::vector<int32_t> in_order;                 // known keys
    const int64_t kept = random.below(pairs - 1);  // is never noise
    Tokens tokens;
    for (int64_t i = 0; i < pairs; ++i) {
      const bool last = i + 1 == pairs;
      if (!last && i != kept && noise_ > 0 && random.uniform() < noise_) {
        for (int j = 0; j < 2; ++j) {
          tokens.add(int32_t(symbols_ + random.below(kNoiseVocab)));
        }
        continue;
      }
      const int32_t key =
          last ? in_order[size_t(random.below(std::ssize(in_order)))] : int32_t(random.below(keys));
      Known& found = known[key];
      if (found.place < 0) {
        found.value = int32_t(keys + random.below(symbols_ - keys));
        in_order.push_back(key);
      }
      tokens.add(key);
      tokens.add(found.value, found.place);
      found.place = std::ssize(tokens.ids) - 1;
    }
    return next_tokens(tokens, training);
  }

  int64_t symbols_;
  double noise_;
};

// Keys and values of one to three tokens. Scores ask for keys of three tokens.
class FuzzyRecall : public MadSource {
 public:
  explicit FuzzyRecall(const RecallSpec& spec) : MadSource(spec, 2 * kMost + 2) {}

  void check(const RecallCase& size) const override {
    check_recall_length(size, 8 * kMost, "a key and a value of three tokens, twice,");
  }

 private:
  static constexpr int64_t kMost = 3;  // tokens of a key or a value
  using Motif = std::vector<int32_t>;

  // `count` different ones of first ... first + n - 1.
  static Motif draw_motif(int64_t count, int64_t first, int64_t n, Random& random) {
    Motif motif;
    while (std::ssize(motif) < count) {
      const auto id = int32_t(first + random.below(n));
      if (std::find(motif.begin(), motif.end(), id) == motif.end()) motif.push_back(id);
    }
    return motif;
  }

  RecallSample draw(const RecallCase& size, bool training, Random& random) const override {
    const int64_t symbols = spec_.vocab - 1, keys = symbols / 2;
    const auto padding = int32_t(symbols);
    const auto draw_key = [&] {
      return draw_motif(training ? 1 + random.below(kMost) : kMost, 0, keys, random);
    };
    const auto draw_value = [&] {
      return draw_motif(1 + random.below(kMost), keys, symbols - keys, random);
    };
    struct Known {
      Motif value;
      int64_t place = -1;
    };
    std::map<Motif, Known> known;
    Tokens tokens;
    const auto add_pair = [&](const Motif& key) {
      Known& found = known[key];
      for (const int32_t id : key) tokens.add(id);
      const int64_t begin = std::ssize(tokens.ids);
      for (int64_t i = 0; i < std::ssize(found.value); ++i) {
        tokens.add(found.value[size_t(i)], found.place < 0 ? -1 : found.place + i);
      }
      found.place = begin;
    };
    // The pair that is asked for at the end stands before, at a random place at the latest.
    const Motif asked = draw_key();
    known[asked].value = draw_value();
    const int64_t own = std::ssize(asked) + std::ssize(known[asked].value);
    const int64_t room = size.length - own - 2 * kMost,
                  asked_after = random.below(room - 2 * kMost + 1);
    while (std::ssize(tokens.ids) < room) {
      const bool here = known[asked].place < 0 && std::ssize(tokens.ids) >= asked_after;
      const Motif key = here ? asked : draw_key();
      if (known[key].value.empty()) known[key].value = draw_value();
      add_pair(key);
    }
    add_pair(asked);
    RecallSample sample = next_tokens(tokens, training);
    const auto missing = size_t(size.length) - sample.ids.size();
    sample.ids.insert(sample.ids.begin(), missing, padding);
    sample.targets.insert(sample.targets.begin(), missing, -1);
    return sample;
  }
};

// Symbols among blanks, to be repeated in their order after a sign.
class SelectiveCopying : public MadSource {
 public:
  explicit SelectiveCopying(const RecallSpec& spec) : MadSource(spec, 3) {}

  void check(const RecallCase& size) const override {
    if (size.pairs < 1) fail_usage("There must be at least 1 symbol, not ", size.pairs, ".");
    check_recall_length(size, 2 * size.pairs + 1, cat("copying ", size.pairs, " symbols"));
  }

 private:
  RecallSample draw(const RecallCase& size, bool, Random& random) const override {
    const int64_t count = size.pairs, sign = size.length - count - 1;
    const auto blank = int32_t(spec_.vocab - 2);
    std::vector<int64_t> before(size_t(count), 0);  // blanks before each symbol
    for (int64_t i = count; i < sign; ++i) ++before[size_t(random.below(count))];
    RecallSample sample;
    sample.ids.assign(size_t(size.length), blank);
    sample.targets.assign(size_t(size.length), -1);
    sample.ids[size_t(sign)] = int32_t(spec_.vocab - 1);
    int64_t at = -1;
    for (int64_t i = 0; i < count; ++i) {
      at += before[size_t(i)] + 1;
      const auto symbol = int32_t(random.below(spec_.vocab - 2));
      sample.ids[size_t(at)] = sample.targets[size_t(sign + 1 + i)] = symbol;
      sample.distances.push_back(sign + 1 + i - at);
    }
    return sample;
  }
};

// Keys that have the same values in every sample. No value can be read: a sign stands in its place.
class Memorization : public MadSource {
 public:
  explicit Memorization(const RecallSpec& spec) : MadSource(spec, 3), symbols_(spec.vocab - 1) {
    Random random(/*seed=*/12345, 0, 0);
    const int64_t keys = symbols_ / 2;
    values_ = draw_distinct(keys, int32_t(keys), symbols_ - keys, random);
  }

  void check(const RecallCase& size) const override {
    check_recall_length(size, 2, "a key with its sign");
    check_even_length(size, spec_.task);
  }

 private:
  RecallSample draw(const RecallCase& size, bool, Random& random) const override {
    RecallSample sample;
    for (int64_t i = 0; i < size.length; i += 2) {
      const int64_t key = random.below(std::ssize(values_));
      sample.ids.insert(sample.ids.end(), {int32_t(key), int32_t(symbols_)});
      sample.targets.insert(sample.targets.end(), {-1, values_[size_t(key)]});
      sample.distances.push_back(0);
    }
    return sample;
  }

  int64_t symbols_;
  std::vector<int32_t> values_;
};

// Random tokens and a sign, to be restored from what is known at the sign.
class Compression : public MadSource {
 public:
  explicit Compression(const RecallSpec& spec) : MadSource(spec, 3) {}

  bool restores() const override { return true; }

  void check(const RecallCase& size) const override {
    check_recall_length(size, 2, "a token with the sign");
  }

 private:
  RecallSample draw(const RecallCase& size, bool, Random& random) const override {
    RecallSample sample;
    for (int64_t i = 0; i < size.length; ++i) {
      const bool sign = i + 1 == size.length;
      sample.ids.push_back(int32_t(sign ? spec_.vocab - 1 : random.below(spec_.vocab - 1)));
      sample.distances.push_back(size.length - 1 - i);
    }
    sample.targets = sample.ids;
    return sample;
  }
};

}  // namespace

std::unique_ptr<RecallSource> make_mad_source(const RecallSpec& spec) {
  if (spec.task == "fuzzy-in-context-recall") return std::make_unique<FuzzyRecall>(spec);
  if (spec.task == "selective-copying") return std::make_unique<SelectiveCopying>(spec);
  if (spec.task == "memorization") return std::make_unique<Memorization>(spec);
  if (spec.task == "compression") return std::make_unique<Compression>(spec);
  return std::make_unique<InContextRecall>(spec, spec.task == "noisy-in-context-recall");
}

}  // namespace tost
