#include "tost/train/trainer.h"

#include <cmath>
#include <limits>
#include <utility>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/engine/run_layout.h"
#include "tost/nn/block.h"
#include "tost/nn/module_device.h"
#include "tost/nn/precision.h"
#include "tost/nn/state_dict.h"
#include "tost/nn/token_sums_scope.h"
#include "tost/train/run_folder.h"

namespace tost {
namespace {

using nlohmann::json;
using torch::Tensor;

ScheduleForm form_of(const std::string& name) {
  if (name == "epoch") return ScheduleForm::kEpoch;
  return name == "rsqrt" ? ScheduleForm::kRsqrt : ScheduleForm::kStep;
}

// Makes working copies only on the CPU, because autocast makes them on a GPU. Gradients of several
// batches or processes are added up in float32. With a group, the next forward pass makes the
// copies, so that shards change no bit.
AdamW::Copies working_copies(const LoopConfig& config, torch::nn::Module& model,
                             const Group* group) {
  if (config.precision != Precision::kBf16 || !device_of(model).is_cpu()) return {};
  AdamW::Copies copies =
      keep_working_copies(model, /*separate_gradients=*/config.accumulate == 1 && group == nullptr);
  return group == nullptr ? copies : AdamW::Copies{};
}

std::unique_ptr<OptimizerShards> shard(const LoopConfig& config, TrainTask& task,
                                       SharedStep* shared) {
  if (shared == nullptr || !config.shard_optimizer) return nullptr;
  return std::make_unique<OptimizerShards>(shared->group(), shared->buckets(), task.param_groups());
}

}  // namespace

int64_t steps_per_epoch(const LoopConfig& config, const TrainTask& task) {
  const int64_t steps = task.batches_per_epoch() / config.accumulate;
  if (steps > 0) return steps;
  fail_usage("An epoch has ", task.batches_per_epoch(), " batches but a step accumulates ",
             config.accumulate, "; lower accumulate or batch.");
}

Schedule make_schedule(const LoopConfig& config, int64_t steps_per_epoch,
                       int64_t samples_per_batch) {
  const int64_t epochs_steps = config.epochs * steps_per_epoch;
  const double step_samples = double(samples_per_batch) * double(config.accumulate);
  const double scale =
      config.lr_reference_batch > 0 ? step_samples / double(config.lr_reference_batch) : 1.0;
  return {.form = form_of(config.schedule),
          .peak = config.lr * scale,
          .floor = config.min_lr,
          .warmup_start = config.warmup_lr,
          .warmup_steps = config.warmup_steps > 0
                              ? config.warmup_steps
                              : std::llround(config.warmup_epochs * double(steps_per_epoch)),
          .total_steps = config.max_steps > 0 ? config.max_steps : epochs_steps,
          .steps_per_epoch = steps_per_epoch,
          .epoch_lag = config.schedule_lag};
}

Trainer::Trainer(const LoopConfig& config, TrainTask& task, std::filesystem::path run,
                 TrainListener& listener, const std::atomic<bool>* stop, Group* group)
    : config_(config),
      task_(task),
      run_(std::move(run)),
      listener_(listener),
      stop_(stop),
      group_(group),
      device_(device_of(task.model())),
      steps_per_epoch_(steps_per_epoch(config, task)),
      schedule_(make_schedule(config, steps_per_epoch_, task.samples_per_batch())),
      shared_(share_steps(config, task, group)),
      shards_(shard(config, task, shared_.get())),
      optimizer_(shards_ ? shards_->groups() : task.param_groups(),
                 {config.beta1, config.beta2, config.eps, config.momentum},
                 working_copies(config, task.model(), group)) {
  if (first()) {
    store_.emplace(run_ / kCheckpointFolder, config.keep_last);
    saver_.emplace(*store_, retry_pauses(config.save_retries));
  }
  set_recompute(task.model(), recompute_from_name(config.recompute));
  if (config.ema_decay > 0) ema_ = std::make_unique<Ema>(averaged_values(), config.ema_decay);
  if (shared_) draw_noise_by_batch();
  const int64_t leftovers = store_ ? store_->clean() : 0;
  if (leftovers > 0)
    listener_.on_message(cat("Cleared ", leftovers, " unfinished checkpoint",
                             leftovers == 1 ? "" : "s", " of a killed process."));
}

bool Trainer::resume() {
  const bool noise_by_batch = state_.noise_by_batch;
  if (!restore_newest(std::numeric_limits<int64_t>::max())) return false;
  state_.noise_by_batch = state_.noise_by_batch || noise_by_batch;
  if (state_.step > total_steps()) {
    fail_usage("The run has done ", state_.step, " steps, more than the ", total_steps(),
               " it is now to do in all.");
  }
  return true;
}

TrainResult Trainer::train() {
  const auto start = std::chrono::steady_clock::now();
  if (shared_) send_state();
  open_log();
  task_.model().train();
  report_start();
  if (shared_) stop_agreed_ = group_->any(stop_ && stop_->load());
  if (bound_due() && state_.step == 0) measure_bound();  // the first point of the curves
  bool interrupted = false;
  while (true) {
    const bool stop = stopped();
    // Ensures that weights that are scored or saved are finite.
    if ((stop || evaluation_due() || checkpoint_due()) && !state_is_finite()) continue;
    if (evaluation_due() && !evaluate()) interrupted = true;
    if (checkpoint_due()) {
      state_.guards.rollback_step = state_.step;
      save();
    }
    if (interrupted || state_.step == total_steps()) break;
    if (stop) {
      interrupted = true;
      break;
    }
    step();
  }
  if (unsaved_) save();
  const auto finish = [this] {
    wait_for_saves();
    log_->flush();
  };
  shared_ ? group_->together(finish) : finish();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return {.step = state_.step,
          .total_steps = total_steps(),
          .interrupted = interrupted,
          .last_eval = last_eval_,
          .metric = task_.best_metric().key,
          .best = state_.best,
          .seconds = seconds.count(),
          .events = {.skipped_steps = state_.guards.skipped,
                     .rollbacks = state_.guards.rollbacks,
                     .data_waits = data_waits_}};
}

void Trainer::open_log() {
  log_.reset();  // the file is opened again here
  if (!first()) {
    log_ = std::make_unique<RunLog>();
    return;
  }
  log_ = std::make_unique<RunLog>(run_, state_.step, state_.guards.rollbacks, task_.unit());
}

double Trainer::rate() const {
  return learning_rate(schedule_, state_.step) * state_.guards.lr_factor;
}

void Trainer::report_start() {
  listener_.on_start(
      {state_.step, total_steps(), steps_per_epoch_, parameter_count(task_.model()), task_.unit()});
  if (shards_) report_shards();
  pass_messages();
}

void Trainer::step() {
  const double lr = rate();
  const int64_t samples_before = state_.sums.samples;
  if (config_.outlier_z > 0 || config_.data_timeout > 0) start_.emplace(task_.model());
  StepSums sums;
  std::optional<BadStep> bad = accumulate_gradients(sums);
  double norm = 0;
  if (!bad) {
    norm = shared_ ? shared_->buckets().norm() : optimizer_.gradient_norm();
    bad = find_outlier("gradient norm", norm, state_.guards.norms, config_.outlier_z);
  }
  if (bad && !skip_step(*bad, lr)) return;
  if (!bad) update(lr, norm, sums);
  ++state_.step;
  unsaved_ = true;
  timer_.step(state_.sums.samples - samples_before, task_.wait_seconds());
  report_step(lr);
  if (config_.sample_every_steps > 0 && state_.step % config_.sample_every_steps == 0) sample();
  if (bound_due()) measure_bound();
  pass_messages();
}

// Divides the loss by `accumulate`, so that equal batches give the gradient of one large batch.
std::optional<BadStep> Trainer::accumulate_gradients(StepSums& sums) {
  shared_ ? shared_->begin() : optimizer_.zero_grad();
  bool begins = !in_epoch_ || data_step() % steps_per_epoch_ == 0;
  for (int64_t i = 0; i < config_.accumulate && std::isfinite(sums.loss); ++i) {
    if (shared_ && !shared_->share().is_local(i)) continue;
    load_batch(std::exchange(begins, false));
    if (state_.noise_by_batch) seed_noise(i);
    if (shared_) shared_->before_batch(i);
    const Batch batch = add_batch();
    if (shared_) shared_->after_batch(i);
    sums.loss += batch.loss * batch.weight / double(config_.accumulate);
    sums.samples += batch.samples;
    sums.correct = sums.correct < 0 || batch.correct < 0 ? -1 : sums.correct + batch.correct;
    // Skips the other batches of the step, too.
    if (!std::isfinite(sums.loss) && i + 1 < config_.accumulate) in_epoch_ = false;
  }
  if (shared_) add_up(sums);
  if (!std::isfinite(sums.loss)) return BadStep{"loss", sums.loss, std::nullopt};
  return find_outlier("loss", sums.loss, state_.guards.losses, config_.outlier_z);
}

// Does not differentiate a loss that is not finite.
Trainer::Batch Trainer::add_batch() {
  MicroBatch batch;
  const TokenSumsScope sums(shared_ ? shared_->token_sums() : nullptr);
  {
    const PrecisionScope precision(config_.precision, device_);
    const BatchNormScope batch_norms(shared_ ? shared_->batch_norm_group() : nullptr);
    batch = task_.next_batch();
  }
  double loss = batch.loss.item<double>();
  if (shared_) loss = shared_->agreed(loss);
  if (std::isfinite(loss)) (batch.loss / (double(config_.accumulate) / batch.weight)).backward();
  return {.loss = loss, .samples = batch.samples, .correct = batch.correct, .weight = batch.weight};
}

void Trainer::update(double lr, double norm, const StepSums& sums) {
  const double scale = config_.clip > 0 ? clip_scale(norm, config_.clip) : 1;
  if (shards_) shards_->begin_update();
  optimizer_.step(lr, scale);
  if (shards_) shards_->end_update();
  if (ema_) ema_->update(averaged_values());
  if (config_.outlier_z > 0) state_.guards.accept(sums.loss, norm);
  state_.sums.add(sums.loss, sums.samples, sums.correct);
}

void Trainer::report_step(double lr) {
  if (state_.sums.steps == 0) return;  // all skipped
  StepReport report{.step = state_.step,
                    .total_steps = total_steps(),
                    .epoch = (state_.step - 1) / steps_per_epoch_,
                    .loss = state_.sums.mean_loss(),
                    .accuracy = state_.sums.accuracy(),
                    .lr = lr,
                    .samples_per_s = timer_.samples_per_s(),
                    .wait_share = timer_.wait_share(),
                    .eta_s = timer_.seconds_per_step() * double(total_steps() - state_.step)};
  listener_.on_step(report);
  if (state_.step % config_.log_every != 0 && state_.step != total_steps()) return;
  if (shared_) report.peers = shared_->take_report();
  log_->add_step(report);
  warn_of_waiting(report.wait_share);
  state_.sums = {};
}

// Once a run. Warns only after several lines in a row, because the first batches are always slow.
void Trainer::warn_of_waiting(double wait_share) {
  constexpr double kHigh = 0.2;
  constexpr int64_t kLines = 4;
  if (waiting_lines_ >= kLines) return;
  waiting_lines_ = wait_share > kHigh ? waiting_lines_ + 1 : 0;
  if (waiting_lines_ < kLines) return;
  listener_.on_message(cat("Data is the bottleneck: ", std::llround(100 * wait_share),
                           " % of the time goes into waiting for batches; raise workers, or move "
                           "the data to a faster disk."));
}

bool Trainer::evaluation_due() const {
  if (state_.step <= state_.evaluated_step) return false;
  if (state_.step == total_steps()) return true;
  if (config_.evaluate_every_steps > 0) return state_.step % config_.evaluate_every_steps == 0;
  return state_.step % steps_per_epoch_ == 0 && epoch() % config_.evaluate_every == 0;
}

bool Trainer::evaluate() {
  std::optional<json> metrics =
      scored(evaluated_weights(), [this] { return task_.evaluate(stop_); });
  if (!metrics) return false;
  const BestMetric rule = task_.best_metric();
  const double value = metrics->at(rule.key).get<double>();
  const bool better = std::isfinite(value) &&
                      (!state_.best || (rule.higher_is_better ? value > state_.best->value
                                                              : value < state_.best->value));
  if (better) state_.best = BestSoFar{value, state_.step};
  best_is_new_ = better;
  (*metrics)["step"] = state_.step;
  (*metrics)["epoch"] = (state_.step - 1) / steps_per_epoch_ + 1;
  (*metrics)["best"] = better;
  state_.evaluated_step = state_.step;
  unsaved_ = true;
  log_->add_eval(*metrics);
  listener_.on_eval(*metrics, better);
  last_eval_ = *metrics;
  timer_.restart(task_.wait_seconds());
  return true;
}

bool Trainer::checkpoint_due() const {
  if (!unsaved_) return false;
  if (best_is_new_ || state_.step == total_steps()) return true;
  if (config_.checkpoint_every_steps > 0 && state_.step % config_.checkpoint_every_steps == 0)
    return true;
  return config_.checkpoint_every > 0 && state_.step % steps_per_epoch_ == 0 &&
         epoch() % config_.checkpoint_every == 0;
}

// Shares the run's memory.
Checkpoint Trainer::checkpoint() const {
  return make_checkpoint(state_, task_.model(), task_.model_metadata(), optimizer_.state(),
                         ema_ ? &ema_->average() : nullptr);
}

// Flushes the log first, because lines of earlier steps must be durable before the later state.
void Trainer::write_checkpoint(bool in_background) {
  log_->flush();
  if (!saves_) {
  } else if (shards_) {
    save_shards();
  } else if (first()) {
    Checkpoint saved = checkpoint();
    saved.keep_step = rollback_checkpoint();
    in_background ? saver_->save(saved, best_is_new_) : saver_->save_now(saved, best_is_new_);
  }
  unsaved_ = best_is_new_ = false;
}

void Trainer::save() {
  write_checkpoint(config_.background_saves);
  timer_.restart(task_.wait_seconds());
}

void Trainer::wait_for_saves() {
  if (saver_) saver_->wait();
  pass_messages();
}

void Trainer::finish_saves() {
  try {
    wait_for_saves();
  } catch (const Error& error) {
    listener_.on_message(error.what());
  }
}

void Trainer::sample() {
  const StateDict average = evaluated_weights();
  if (!first()) return;
  std::string text;
  {
    const EvaluationWeights weights(task_.model(), average);
    text = task_.sample(state_.step);
  }
  log_->add_sample(state_.step, text);
  listener_.on_sample(state_.step, text);
  timer_.restart(task_.wait_seconds());
}

bool Trainer::bound_due() const {
  return config_.bound_every_steps > 0 && state_.step % config_.bound_every_steps == 0;
}

void Trainer::measure_bound() {
  const StateDict average = evaluated_weights();
  if (!first()) return;
  log_->add_bound(state_.step, *scored(average, [this] { return task_.measure_bound(); }));
  timer_.restart(task_.wait_seconds());
}

void Trainer::pass_messages() {
  const BackgroundSaver::Report report = saver_ ? saver_->take_report() : BackgroundSaver::Report{};
  if (!report.finished.empty()) remove_replaced_run(run_);
  for (const auto& folder : report.finished) listener_.on_checkpoint(folder);
  for (const std::string& message : report.messages) listener_.on_message(message);
  for (const std::string& message : task_.take_messages()) listener_.on_message(message);
}

}  // namespace tost
