// tost generate: writes text by a language model, streamed to stdout.
#include <algorithm>
#include <cerrno>
#include <iostream>
#include <iterator>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/machine.h"
#include "tost/base/path.h"
#include "tost/base/posix.h"
#include "tost/base/text.h"
#include "tost/base/utf8.h"
#include "tost/cli/model_commands.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"
#include "tost/engine/session_file.h"
#include "tost/io/parse_json.h"

namespace tost {
namespace {

constexpr int64_t kMaxPromptBytes = int64_t{1} << 32;

struct GenerateFlags {
  RunOptions run;
  ModelChoice model;
  std::string prompt, prompt_file, prompts_file;
  bool has_prompt = false;
  int64_t samples = 1;
  std::string session;
  bool stats = false;
  bool past_block_given = false;
  GenerateConfig generate;
};

std::string read_prompt_file(const std::string& path) {
  if (path != "-") return read_file(path, kMaxPromptBytes);
  return std::string(std::istreambuf_iterator<char>(std::cin), {});
}

// A prompt and how messages name it.
struct NamedPrompt {
  std::string text, where;
};

std::vector<NamedPrompt> read_prompts(const GenerateFlags& o, bool may_be_empty) {
  if (!o.prompts_file.empty()) {
    std::vector<NamedPrompt> prompts;
    const std::string text = read_prompt_file(o.prompts_file);
    for (const std::string_view line : lines_of(text)) {
      if (line.empty()) continue;
      prompts.push_back(
          {std::string(line), cat("Prompt ", prompts.size() + 1, " of '", o.prompts_file, "'")});
    }
    if (prompts.empty()) {
      fail_data("'", o.prompts_file, "' holds no prompt; one a line is expected.");
    }
    return prompts;
  }
  if (!o.prompt_file.empty()) {
    std::string text = read_prompt_file(o.prompt_file);
    if (text.empty() && !may_be_empty) {
      fail_data("'", o.prompt_file, "' is empty; a prompt of at least one character is expected.");
    }
    return {{std::move(text), cat("'", o.prompt_file, "'")}};
  }
  if (!o.has_prompt && may_be_empty) return {{"", "The prompt"}};  // a session needs no prompt
  return {{o.prompt, "The prompt"}};
}

void check_options(const GenerateFlags& o) {
  constexpr int64_t kMaxSamples = 100'000;
  const int prompt_flags =
      int(o.has_prompt) + int(!o.prompt_file.empty()) + int(!o.prompts_file.empty());
  if (prompt_flags > 1)
    fail_usage("--prompt, --prompt-file and --prompts exclude each other; give one.");
  if (o.samples < 1 || o.samples > kMaxSamples) {
    fail_usage("--samples is ", o.samples, "; it must be from 1 to ", kMaxSamples, ".");
  }
  if (o.session.empty()) return;
  if (o.samples != 1 || !o.prompts_file.empty()) {
    fail_usage("--session continues one text; leave out --samples and --prompts.");
  }
  // Checks the output file before the text is written.
  const auto folder = absolute_path(o.session).parent_path();
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    fail_data("The session '", o.session, "' cannot be written: ", system_reason(errno), ".");
  }
}

std::vector<int64_t> encode(const NamedPrompt& prompt, const Tokenizer& tokenizer,
                            bool may_be_empty) {
  const auto where = cat(prompt.where, " cannot be read");
  const auto ids = tokenizer.encode(prompt.text, where);
  if (ids.empty() && !may_be_empty) {
    fail_usage(where, ": it is empty; give at least one character.");
  }
  return {ids.begin(), ids.end()};
}

nlohmann::json to_json(const GenerateStats& s) {
  const auto rate = [](double count, double seconds) {
    return seconds > 0 ? nlohmann::json(count / seconds) : nlohmann::json();
  };
  auto json = TOST_MEMBERS(s, prompt_tokens, new_tokens, prefill_s, decode_s, state_bytes);
  json.update({{"prefill_tokens_per_s", rate(double(s.prompt_tokens), s.prefill_s)},
               {"decode_ms_per_token", rate(1e3 * s.decode_s, double(s.decode_steps))},
               {"resident_bytes", resident_bytes()},
               {"peak_resident_bytes", peak_resident_bytes()}});
  return json;
}

void print_stats(const GenerateStats& s) {
  std::fprintf(stderr, "prefill  %s tokens in %.2f s, %.0f a second\n",
               human_number(s.prompt_tokens).c_str(), s.prefill_s,
               s.prefill_s > 0 ? double(s.prompt_tokens) / s.prefill_s : 0.0);
  if (s.decode_steps > 0) {
    std::fprintf(stderr, "decode   %s tokens in %.2f s, %.1f a second, %.2f ms a token\n",
                 human_number(s.new_tokens).c_str(), s.decode_s, double(s.new_tokens) / s.decode_s,
                 1e3 * s.decode_s / double(s.decode_steps));
  }
  std::fprintf(stderr, "memory   %s of state, %s resident, %s at most\n",
               human_bytes(s.state_bytes).c_str(), human_bytes(resident_bytes()).c_str(),
               human_bytes(peak_resident_bytes()).c_str());
}

void print_texts(const std::vector<NamedPrompt>& prompts, const GenerateResult& result) {
  for (size_t i = 0; i < result.texts.size(); ++i) {
    if (result.texts.size() > 1) std::cout << "--- " << i + 1 << ": " << prompts[i].text << "\n";
    std::cout << result.texts[i].text << "\n";
  }
}

nlohmann::json to_json(const GenerateFlags& o, const std::string& file,
                       const std::vector<NamedPrompt>& prompts, const GenerateResult& result) {
  nlohmann::json texts = nlohmann::json::array();
  for (size_t i = 0; i < result.texts.size(); ++i) {
    const auto& t = result.texts[i];
    texts.push_back(
        {{"prompt", prompts[i].text}, {"text", t.text}, {"ids", t.ids}, {"ended", t.ended}});
  }
  return {{"checkpoint", file},
          {"seed", o.generate.seed},
          {"texts", texts},
          {"stats", to_json(result.stats)}};
}

void print(const GenerateFlags& o, const std::string& file, const std::vector<NamedPrompt>& prompts,
           const GenerateResult& result, bool streamed) {
  if (o.run.json) {
    print_json(to_json(o, file, prompts, result));
  } else if (streamed) {
    std::cout << "\n";
  } else {
    print_texts(prompts, result);
  }
  std::cout.flush();  // before messages on stderr, which may be the same terminal
  if (o.stats && !o.run.json) print_stats(result.stats);
}

// Warns, before the text begins, about parts that will be lost.
void note_past_block(const TextModel& model, const GenerateFlags& o,
                     const std::vector<std::vector<int64_t>>& prompts, const TextSession& session) {
  if (o.past_block_given || model.config().positions != "learned") return;
  const int64_t before = session.state.position + std::ssize(session.pending);
  const bool past = std::ranges::any_of(prompts, [&](const auto& prompt) {
    return before + std::ssize(prompt) + o.generate.max_tokens - 1 > max_context(model.config());
  });
  if (!past) return;
  std::cerr << "note: the model has learned positions for " << max_context(model.config())
            << " tokens; past them it reads the last half again and continues from there "
               "(--past-block stop refuses such a text)\n";
}

void run_generate(GenerateFlags& o, OpenText open) {
  set_threads(o.run.threads);
  check_generate(o.generate);
  check_options(o);
  o.model.device = o.run.device;
  const OpenedText loaded = open(o.model);
  needed_tokenizer(loaded.info, "it cannot write text");
  TextSession session;
  const bool resumed = !o.session.empty() && path_exists(o.session);
  if (resumed) session = load_session(o.session, *loaded.model);
  const bool pending = !session.pending.empty();
  std::vector<NamedPrompt> prompts;
  std::vector<std::vector<int64_t>> ids;
  for (const auto& prompt : read_prompts(o, pending)) {
    prompts.insert(prompts.end(), size_t(o.samples), prompt);
    ids.insert(ids.end(), size_t(o.samples), encode(prompt, *loaded.info.tokenizer, pending));
  }
  note_past_block(*loaded.model, o, ids, session);
  const bool stream = !o.run.json && prompts.size() == 1;
  const OnText on_text = [](int64_t, const std::string& piece) {
    std::cout << piece << std::flush;
    return bool(std::cout);  // false once the reader has left
  };
  const auto result =
      generate(*loaded.model, *loaded.info.tokenizer, std::move(ids), o.generate,
               o.session.empty() ? nullptr : &session, stream ? on_text : OnText(), stop_flag());
  if (!o.session.empty()) save_session(o.session, session, *loaded.model);
  print(o, loaded.file, prompts, result, stream);
  if (stop_flag()->load()) set_exit_code(kExitInterrupted);
}

void add_text_options(CLI::App& command, GenerateFlags& o) {
  command.add_option("--prompt", o.prompt, "Text to continue")
      ->each([&o](const std::string&) { o.has_prompt = true; })
      ->default_str("a line break");
  command.add_option("--prompt-file", o.prompt_file, "File to continue; - is stdin");
  command.add_option("--prompts", o.prompts_file, "File of prompts, one a line; - is stdin");
  add_value(command, "--samples", o.samples, "Texts for each prompt");
  add_value(command, "--max-tokens", o.generate.max_tokens, "New tokens a text");
  command.add_option("--stop", o.generate.stop, "End a text before this string; may be repeated")
      ->take_all()
      ->expected(1);
  command.add_flag("--ignore-end", o.generate.ignore_end, "Continue past an end-of-text token");
  command.add_option("--session", o.session,
                     "File that keeps the state: continues where it stopped (after --prompt, if "
                     "given), saves when "
                     "done");
  o.generate.past_block = "slide";
  add_value(command, "--past-block", o.generate.past_block,
            "With learned positions, past their number: slide (read the last half again), or stop")
      ->each([&o](const std::string&) { o.past_block_given = true; });
}

void add_sampling_options(CLI::App& command, GenerateFlags& o) {
  auto& s = o.generate.sampling;
  add_value(command, "--temperature", s.temperature, "0: the most likely token");
  add_value(command, "--top-k", s.top_k, "Draw from the k most likely tokens; 0: all");
  add_value(command, "--top-p", s.top_p, "Draw from the fewest tokens whose probability reaches p");
  add_value(command, "--min-p", s.min_p,
            "Leave out tokens less likely than this share of the most likely one");
  add_value(command, "--repetition-penalty", s.repetition_penalty,
            "Above 1 makes tokens that came before less likely");
  add_value(command, "--seed", o.generate.seed, "Of the drawing");
}

}  // namespace

void add_generate_command(CLI::App& app, OpenText open) {
  CLI::App* command = app.add_subcommand("generate", "Write text with a trained language model");
  auto options = std::make_shared<GenerateFlags>();
  options->prompt = "\n";
  add_model_argument(*command, "checkpoint", options->model.path);
  add_text_options(*command, *options);
  add_sampling_options(*command, *options);
  command->add_option(
      "--precision", options->model.precision,
      "Of the weights: " + list_of(all_precisions(), " or ") + " (default: the file's)");
  add_tokenizer_option(*command, options->model.tokenizer);
  command->add_flag("--ema", options->model.ema, "Use the averaged weights");
  command->add_flag("--stats", options->stats, "Speed and memory on stderr");
  add_device_option(*command, options->run);
  add_run_options(*command, options->run);
  add_example(*command, "  tost generate run --prompt \"ROMEO:\" --temperature 0.8 --top-k 40");
  command->callback([options, open] { run_generate(*options, open); });
}

}  // namespace tost
