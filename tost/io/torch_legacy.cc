#include <algorithm>

#include "tost/base/checked.h"
#include "tost/base/error.h"
#include "tost/io/pickle_reader.h"
#include "tost/io/pickle_scan.h"
#include "tost/io/safe_text.h"
#include "tost/io/torch_layout.h"

namespace tost {
namespace {

// 0x1950a86a20f9469cfc6c, little-endian.
constexpr std::string_view kMagic("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10);
constexpr int64_t kProtocol = 1001;
constexpr size_t kWindow = size_t{1} << 30;  // of a pickle; the storages follow

class LegacyReader {
 public:
  LegacyReader(std::string_view bytes, const std::string& file) : rest_(bytes), file_(file) {}

  TorchParts run() {
    check_head();
    parts_.layout = TorchLayout::kLegacy;
    parts_.version = cat(kProtocol);
    parts_.tree = next_pickle();
    for (PickleId id = 0; id < parts_.tree.size(); ++id) {
      if (!parts_.tree.is(id, PickleKind::kPersistentId)) continue;
      TorchStorageRef ref;
      if (read_storage_ref(parts_.tree, id, file_, ref)) refs_.emplace_back(id, ref);
    }
    for (const auto& [id, ref] : refs_) {
      const auto [found, fresh] = width_.emplace(ref.key, ref.dtype->bytes);
      if (!fresh && found->second != ref.dtype->bytes && ref.elements != 0) {
        fail_torch(file_, cat("storage ", shown(ref.key), " is of two types"));
      }
    }
    read_storages(next_pickle());
    for (const auto& [id, ref] : refs_) add_storage(id, ref);
    return std::move(parts_);
  }

 private:
  PickleTree next_pickle() {
    size_t consumed = 0;
    PickleTree tree = read_pickle(rest_.substr(0, kWindow), cat("'", file_, "'"), &consumed);
    rest_.remove_prefix(consumed);
    return tree;
  }

  void check_head() {
    const PickleTree magic = next_pickle();
    const PickleValue& number = magic[magic.root()];
    if (number.kind != PickleKind::kBigInt || number.text != kMagic) {
      fail_torch(file_, "it does not begin with torch's magic number");
    }
    const PickleTree protocol = next_pickle();
    const PickleValue& version = protocol[protocol.root()];
    if (version.kind != PickleKind::kInt || version.integer != kProtocol) {
      fail_torch(file_, cat("its protocol is not ", kProtocol));
    }
    const PickleTree machine = next_pickle();
    const PickleId* little = machine.is(machine.root(), PickleKind::kDict)
                                 ? machine.find(machine.root(), "little_endian")
                                 : nullptr;
    if (little == nullptr || !machine.is(*little, PickleKind::kBool)) {
      fail_torch(file_, "it does not tell its byte order");
    }
    if (*little != PickleTree::kTrueId) {
      fail_torch(file_,
                 "it was saved on a big-endian machine; load and save it on a little-endian one");
    }
  }

  // The blocks of `keys`, which fill the rest of the file.
  void read_storages(const PickleTree& keys) {
    if (!keys.is(keys.root(), PickleKind::kList)) {
      fail_torch(file_, "its keys of storages are not a list");
    }
    for (const PickleId id : keys.items(keys.root())) {
      const std::string_view key = keys[id].text;
      const auto width = width_.find(key);
      if (!keys.is(id, PickleKind::kString) || width == width_.end()) {
        fail_torch(file_, "it holds a storage that nothing refers to");
      }
      if (rest_.size() < 8) fail_truncated(key);
      const int64_t elements = pickle_signed(rest_.substr(0, 8));
      rest_.remove_prefix(8);
      const int64_t bytes =
          checked_mul(elements, width->second, cat("'", file_, "': storage ", shown(key)));
      if (static_cast<uint64_t>(bytes) > rest_.size()) fail_truncated(key);
      if (!data_.emplace(width->first, rest_.substr(0, static_cast<size_t>(bytes))).second) {
        fail_torch(file_, cat("two storages are called ", shown(key)));
      }
      rest_.remove_prefix(static_cast<size_t>(bytes));
    }
    if (!rest_.empty()) {
      fail_torch(file_, cat(rest_.size(), " bytes after the last storage belong to none"));
    }
  }

  [[noreturn]] void fail_truncated(std::string_view key) const {
    fail_torch(file_,
               cat("storage ", shown(key), " reaches past the end; the file may be truncated"));
  }

  void add_storage(PickleId id, const TorchStorageRef& ref) {
    const std::string what = cat("'", file_, "': storage ", shown(ref.key));
    const auto data = data_.find(ref.key);
    if (data == data_.end()) fail_torch(file_, cat("storage ", shown(ref.key), " is missing"));
    const int64_t bytes = checked_mul(ref.elements, ref.dtype->bytes, what);
    if (static_cast<size_t>(bytes) != data->second.size()) {
      fail_torch(file_, cat("storage ", shown(ref.key), " should have ", bytes, " bytes and has ",
                            data->second.size()));
    }
    check_view(ref, data->second, what);
    const auto [found, fresh] = index_.emplace(ref.key, parts_.storages.size());
    if (fresh) parts_.storages.push_back({ref.key, ref.location, data->second, false, 0});
    parts_.storage_of.emplace(id, found->second);
  }

  // A view is a part of its storage under a name of its own.
  void check_view(const TorchStorageRef& ref, std::string_view whole, const std::string& what) {
    check_name(ref.key, whole);
    if (!ref.is_view) return;
    const int64_t begin = checked_mul(ref.view_offset, ref.dtype->bytes, what);
    const int64_t size = checked_mul(ref.view_elements, ref.dtype->bytes, what);
    if (static_cast<size_t>(checked_add(begin, size, what)) > whole.size()) {
      fail_torch(file_, cat("a view of storage ", shown(ref.key), " reaches past its end"));
    }
    check_name(ref.view_key, whole.substr(static_cast<size_t>(begin), static_cast<size_t>(size)));
  }

  // A name always stands for the same bytes.
  void check_name(std::string_view key, std::string_view place) {
    const std::string_view known = places_.emplace(key, place).first->second;
    if (known.data() != place.data() || known.size() != place.size()) {
      fail_torch(file_, cat("two storages are called ", shown(key)));
    }
  }

  std::string_view rest_;
  const std::string& file_;
  TorchParts parts_;
  std::vector<std::pair<PickleId, TorchStorageRef>> refs_;
  std::unordered_map<std::string_view, int64_t> width_;            // of an element, by key
  std::unordered_map<std::string_view, std::string_view> data_;    // by key
  std::unordered_map<std::string_view, size_t> index_;             // by key
  std::unordered_map<std::string_view, std::string_view> places_;  // by key or key of the view
};

}  // namespace

bool looks_like_torch_legacy(std::string_view bytes) {
  return bytes.substr(0, 32).find(kMagic) != std::string_view::npos;
}

TorchParts read_torch_legacy(std::string_view bytes, const std::string& file) {
  return LegacyReader(bytes, file).run();
}

}  // namespace tost
