#include <charconv>

#include "tost/base/checked.h"
#include "tost/base/error.h"
#include "tost/io/pickle_reader.h"
#include "tost/io/safe_text.h"
#include "tost/io/torch_layout.h"
#include "tost/io/zip_archive.h"

namespace tost {
namespace {

// The folder all entries share, with its slash.
std::string common_folder(const ZipArchive& archive, const std::string& file) {
  if (archive.entries().empty()) fail_torch(file, "its archive is empty");
  const std::string_view first = archive.entries().front().name;
  const size_t slash = first.find('/');
  if (slash == first.npos) {
    fail_torch(file, cat("its entry ", shown(first), " lies in no folder"));
  }
  const std::string_view folder = first.substr(0, slash + 1);
  for (const ZipEntry& entry : archive.entries()) {
    if (entry.name.substr(0, folder.size()) != folder) {
      fail_torch(file, cat("its entries ", shown(first), " and ", shown(entry.name),
                           " lie in different folders"));
    }
  }
  return std::string(folder);
}

std::string read_version(const ZipArchive& archive, const std::string& folder,
                         const std::string& file) {
  const ZipEntry* entry = archive.find(folder + "version");
  if (entry == nullptr) entry = archive.find(folder + ".data/version");
  if (entry == nullptr) fail_torch(file, "it has no version");
  std::string_view text = archive.read(*entry);
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  int version = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  if (error != std::errc() || stop != text.data() + text.size() || version < 1 || version > 10) {
    fail_torch(file, cat("its version is ", shown(text, 20), "; 1 to 10 are known"));
  }
  return std::string(text);
}

void check_byte_order(const ZipArchive& archive, const std::string& folder,
                      const std::string& file) {
  const ZipEntry* entry = archive.find(folder + "byteorder");
  if (entry == nullptr) return;  // torch before 2.1, little-endian machines
  const std::string_view order = archive.read(*entry);
  if (order == "big") {
    fail_torch(file,
               "it was saved on a big-endian machine; load and save it on a little-endian one");
  }
  if (order != "little") fail_torch(file, cat("its byte order is ", shown(order, 20)));
}

class ZipReader {
 public:
  ZipReader(std::string_view bytes, const std::string& file) : file_(file), archive_(bytes, file) {
    folder_ = common_folder(archive_, file);
  }

  TorchParts run() {
    const ZipEntry* pickle = archive_.find(folder_ + "data.pkl");
    if (archive_.find(folder_ + "constants.pkl") != nullptr) {
      fail_torch(file_, "it is a TorchScript program (torch.jit.save), not a checkpoint");
    }
    if (pickle == nullptr) fail_torch(file_, cat("it has no entry ", shown(folder_ + "data.pkl")));
    parts_.version = read_version(archive_, folder_, file_);
    check_byte_order(archive_, folder_, file_);
    parts_.tree = read_pickle(archive_.read(*pickle), cat("'", file_, "'"));
    for (PickleId id = 0; id < parts_.tree.size(); ++id) {
      if (parts_.tree.is(id, PickleKind::kPersistentId)) add_storage(id);
    }
    return std::move(parts_);
  }

 private:
  void add_storage(PickleId id) {
    TorchStorageRef ref;
    if (!read_storage_ref(parts_.tree, id, file_, ref) || ref.is_view) {
      fail_torch(file_, "a persistent id is of the layout before torch 1.6");
    }
    const int64_t bytes =
        checked_mul(ref.elements, ref.dtype->bytes, cat("'", file_, "': storage ", shown(ref.key)));
    const auto [found, fresh] = by_key_.emplace(ref.key, parts_.storages.size());
    if (fresh) {
      const ZipEntry* entry = archive_.find(cat(folder_, "data/", ref.key));
      if (entry == nullptr) fail_torch(file_, cat("storage ", shown(ref.key), " is missing"));
      parts_.storages.push_back({ref.key, ref.location, entry->bytes, true, entry->crc});
    }
    const auto held = static_cast<int64_t>(parts_.storages[found->second].bytes.size());
    if (held != bytes) {
      fail_torch(file_,
                 cat("storage ", shown(ref.key), " should have ", bytes, " bytes and has ", held));
    }
    parts_.storage_of.emplace(id, found->second);
  }

  const std::string& file_;
  ZipArchive archive_;
  std::string folder_;
  TorchParts parts_;
  std::unordered_map<std::string_view, size_t> by_key_;
};

}  // namespace

TorchParts read_torch_zip(std::string_view bytes, const std::string& file) {
  return ZipReader(bytes, file).run();
}

}  // namespace tost
