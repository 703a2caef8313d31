// A simulated disk that fails or stops at a selected system call, and then shows the content after
// a power loss.
#pragma once

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "tost/base/file_calls.h"

namespace tost::testing {

// What a power loss does to changes that no fsync has made durable.
enum class PowerLoss {
  kNone,          // everything: only the process died
  kDropUnsynced,  // nothing
  kDropBytes,     // names, and of their files the bytes that were secured
};

// Follows every change below the existing folder `root`, whose content at the start counts as
// durable. The object replaces the system calls of all threads of the process while it exists.
class CrashDisk : public FileCalls {
 public:
  explicit CrashDisk(const std::filesystem::path& root)
      : root_(std::filesystem::canonical(root)), tree_(read(root_)) {
    replace_file_calls(this);
  }
  ~CrashDisk() override { replace_file_calls(nullptr); }
  CrashDisk(const CrashDisk&) = delete;
  CrashDisk& operator=(const CrashDisk&) = delete;

  // Counts calls from 0 again; the k-th and all later calls fail, as in a killed process.
  void stop_at(int64_t k) { arm(k, INT64_MAX, EIO); }
  // Lets `times` calls fail with `error`, beginning with the k-th.
  void fail_at(int64_t k, int error, int64_t times = 1) { arm(k, times, error); }
  void run_on() { arm(INT64_MAX, 0, 0); }
  int64_t calls() const { return calls_; }

  // Restores the folder to its content after a power loss, which then counts as durable.
  void lose_power(PowerLoss loss) {
    run_on();
    open_.clear();
    if (loss == PowerLoss::kDropUnsynced) tree_->forget();
    if (loss != PowerLoss::kNone) {
      for (const auto& entry : std::filesystem::directory_iterator(root_)) {
        std::filesystem::remove_all(entry.path());
      }
      restore(*tree_, root_);
    }
    tree_ = read(root_);
  }

  int open(const Path& path, int flags, mode_t mode) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (fails()) return -1;
    const int fd = FileCalls::open(path, flags, mode);
    const auto [folder, name] = place(path);
    if (fd < 0 || folder == nullptr) return fd;
    auto& node = folder->now[name];
    if (!node) node = std::make_shared<Node>();
    open_[fd] = node;
    return fd;
  }

  // Splits large writes in two, as disks do, so that a stop can occur between the parts.
  ssize_t write(int fd, const void* bytes, size_t count) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (fails()) return -1;
    return FileCalls::write(fd, bytes, count > 1 && calls_ % 2 == 0 ? count / 2 : count);
  }

  // Does not call fsync on the real disk, because the class itself records what is durable.
  int fsync(int fd) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (fails()) return -1;
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    const auto file = open_.find(fd);
    if (file != open_.end()) {
      file->second->bytes = content(link);
    } else if (Node* folder = find(std::filesystem::read_symlink(link))) {
      folder->secured = folder->now;
    }
    return 0;
  }

  // Closes the descriptor even if it reports a failure, so that no test runs out of descriptors.
  int close(int fd) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    open_.erase(fd);
    const int result = FileCalls::close(fd);
    return fails() ? -1 : result;
  }

  int rename(const Path& from, const Path& to) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (fails()) return -1;
    const int result = FileCalls::rename(from, to);
    const auto [old_folder, old_name] = place(from);
    const auto [new_folder, new_name] = place(to);
    if (result != 0 || old_folder == nullptr || new_folder == nullptr) return result;
    new_folder->now[new_name] = old_folder->now[old_name];
    old_folder->now.erase(old_name);
    return result;
  }

  int mkdir(const Path& path, mode_t mode) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (fails()) return -1;
    const int result = FileCalls::mkdir(path, mode);
    const auto [folder, name] = place(path);
    if (result == 0 && folder != nullptr) {
      folder->now[name] = std::make_shared<Node>();
      folder->now[name]->is_folder = true;
    }
    return result;
  }

  int unlink(const Path& path) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return fails() ? -1 : forget_name(path, FileCalls::unlink(path));
  }
  int rmdir(const Path& path) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return fails() ? -1 : forget_name(path, FileCalls::rmdir(path));
  }

 private:
  struct Node {
    bool is_folder = false;
    std::string bytes;  // of a file, those secured
    std::map<std::string, std::shared_ptr<Node>> now, secured;

    void forget() {
      now = secured;
      for (auto& [name, node] : now) node->forget();
    }
  };

  void arm(int64_t k, int64_t times, int error) {
    calls_ = 0;
    fail_from_ = k;
    fail_times_ = times;
    fail_error_ = error;
  }

  bool fails() {
    const int64_t since = calls_++ - fail_from_;
    if (since < 0 || since >= fail_times_) return false;
    errno = fail_error_;
    return true;
  }

  static std::string content(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  static std::shared_ptr<Node> read(const std::filesystem::path& path) {
    auto node = std::make_shared<Node>();
    node->is_folder = std::filesystem::is_directory(path);
    if (!node->is_folder) {
      node->bytes = content(path);
      return node;
    }
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      node->now[entry.path().filename().string()] = read(entry.path());
    }
    node->secured = node->now;
    return node;
  }

  static void restore(const Node& folder, const std::filesystem::path& path) {
    for (const auto& [name, node] : folder.now) {
      if (node->is_folder) {
        std::filesystem::create_directory(path / name);
        restore(*node, path / name);
      } else {
        std::ofstream(path / name, std::ios::binary) << node->bytes;
      }
    }
  }

  // The node that represents a folder; null for a folder outside the root.
  Node* find(const std::filesystem::path& folder) const {
    const auto inside = std::filesystem::absolute(folder).lexically_normal().lexically_relative(
        std::filesystem::absolute(root_).lexically_normal());
    Node* node = tree_.get();
    for (const auto& part : inside) {
      if (part == "." || part.empty()) continue;
      const auto next = node->now.find(part.string());
      if (next == node->now.end()) return nullptr;
      node = next->second.get();
    }
    return node;
  }

  std::pair<Node*, std::string> place(const std::filesystem::path& path) const {
    return {find(path.has_parent_path() ? path.parent_path() : "."), path.filename().string()};
  }

  int forget_name(const Path& path, int result) {
    const auto [folder, name] = place(path);
    if (result == 0 && folder != nullptr) folder->now.erase(name);
    return result;
  }

  std::mutex mutex_;
  std::filesystem::path root_;
  std::shared_ptr<Node> tree_;
  std::map<int, std::shared_ptr<Node>> open_;
  int64_t calls_ = 0, fail_from_ = INT64_MAX, fail_times_ = 0;
  int fail_error_ = 0;
};

}  // namespace tost::testing
