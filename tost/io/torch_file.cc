#include "tost/io/torch_file.h"

#include <utility>

#include "tost/base/error.h"
#include "tost/io/mapped_file.h"
#include "tost/io/safe_text.h"
#include "tost/io/torch_layout.h"
#include "tost/io/zip_archive.h"
#include "tost/io/crc.h"

namespace tost {
namespace {

bool looks_like_tar(std::string_view bytes) {
  return bytes.size() > 262 && bytes.substr(257, 5) == "ustar";
}

TorchParts read_parts(std::string_view bytes, const std::string& name) {
  if (looks_like_zip(bytes)) return read_torch_zip(bytes, name);
  if (looks_like_tar(bytes)) {
    fail_torch(name,
               "it has the tar layout of torch 0.1; load and save it with a torch before 2.9");
  }
  if (looks_like_torch_legacy(bytes)) return read_torch_legacy(bytes, name);
  fail_torch(name, bytes.empty()
                       ? "it is empty"
                       : "it is neither a zip archive nor begins with torch's magic number");
}

}  // namespace

int64_t TorchTensor::elements() const {
  int64_t count = 1;
  for (const int64_t side : shape) count *= side;
  return count;
}

bool TorchTensor::contiguous() const {
  if (elements() == 0) return true;
  int64_t expected = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    if (shape[d] != 1 && strides[d] != expected) return false;
    expected *= shape[d];
  }
  return true;
}

std::shared_ptr<const TorchFile> TorchFile::open(const std::filesystem::path& path) {
  auto map = std::make_shared<MappedFile>(path, MappedFile::Access::kCopyOnWrite);
  const std::string_view bytes = map->bytes();
  return parse(bytes, path.string(), std::move(map));
}

std::shared_ptr<const TorchFile> TorchFile::parse(std::string_view bytes, const std::string& name,
                                                  std::shared_ptr<const void> owner) {
  std::shared_ptr<TorchFile> file(new TorchFile);
  file->name_ = escaped(name, 4096);
  file->owner_ = std::move(owner);
  file->parts_ = read_parts(bytes, file->name_);
  file->tensors_ = rebuild_tensors(file->parts_, file->name_);
  file->checked_ = std::make_unique<std::atomic<bool>[]>(file->parts_.storages.size());
  return file;
}

std::string_view TorchFile::storage_bytes(size_t storage) const {
  const TorchStorage& block = parts_.storages.at(storage);
  if (block.has_crc && !checked_[storage].load(std::memory_order_acquire)) {
    if (zip_crc32(block.bytes) != block.crc) {
      fail_torch(name_, cat("the checksum of storage ", shown(block.key),
                            " does not fit its bytes; the file is damaged"));
    }
    checked_[storage].store(true, std::memory_order_release);
  }
  return block.bytes;
}

const TorchTensor* TorchFile::tensor(PickleId id) const {
  const auto found = tensors_.find(id);
  return found == tensors_.end() ? nullptr : &found->second;
}

const size_t* TorchFile::storage(PickleId id) const {
  const auto found = parts_.storage_of.find(id);
  return found == parts_.storage_of.end() ? nullptr : &found->second;
}

bool looks_like_torch_file(std::string_view bytes) {
  return looks_like_zip(bytes) || looks_like_torch_legacy(bytes) || looks_like_tar(bytes);
}

}  // namespace tost
