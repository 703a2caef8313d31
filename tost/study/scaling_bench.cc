#include "tost/study/scaling_bench.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "tost/base/error.h"
#include "tost/base/process_memory.h"
#include "tost/base/text.h"
#include "tost/bench/timing.h"
#include "tost/kinds/sequence/classifier.h"
#include "tost/kernels/block_cache.h"
#include "tost/ops/caching_allocator.h"
#include "tost/study/scaling_layer.h"

namespace tost {
namespace {

using torch::Tensor;

constexpr int64_t kLongest = int64_t{1} << 30;

int64_t batch_of(const ScalingOptions& options, int64_t tokens) {
  return std::max<int64_t>(1, options.batch_tokens / tokens);
}

// An estimate of the peak memory of a call in units of its input, a little above measured values.
double first_guess(const std::string& mixer, const std::string& mode) {
  static const std::map<std::string, std::pair<double, double>> known{
      {"tssa", {3.5, 7}},   {"softmax", {7, 16}}, {"xca", {10, 22}},
      {"linear", {12, 26}}, {"ssm", {12, 30}},
  };
  const auto found = known.find(mixer);
  const auto [forward, train] = found == known.end() ? std::pair{12.0, 30.0} : found->second;
  return mode == "train" ? train : forward;
}

double input_bytes(const ScalingOptions& options, int64_t tokens) {
  return double(batch_of(options, tokens)) * double(tokens) * double(options.dim) *
         (options.dtype == "bfloat16" ? 2.0 : 4.0);
}

struct CostPoint {
  int64_t tokens = 0;
  double cost = 0;  // seconds or bytes of one sequence
};

// The cost at `tokens`, extrapolated from the last two points (in rising order) by a power law
// whose exponent is limited to 1 ... 3. With one point the exponent is 1.
double predict_cost(const std::vector<CostPoint>& points, int64_t tokens) {
  const auto& last = points.back();
  double exponent = 1;
  if (points.size() > 1) {
    const auto& before = points[points.size() - 2];
    exponent = std::clamp(
        std::log(last.cost / before.cost) / std::log(double(last.tokens) / double(before.tokens)),
        1.0, 3.0);
  }
  return last.cost * std::pow(double(tokens) / double(last.tokens), exponent);
}

// A mixer in one mode, and its results so far.
struct Track {
  const ScalingLayer* layer = nullptr;
  std::string mode;
  std::vector<CostPoint> seconds, bytes;
  bool stopped = false;

  void run(const Tensor& x) const {
    if (mode == "train") {
      layer->train(x);
    } else {
      layer->forward(x);
    }
  }
};

class ScalingRun {
 public:
  ScalingRun(const ScalingOptions& options, const ScalingWatcher& watcher)
      : options_(options), watcher_(watcher) {}

  ScalingResult run() {
    check_first_lengths();
    for (const auto& name : options_.mixers) {
      layers_.push_back(std::make_unique<ScalingLayer>(name, options_));
      layers_.back()->check_result();
    }
    for (const auto& mode : options_.modes) {
      for (const auto& layer : layers_) tracks_.push_back({layer.get(), mode, {}, {}, false});
    }
    for (const int64_t tokens : options_.tokens) {
      if (!measure(tokens)) break;
    }
    return std::move(result_);
  }

 private:
  double available() const {
    if (options_.max_bytes > 0) return double(options_.max_bytes);
    BlockCache::instance().empty();
    return 0.95 * double(available_bytes());
  }

  void check_first_lengths() const {
    const double room = available();
    for (const auto& mixer : options_.mixers) {
      for (const auto& mode : options_.modes) {
        const int64_t tokens = options_.tokens.front();
        const int64_t bytes = scaling_bytes(options_, mixer, mode, tokens);
        if (double(bytes) <= room) continue;
        fail_data("'", mixer, "' needs about ", human_bytes(bytes), " for its first length of ",
                  tokens, " tokens (", mode, "), and ", human_bytes(int64_t(room)),
                  " are available; choose a shorter first length or a smaller --dim.");
      }
    }
  }

  bool stop_requested() {
    const bool stop = options_.stop != nullptr && options_.stop->load();
    result_.interrupted = result_.interrupted || stop;
    return stop;
  }

  // The reason why `track` must not be run at this length; "" if it may be.
  std::string obstacle(const Track& track, int64_t tokens) const {
    const double batch = double(batch_of(options_, tokens));
    double bytes = double(scaling_bytes(options_, track.layer->mixer(), track.mode, tokens));
    if (!track.bytes.empty() && track.bytes.back().cost > 0) {
      bytes = input_bytes(options_, tokens) + batch * predict_cost(track.bytes, tokens);
    }
    const double room = available();
    if (bytes > room) {
      return cat("would need about ", human_bytes(int64_t(bytes)), ", and ",
                 human_bytes(int64_t(room)), " are available");
    }
    if (track.seconds.empty()) return "";
    const double seconds = batch * predict_cost(track.seconds, tokens);
    if (seconds <= options_.max_seconds) return "";
    return cat("would take about ", human_duration(seconds), " a repetition, more than ",
               human_duration(options_.max_seconds));
  }

  std::vector<Track*> tracks_for(int64_t tokens) {
    std::vector<Track*> going;
    for (auto& track : tracks_) {
      if (track.stopped) continue;
      const std::string reason = obstacle(track, tokens);
      if (reason.empty()) {
        going.push_back(&track);
        continue;
      }
      track.stopped = true;
      result_.stops.push_back({track.layer->mixer(), track.mode, tokens, reason});
      if (watcher_.stop) watcher_.stop(result_.stops.back());
    }
    return going;
  }

