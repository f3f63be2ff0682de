// Files of the user's cache folder that can be made again: whoever reads one finds the content that was kept, or none.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "src/io/file.h"

namespace perigee {

// Kept with a digest behind it, which a reader compares unless the file lies as this boot of the machine has written or compared it: then it
// costs what a local file costs. A full disk or a read-only home only costs time the next time. Nothing happens when `path` is empty.
void keep_cached(const std::string& path, std::span<const std::byte> content);
// The content, mapped; null when there is none, or it is damaged, or larger than `limit`.
std::shared_ptr<MappedFile> map_cached(const std::string& path, uint64_t limit, std::span<const std::byte>* content);
// The content into memory of exactly its size; false when there is none.
bool read_cached(const std::string& path, std::span<std::byte> into);
// The same without a copy: the file takes the place of the pages of `into`, which are a mapping of the caller's, from a border of pages to the
// end of the last page. False leaves them writable.
bool map_cached_over(const std::string& path, std::span<std::byte> into);

// Removes the least recently written files below `folder` until they have at most `limit` bytes.
void shrink_cache(const std::string& folder, uint64_t limit);

}  // namespace perigee
