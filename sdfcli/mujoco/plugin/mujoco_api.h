// The part of MuJoCo's C interface that a distance plugin needs, declared here so that no header of MuJoCo's is needed.
//
// INTERFACE
//   mjpPlugin       a plugin's callbacks: the layout of MuJoCo 3.0 to 4.0 (tests/mujoco compares it with the header)
//   mujoco_symbol   a function of the MuJoCo library in this process; null without one
#ifndef SDFCLI_MUJOCO_API_H
#define SDFCLI_MUJOCO_API_H
#include <string.h>
#if defined(_WIN32)
#include <windows.h>
#define PSAPI_VERSION 2
#include <psapi.h>
#elif defined(__APPLE__)
#include <dlfcn.h>
#include <mach-o/dyld.h>
#else
#include <dlfcn.h>
#include <link.h>
#endif

struct mjModel;
struct mjData;
struct mjvOption;
struct mjvScene;
constexpr int mjPLUGIN_SDF = 1 << 3;

struct mjpPlugin {
    const char* name;
    int nattribute;
    const char* const* attributes;
    int capabilityflags;
    int needstage;
    int (*nstate)(const mjModel*, int);
    int (*nsensordata)(const mjModel*, int, int);
    int (*init)(const mjModel*, mjData*, int);
    void (*destroy)(mjData*, int);
    void (*copy)(mjData*, const mjModel*, const mjData*, int);
    void (*reset)(const mjModel*, double*, void*, int);
    void (*compute)(const mjModel*, mjData*, int, int);
    void (*advance)(const mjModel*, mjData*, int);
    void (*visualize)(const mjModel*, mjData*, const mjvOption*, mjvScene*, int);
    void (*actuator_act_dot)(const mjModel*, mjData*, int);
    double (*sdf_distance)(const double*, const mjData*, int);
    void (*sdf_gradient)(double*, const double*, const mjData*, int);
    double (*sdf_staticdistance)(const double*, const double*);
    void (*sdf_attribute)(double*, const char**, const char**);
    void (*sdf_aabb)(double*, const double*);
};

// IMPLEMENTATION

#if defined(_WIN32)
static void* mujoco_symbol(const char* name) {
    HMODULE modules[4096];
    DWORD bytes = 0;
    if (!EnumProcessModules(GetCurrentProcess(), modules, sizeof modules, &bytes)) return nullptr;
    DWORD count = bytes < sizeof modules ? bytes / sizeof *modules : 4096;
    for (DWORD i = 0; i < count; i++)
        if (FARPROC found = GetProcAddress(modules[i], name)) return (void*)found;
    return nullptr;
}
#elif defined(__APPLE__)
static void* mujoco_symbol(const char* name) {
    void* found = dlsym(RTLD_DEFAULT, name);
    // Python loads the library for its own modules alone.
    for (unsigned i = 0; !found && i < _dyld_image_count(); i++) {
        const char* path = _dyld_get_image_name(i);
        if (!path || !strstr(path, "mujoco")) continue;
        if (void* library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD)) {
            found = dlsym(library, name);
            dlclose(library);
        }
    }
    return found;
}
#else
struct SymbolSearch {
    const char* name;
    void* found;
};
static int search_library(dl_phdr_info* info, size_t, void* data) {
    SymbolSearch& search = *(SymbolSearch*)data;
    if (!info->dlpi_name || !strstr(info->dlpi_name, "mujoco")) return 0;
    if (void* library = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD)) {
        search.found = dlsym(library, search.name);
        dlclose(library);
    }
    return search.found != nullptr;
}
static void* mujoco_symbol(const char* name) {
    SymbolSearch search = {name, dlsym(RTLD_DEFAULT, name)};
    // Python loads the library for its own modules alone.
    if (!search.found) dl_iterate_phdr(search_library, &search);
    return search.found;
}
#endif
#endif
