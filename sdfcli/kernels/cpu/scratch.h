// Arrays in scratch files: NumPy allocations larger than the machine's memory. Linux only.
//
// A large array is a mapped file without a name, which disappears with the process in any case. The system writes its
// pages out and reads them back. When the process exceeds its resident limit, all pages are dropped from the process
// (not from the files).
//
// INTERFACE
//   sdf_scratch_handler  NumPy's memory handler, a PyDataMem_Handler (NEP 49)
#ifndef SDFCLI_CPU_SCRATCH_H
#define SDFCLI_CPU_SCRATCH_H
#include "cpu/threads.h"

#if defined(__linux__)
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace {

#define SDF_IN_MEMORY 0x01021994  // file system type without a disk (TMPFS_MAGIC)

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

class Locked {
  public:
    explicit Locked(pthread_mutex_t& lock) : lock_(lock) { pthread_mutex_lock(&lock_); }
    ~Locked() { pthread_mutex_unlock(&lock_); }
    Locked(const Locked&) = delete;

  private:
    pthread_mutex_t& lock_;
};

// This process's mapped files.
class MappedFiles {
  public:
    void hold_at_most(u64 bytes) {
        Locked guard(lock_);
        most_ = bytes;
        if (statm_ < 0) statm_ = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    }

    // Null if the disk is full. Space is reserved, since a page that cannot be written kills the process.
    void* map(const char* folder, size_t size) {
        int file = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        if (file < 0) {  // the file system lacks unnamed files
            char name[PATH_MAX];
            if (snprintf(name, sizeof name, "%s/.sdfcli-XXXXXX", folder) >= (int)sizeof name) return nullptr;
            file = mkostemp(name, O_CLOEXEC);
            if (file >= 0) unlink(name);
        }
        if (file < 0) return nullptr;
        void* place = MAP_FAILED;
        if (posix_fallocate(file, 0, (off_t)size) == 0)
            place = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        close(file);
        if (place == MAP_FAILED) return nullptr;
        Locked guard(lock_);
        if (!keep({place, size})) {
            munmap(place, size);
            return nullptr;
        }
        if (!watched_) watched_ = start();  // otherwise pages stay until the system reclaims them
        return place;
    }

    // 0 for memory outside these files.
    size_t size(void* place) {
        if ((uintptr_t)place % (uintptr_t)sysconf(_SC_PAGESIZE) != 0) return 0;
        Locked guard(lock_);
        const File* file = find(place);
        return file ? file->size : 0;
    }

    void unmap(void* place, size_t size) {
        Locked guard(lock_);
        File* gone = find(place);
        *gone = files_[--count_];
        munmap(place, size);
    }

  private:
    struct File {
        void* place;
        size_t size;
    };

    bool keep(File file) {
        if (count_ == room_) {
            size_t room = 2 * room_ + 64;
            auto* files = (File*)realloc(files_, room * sizeof(File));
            if (!files) return false;
            files_ = files, room_ = room;
        }
        files_[count_++] = file;
        return true;
    }

    File* find(void* place) {
        for (size_t k = 0; k < count_; k++)
            if (files_[k].place == place) return files_ + k;
        return nullptr;
    }

    bool start() {
        pthread_t thread;
        auto run = [](void* self) -> void* {
            ((MappedFiles*)self)->watch();
            return nullptr;
        };
        return pthread_create(&thread, nullptr, run, this) == 0 && pthread_detach(thread) == 0;
    }

    // Kernels check after each chunk; a thread, which may be late, checks during NumPy's own work.
    void watch();

    void look() {
        char text[128] = "";
        unsigned long pages = 0;
        if (pread(statm_, text, sizeof text - 1, 0) > 0) sscanf(text, "%*s %lu", &pages);
        if (pthread_mutex_trylock(&lock_) != 0) return;
        if (pages * (u64)sysconf(_SC_PAGESIZE) > most_)
            for (size_t k = 0; k < count_; k++) madvise(files_[k].place, files_[k].size, MADV_DONTNEED);
        pthread_mutex_unlock(&lock_);
    }

    pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
    File* files_ = nullptr;
    size_t count_ = 0, room_ = 0;
    u64 most_ = 0;
    bool watched_ = false;
    int statm_ = -1;
};

MappedFiles mapped_files;

void MappedFiles::watch() {
    void (*drop)() = [] { mapped_files.look(); }, (*none)() = nullptr;
    __atomic_store_n(&after_chunk, drop, __ATOMIC_RELAXED);
    for (bool files = true; files;) {
        usleep(2000);
        look();
        Locked guard(lock_);
        files = watched_ = count_ > 0;
        if (!files) __atomic_store_n(&after_chunk, none, __ATOMIC_RELAXED);
    }
}

// NumPy's allocation functions; small arrays use the previous handler.
struct ScratchMemory {
    NumpyHandler handler;
    NumpyAllocator small;
    size_t least;  // minimum size in bytes of a mapped array
    char folder[];

    static ScratchMemory& of(void* ctx) { return *(ScratchMemory*)ctx; }
    static void* malloc(void* ctx, size_t size) {
        ScratchMemory& own = of(ctx);
        return size < own.least ? own.small.malloc(own.small.ctx, size) : mapped_files.map(own.folder, size);
    }
    static void* calloc(void* ctx, size_t count, size_t size) {
        ScratchMemory& own = of(ctx);
        size_t bytes;
        if (__builtin_mul_overflow(count, size, &bytes)) return nullptr;
        return bytes < own.least ? own.small.calloc(own.small.ctx, count, size) : mapped_files.map(own.folder, bytes);
    }
    static void* realloc(void* ctx, void* place, size_t size) {
        ScratchMemory& own = of(ctx);
        size_t before = mapped_files.size(place);
        if (!before) return own.small.realloc(own.small.ctx, place, size);
        void* moved = malloc(ctx, size);
        if (!moved) return nullptr;
        memcpy(moved, place, before < size ? before : size);
        mapped_files.unmap(place, before);
        return moved;
    }
    static void free(void* ctx, void* place, size_t size) {
        ScratchMemory& own = of(ctx);
        size_t mapped = mapped_files.size(place);
        if (mapped)
            mapped_files.unmap(place, mapped);
        else
            own.small.free(own.small.ctx, place, size);
    }
};

}  // namespace

// Handler for arrays of at least `least` bytes in scratch files in a folder, with at most `most` resident bytes in this
// process; null if the folder is not on a disk. before: the current handler, used for smaller arrays. The result is
// never freed, as arrays may live as long as the process.
SDF_EXPORT const void* sdf_scratch_handler(const void* before, const char* folder, u64 most, u64 least) {
    struct statfs system;
    if (statfs(folder, &system) != 0 || system.f_type == SDF_IN_MEMORY) return nullptr;
    auto* own = (ScratchMemory*)calloc(1, sizeof(ScratchMemory) + strlen(folder) + 1);
    if (!own) return nullptr;
    mapped_files.hold_at_most(most);
    own->small = ((const NumpyHandler*)before)->allocator;
    own->least = (size_t)least;
    strcpy(own->folder, folder);
    strcpy(own->handler.name, "sdfcli_scratch");
    own->handler.version = 1;
    own->handler.allocator = {own, ScratchMemory::malloc, ScratchMemory::calloc, ScratchMemory::realloc,
                              ScratchMemory::free};
    return &own->handler;
}
#else
SDF_EXPORT const void* sdf_scratch_handler(const void*, const char*, u64, u64) { return nullptr; }
#endif

#endif