  void begin(const Track& track, int64_t tokens) const {
    if (watcher_.begin) watcher_.begin(track.layer->mixer(), track.mode, tokens);
  }

  // The peak bytes of a first call, which also allocates the memory that the timed calls use again.
  int64_t count_bytes(const Track& track, const Tensor& x) const {
    auto& cache = BlockCache::instance();
    cache.reset_peak();
    const int64_t before = cache.stats().in_use_bytes;
    track.run(x);
    return caching_allocator_enabled() ? cache.stats().peak_bytes - before : 0;
  }

  // Measures all mixers at one length; returns false if the user stopped it.
  bool measure(int64_t tokens) {
    const auto going = tracks_for(tokens);
    if (going.empty()) return false;
    const int64_t batch = batch_of(options_, tokens);
    const auto x = layers_.front()->draw_input(batch, tokens);
    std::vector<int64_t> bytes;
    std::vector<std::vector<double>> times(going.size());
    for (const auto* track : going) {
      if (stop_requested()) return false;
      begin(*track, tokens);
      bytes.push_back(count_bytes(*track, x));
    }
    for (int64_t round = 0; round < options_.repeat; ++round) {
      for (size_t i = 0; i < going.size(); ++i) {
        if (stop_requested()) return false;
        begin(*going[i], tokens);
        const auto start = Clock::now();
        going[i]->run(x);
        times[i].push_back(ms_since(start));
      }
    }
    for (size_t i = 0; i < going.size(); ++i) {
      add_point(*going[i], tokens, median(std::move(times[i])), bytes[i]);
    }
    return check_memberships(going, x);
  }

  void add_point(Track& track, int64_t tokens, double ms, int64_t bytes) {
    const int64_t batch = batch_of(options_, tokens);
    track.seconds.push_back({tokens, ms / 1e3 / double(batch)});
    track.bytes.push_back({tokens, double(bytes) / double(batch)});
    result_.points.push_back({track.layer->mixer(), track.mode, tokens, batch, ms, bytes});
    if (watcher_.point) watcher_.point(result_.points.back());
  }

  bool check_memberships(const std::vector<Track*>& going, const Tensor& x) {
    const auto found = std::find_if(going.begin(), going.end(), [](const Track* track) {
      return track->layer->has_membership();
    });
    if (found == going.end()) return true;
    const auto w = (*found)->layer->project(x);
    const auto temp = (*found)->layer->temp();
    const auto add_check = [&](const MembershipCheck& check) {
      result_.memberships.push_back(check);
      if (watcher_.membership) watcher_.membership(check);
    };
    if (stop_requested()) return false;
    add_check(options_.causal ? check_causal_membership(w, temp) : check_membership(w, temp));
    if (stop_requested()) return false;
    if (options_.causal) return true;
    add_check(
        check_membership(w, temp * temp_for_length(x.size(1), options_.dim / options_.heads)));
    return true;
  }

  const ScalingOptions& options_;
  const ScalingWatcher& watcher_;
  std::vector<std::unique_ptr<ScalingLayer>> layers_;
  std::vector<Track> tracks_;
  ScalingResult result_;
};

}  // namespace

std::vector<int64_t> parse_lengths(const std::string& text) {
  std::vector<int64_t> lengths;
  const char *p = text.data(), *const end = p + text.size();
  while (true) {
    int64_t value = 0;
    const auto number = std::from_chars(p, end, value);
    p = number.ptr;
    int64_t unit = 1;
    if (p != end && (*p == 'k' || *p == 'K'))
      unit = 1024, ++p;
    else if (p != end && *p == 'M')
      unit = 1024 * 1024, ++p;
    const bool complete = number.ec == std::errc() && (p == end || *p == ',');
    if (!complete || value < 1 || value > kLongest / unit) {
      fail_usage("--tokens is '", text,
                 "'; write rising lengths up to 1024M, separated by commas, like 128,4k,1M.");
    }
    if (!lengths.empty() && value * unit <= lengths.back()) {
      fail_usage("--tokens has ", value * unit, " after ", lengths.back(),
                 "; write the lengths in rising order.");
    }
    lengths.push_back(value * unit);
    if (p == end) return lengths;
    ++p;
  }
}

std::vector<int64_t> default_lengths() {
  std::vector<int64_t> lengths;
  for (int64_t n = 128; n <= 1 << 20; n *= 2) lengths.push_back(n);
  return lengths;
}

int64_t scaling_bytes(const ScalingOptions& options, const std::string& mixer,
                      const std::string& mode, int64_t tokens) {
  const bool train = mode == "train";
  double weights = 16.0 * double(options.dim) * double(options.dim) * (train ? 3.0 : 1.0);
  double call = 1 + first_guess(mixer, mode);
  if (!options.network.empty()) {
    // A block also has an MLP four times as wide, and training keeps the results of every block.
    const double blocks = double(sequence_preset(options.network).depth);
    weights *= 3 * blocks;
    call = (call + (train ? 20 : 10)) * (train ? blocks : 1);
  }
  const double total = weights + input_bytes(options, tokens) * call;
  return int64_t(std::min(total, 9e18));
}

ScalingResult run_scaling_bench(const ScalingOptions& requested, const ScalingWatcher& watcher) {
  check_scaling_options(requested);
  auto options = requested;
  if (!requested.network.empty()) {
    const auto preset = sequence_preset(requested.network);
    options.dim = preset.dim, options.heads = preset.heads;
  }
  torch::manual_seed(0);
  return ScalingRun(options, watcher).run();
}

}  // namespace tost
