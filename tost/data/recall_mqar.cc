// Multi-query associative recall.
#include <algorithm>
#include <cmath>
#include <utility>

#include "tost/base/error.h"
#include "tost/data/recall_source.h"

namespace tost {
namespace {

// `count` of the places 0 ... n - 1, drawn one after another without replacement with weight
// (place + 1)^(power - 1): the order in which exponential clocks of these rates ring.
std::vector<int64_t> draw_places(int64_t count, int64_t n, double power, Random& random) {
  std::vector<std::pair<double, int64_t>> rings;
  rings.reserve(size_t(n));
  for (int64_t i = 0; i < n; ++i) {
    const double wait = -std::log(1 - random.uniform());
    rings.emplace_back(wait / std::pow(double(i + 1), power - 1), i);
  }
  std::partial_sort(rings.begin(), rings.begin() + count, rings.end());
  std::vector<int64_t> places;
  for (int64_t i = 0; i < count; ++i) places.push_back(rings[size_t(i)].second);
  return places;
}

class MqarSource : public RecallSource {
 public:
  explicit MqarSource(const RecallSpec& spec) : spec_(spec) {
    if (spec.vocab < 4 || spec.vocab > kMaxRecallVocab) {
      fail_usage("vocab is ", spec.vocab, "; associative recall needs 4 to ", kMaxRecallVocab,
                 " tokens.");
    }
    if (!(spec.power > 0 && spec.power <= 16)) {
      fail_usage("power is ", spec.power, "; it must be above 0 and at most 16.");
    }
  }

  int64_t vocab() const override { return spec_.vocab; }

  void check(const RecallCase& size) const override {
    if (size.pairs < 1) fail_usage("There must be at least 1 pair, not ", size.pairs, ".");
    // Keys are the smaller half of the two: 0 stands for no key.
    const int64_t most = spec_.vocab / 2 - 1;
    if (size.pairs > most) {
      fail_usage("A vocabulary of ", spec_.vocab, " has ", most, " keys and cannot make ",
                 size.pairs, " pairs; raise vocab to at least ", 2 * (size.pairs + 1), ".");
    }
    check_recall_length(
        size, 4 * size.pairs,
        cat(size.pairs, size.pairs == 1 ? " pair" : " pairs", " with a query each"));
    check_even_length(size, "associative recall");
  }

  RecallSample sample(const RecallCase& size, const std::string& split,
                      int64_t index) const override {
    check(size);
    Random random = recall_random(spec_.seed, split, index);
    const int64_t half = spec_.vocab / 2, context = 2 * size.pairs;
    const auto keys = draw_distinct(size.pairs, 1, half - 1, random);
    const auto values = draw_distinct(size.pairs, int32_t(half), spec_.vocab - half, random);
    const auto places = draw_places(size.pairs, (size.length - context) / 2, spec_.power, random);
    RecallSample sample;
    sample.ids.assign(size_t(size.length), 0);
    sample.targets.assign(size_t(size.length), -1);
    std::vector<std::pair<int64_t, int64_t>> distances;  // query, tokens back to its value
    for (size_t i = 0; i < keys.size(); ++i) {
      const int64_t query = context + 2 * places[i];
      sample.ids[2 * i] = sample.ids[size_t(query)] = keys[i];
      sample.ids[2 * i + 1] = sample.targets[size_t(query)] = values[i];
      distances.emplace_back(query, query - int64_t(2 * i + 1));
    }
    std::sort(distances.begin(), distances.end());
    for (const auto& [query, distance] : distances) sample.distances.push_back(distance);
    if (spec_.random_filler) {
      for (int32_t& id : sample.ids) {
        if (id == 0) id = int32_t(random.below(spec_.vocab));
      }
    }
    return sample;
  }

 private:
  RecallSpec spec_;
};

}  // namespace

std::unique_ptr<RecallSource> make_mqar_source(const RecallSpec& spec) {
  return std::make_unique<MqarSource>(spec);
}

}  // namespace tost
