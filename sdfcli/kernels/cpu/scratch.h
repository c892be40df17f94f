// Arrays in scratch files: NumPy's memory where it does not fit into the machine's.
//
// A large array is a mapped file without a name, which ends with the process whatever happens. The system writes its
// pages and reads them again. All are dropped from the process, not from the files, when it holds more than it may.
//
// INTERFACE
//   sdf_scratch_handler  NumPy's functions for memory, as its PyDataMem_Handler (NEP 49)
#ifndef SDFCLI_CPU_SCRATCH_H
#define SDFCLI_CPU_SCRATCH_H
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>

#include "cpu/threads.h"

namespace {

#define SDF_IN_MEMORY 0x01021994  // type of a file system that is no disk (TMPFS_MAGIC)

struct NumpyAllocator {
    void* ctx;
    void* (*malloc)(void* ctx, size_t size);
    void* (*calloc)(void* ctx, size_t count, size_t size);
    void* (*realloc)(void* ctx, void* place, size_t size);
    void (*free)(void* ctx, void* place, size_t size);
};
struct NumpyHandler {
    char name[127];
    uint8_t version;
    NumpyAllocator allocator;
};

// The mapped files of this process.
class MappedFiles {
  public:
    // Never destroyed: its thread goes on while the process ends.
    static MappedFiles& all() {
        static MappedFiles* files = new MappedFiles;
        return *files;
    }

    void hold_at_most(u64 bytes) {
        std::lock_guard<std::mutex> guard(lock_);
        most_ = bytes;
    }

    // Null where the disk has no room: it is reserved, as a page that cannot be written ends the process.
    void* map(const std::string& folder, size_t size) {
        int file = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        if (file < 0) {  // a file system without files that have no name
            std::string name = folder + "/.sdfcli-XXXXXX";
            file = mkostemp(&name[0], O_CLOEXEC);
            if (file >= 0) unlink(name.c_str());
        }
        if (file < 0) return nullptr;
        void* place = MAP_FAILED;
        if (posix_fallocate(file, 0, (off_t)size) == 0)
            place = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        close(file);
        if (place == MAP_FAILED) return nullptr;
        std::lock_guard<std::mutex> guard(lock_);
        sizes_[place] = size;
        if (!watched_) try {
                watched_ = true;
                std::thread(&MappedFiles::watch, this).detach();
            } catch (const std::system_error&) {  // pages stay until the system wants them
                watched_ = false;
            }
        return place;
    }

    // 0 for memory that is none of these files.
    size_t size(void* place) {
        std::lock_guard<std::mutex> guard(lock_);
        auto found = sizes_.find(place);
        return found == sizes_.end() ? 0 : found->second;
    }

    void unmap(void* place, size_t size) {
        std::lock_guard<std::mutex> guard(lock_);
        sizes_.erase(place);
        munmap(place, size);
    }

  private:
    // Kernels look after each chunk; for what NumPy does, a thread looks, which may come late.
    void watch() {
        after_chunk = [] { all().look(); };
        for (bool files = true; files;) {
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
            look();
            std::lock_guard<std::mutex> guard(lock_);
            files = watched_ = !sizes_.empty();
        }
        after_chunk = nullptr;
    }

    void look() {
        char text[128] = "";
        unsigned long pages = 0;
        if (pread(statm_, text, sizeof text - 1, 0) > 0) sscanf(text, "%*s %lu", &pages);
        std::unique_lock<std::mutex> guard(lock_, std::try_to_lock);
        if (!guard.owns_lock() || pages * (u64)sysconf(_SC_PAGESIZE) <= most_) return;
        for (auto& each : sizes_) madvise(each.first, each.second, MADV_DONTNEED);
    }

    std::mutex lock_;
    std::map<void*, size_t> sizes_;
    u64 most_ = 0;
    bool watched_ = false;
    const int statm_ = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
};

// NumPy's functions; the small arrays are those of the handler before.
struct ScratchMemory {
    NumpyHandler handler;
    NumpyAllocator small;
    std::string folder;
    size_t least;  // bytes of an array in a file of its own

    static ScratchMemory& of(void* ctx) { return *(ScratchMemory*)ctx; }
    static void* malloc(void* ctx, size_t size) {
        ScratchMemory& own = of(ctx);
        return size < own.least ? own.small.malloc(own.small.ctx, size) : MappedFiles::all().map(own.folder, size);
    }
    static void* calloc(void* ctx, size_t count, size_t size) {
        ScratchMemory& own = of(ctx);
        size_t bytes;
        if (__builtin_mul_overflow(count, size, &bytes)) return nullptr;
        return bytes < own.least ? own.small.calloc(own.small.ctx, count, size)
                                 : MappedFiles::all().map(own.folder, bytes);
    }
    static void* realloc(void* ctx, void* place, size_t size) {
        ScratchMemory& own = of(ctx);
        size_t before = MappedFiles::all().size(place);
        if (!before) return own.small.realloc(own.small.ctx, place, size);
        void* moved = malloc(ctx, size);
        if (!moved) return nullptr;
        memcpy(moved, place, before < size ? before : size);
        MappedFiles::all().unmap(place, before);
        return moved;
    }
    static void free(void* ctx, void* place, size_t size) {
        ScratchMemory& own = of(ctx);
        size_t mapped = MappedFiles::all().size(place);
        if (mapped)
            MappedFiles::all().unmap(place, mapped);
        else
            own.small.free(own.small.ctx, place, size);
    }
};

}  // namespace

// The handler for arrays of at least so many bytes in scratch files of a folder, with at most so many bytes of this
// process resident; null where the folder is no disk. before: the one in use, which smaller arrays go on with. It lives
// as long as the process, as arrays may.
extern "C" const void* sdf_scratch_handler(const void* before, const char* folder, u64 most, u64 least) {
    struct statfs system;
    if (statfs(folder, &system) != 0 || system.f_type == SDF_IN_MEMORY) return nullptr;
    MappedFiles::all().hold_at_most(most);
    auto* own = new ScratchMemory{{}, ((const NumpyHandler*)before)->allocator, folder, (size_t)least};
    strcpy(own->handler.name, "sdfcli_scratch");
    own->handler.version = 1;
    own->handler.allocator = {own, ScratchMemory::malloc, ScratchMemory::calloc, ScratchMemory::realloc,
                              ScratchMemory::free};
    return &own->handler;
}

#endif
