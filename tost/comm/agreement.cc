// Exchanges texts and errors between processes.
#include <algorithm>

#include "tost/comm/group.h"

namespace tost {
namespace {

using torch::Tensor;

Tensor bytes_of(const std::string& text, int64_t room) {
  Tensor bytes = torch::zeros({room}, torch::kByte);
  std::ranges::copy(text, bytes.data_ptr<uint8_t>());
  return bytes;
}

std::string text_of(const Tensor& bytes, int64_t size) {
  return {reinterpret_cast<const char*>(bytes.const_data_ptr<uint8_t>()), size_t(size)};
}

// Runs `work`; returns "" on success, else the kind of the error and its message.
std::string failure_of(const std::function<void()>& work) {
  try {
    work();
    return "";
  } catch (const Error& error) {
    return (error.kind() == ErrorKind::kUsage ? "u" : "d") + std::string(error.what());
  } catch (const c10::Error& error) {
    return "d" + std::string(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return "d" + std::string(error.what());
  }
}

[[noreturn]] void throw_failure(const std::string& failure, int64_t of, int64_t rank) {
  const ErrorKind kind = failure.front() == 'u' ? ErrorKind::kUsage : ErrorKind::kData;
  const std::string message =
      of == 0 ? failure.substr(1) : cat("Rank ", of, ": ", failure.substr(1));
  if (rank == 0) throw Error(kind, message);
  throw ReportedElsewhere(kind, message);
}

}  // namespace

std::string Group::broadcast_text(const std::string& text) {
  Tensor size = torch::full({1}, int64_t(text.size()), torch::kLong);
  broadcast(size);
  const auto count = size.item<int64_t>();
  Tensor bytes = first() ? bytes_of(text, count) : torch::zeros({count}, torch::kByte);
  if (count > 0) broadcast(bytes);
  return text_of(bytes, count);
}

std::vector<std::string> Group::gather_texts(const std::string& text) {
  const Tensor sizes = gather(torch::full({1}, int64_t(text.size()), torch::kLong));
  const auto room = std::max<int64_t>(1, sizes.max().item<int64_t>());
  const Tensor all = gather(bytes_of(text, room));
  std::vector<std::string> texts;
  for (int64_t i = 0; i < world(); ++i) {
    texts.push_back(text_of(all[i], sizes[i].item<int64_t>()));
  }
  return texts;
}

bool Group::any(bool flag) {
  Tensor count = torch::full({1}, flag ? 1.0 : 0.0, torch::kDouble);
  sum(count);
  return count.item<double>() > 0;
}

void Group::together(const std::function<void()>& work) {
  const std::vector<std::string> failures = gather_texts(failure_of(work));
  for (int64_t of = 0; of < world(); ++of) {
    if (!failures[size_t(of)].empty()) throw_failure(failures[size_t(of)], of, rank());
  }
}

std::string Group::by_first(const std::function<std::string()>& work) {
  std::string result;
  const std::string failure = first() ? failure_of([&] { result = work(); }) : "";
  // The sent text contains a mark of success or failure, and then the result.
  const std::string sent = broadcast_text(failure.empty() ? "+" + result : failure);
  if (sent.front() != '+') throw_failure(sent, 0, rank());
  return sent.substr(1);
}

}  // namespace tost
