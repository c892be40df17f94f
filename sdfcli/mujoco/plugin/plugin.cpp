// The plugin `sdfcli.field`: fields as MuJoCo's signed distance functions, from .oct files named in a model.
//
// MuJoCo calls from several threads. Files are kept while an instance of a mjData uses them, and while a thread
// compiles a model with them.
#include "mujoco_api.h"
#include "octree.h"

#include <pthread.h>

#if defined(_WIN32)
constexpr char SEPARATOR = ';';
#else
constexpr char SEPARATOR = ':';
#endif
constexpr size_t LONGEST_PATH = 4096;
constexpr int BUCKETS = 1024, CACHED = 64;

struct Loaded {
    Octree* octree;
    double number;  // never used twice: what MuJoCo keeps of a field while it compiles
    int users;
    Loaded* next;
};

struct Instance {
    const mjData* data;
    int number;
    Loaded* field;
    Instance* next;
};

static const char* (*get_config)(const mjModel*, int, const char*);
static void (*fail)(const char*, ...);  // does not return

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Loaded* loaded;                // a list
static double numbers;                // of fields so far
static Instance* instances[BUCKETS];  // lists
static uint64_t generation = 1;       // counts changes to the instances
static pthread_key_t compiling;       // the thread's field of sdf_attribute

struct Locked {
    Locked() { pthread_mutex_lock(&lock); }
    ~Locked() { pthread_mutex_unlock(&lock); }
};

// FIELDS

// Under the lock.
static void release(Loaded* field) {
    if (!field || --field->users) return;
    Loaded** at = &loaded;
    while (*at != field) at = &(*at)->next;
    *at = field->next;
    free_octree(field->octree);
    free(field);
}

static void release_of_thread(void* field) {
    Locked locked;
    release((Loaded*)field);
}

static void compile_with(Loaded* field) {
    void* before = pthread_getspecific(compiling);
    if (pthread_setspecific(compiling, field) == 0) release_of_thread(before);
}

static bool is_absolute(const char* path) { return path[0] == '/' || path[0] == '\\' || (path[0] && path[1] == ':'); }

// The path of a file: as it is, or in a folder of SDFCLI_FIELDS.
static const char* find_file(const char* path, char* place) {
    const char* folders = getenv("SDFCLI_FIELDS");
    FILE* file = open_for_reading(path);
    while (!file && folders && *folders && !is_absolute(path)) {
        const char* end = strchr(folders, SEPARATOR);
        int length = (int)(end ? (size_t)(end - folders) : strlen(folders));
        if (snprintf(place, LONGEST_PATH, "%.*s/%s", length, folders, path) < (int)LONGEST_PATH)
            file = open_for_reading(place);
        if (file) path = place;
        folders = end ? end + 1 : nullptr;
    }
    if (file) fclose(file);
    return path;
}

static bool same_content(const Octree& a, const Octree& b) {
    return a.bytes == b.bytes && !memcmp(&a.header, &b.header, sizeof a.header) &&
           !memcmp(a.content, b.content, a.bytes);
}

// A file's field, with one user more; null and a message if it cannot be used. Equal files share memory.
static Loaded* load(const char* path, char* message) {
    if (!path || !*path) {
        snprintf(message, LONGEST_MESSAGE,
                 "sdfcli.field: an instance without a file: <config key=\"file\" value=\"...\"/>");
        return nullptr;
    }
    char place[LONGEST_PATH];
    Octree* octree = read_octree(find_file(path, place), message);
    if (!octree) return nullptr;
    Locked locked;
    Loaded* field = loaded;
    while (field && !same_content(*field->octree, *octree)) field = field->next;
    if (field) {
        free_octree(octree);
        field->users++;
        return field;
    }
    field = (Loaded*)malloc(sizeof(Loaded));
    if (!field) {
        free_octree(octree);
        snprintf(message, LONGEST_MESSAGE, "sdfcli.field: out of memory");
        return nullptr;
    }
    *field = {octree, ++numbers, 1, loaded};
    loaded = field;
    return field;
}

// INSTANCES

static unsigned hash(const mjData* data, int number) {
    uint64_t bits = ((uint64_t)(uintptr_t)data >> 4) * 31 + (unsigned)number;
    return (unsigned)((bits * 0x9E3779B97F4A7C15ull) >> 40);
}

// Under the lock.
static Instance** place_of(const mjData* data, int number) {
    Instance** at = &instances[hash(data, number) % BUCKETS];
    while (*at && ((*at)->data != data || (*at)->number != number)) at = &(*at)->next;
    return at;
}

// Gives an instance a field, which has counted it as a user already; null: none. Under the lock. False: no memory.
static bool assign(const mjData* data, int number, Loaded* field) {
    Instance** at = place_of(data, number);
    if (!*at && field) {
        Instance* made = (Instance*)calloc(1, sizeof(Instance));
        if (!made) return false;
        *made = {data, number, nullptr, nullptr};
        *at = made;
    }
    __atomic_fetch_add(&generation, 1, __ATOMIC_RELEASE);
    if (!*at) return true;
    release((*at)->field);
    (*at)->field = field;
    if (!field) {
        Instance* unused = *at;
        *at = unused->next;
        free(unused);
    }
    return true;
}

// The octree of an instance; null without one. Each thread remembers some, so that it rarely takes the lock.
static const Octree* octree_of(const mjData* data, int number) {
    struct Seen {
        const mjData* data;
        int number;
        uint64_t generation;
        const Octree* octree;
    };
    static thread_local Seen cache[CACHED];
    Seen& seen = cache[hash(data, number) % CACHED];
    uint64_t now = __atomic_load_n(&generation, __ATOMIC_ACQUIRE);
    if (seen.data == data && seen.number == number && seen.generation == now) return seen.octree;
    Locked locked;
    Instance* found = *place_of(data, number);
    seen = {data, number, generation, found ? found->field->octree : nullptr};
    return seen.octree;
}

// CALLBACKS

static int no_state(const mjModel*, int) { return 0; }

static int init(const mjModel* model, mjData* data, int number) {
    char message[LONGEST_MESSAGE];
    Loaded* field = load(get_config(model, number, "file"), message);
    bool assigned = false;
    if (field) {
        Locked locked;
        assigned = assign(data, number, field);
        if (!assigned) release(field);
    }
    compile_with(nullptr);
    if (!field) fail("%s", message);
    return assigned ? 0 : -1;
}

static void destroy(mjData* data, int number) {
    Locked locked;
    assign(data, number, nullptr);
}

static void copy(mjData* to, const mjModel*, const mjData* from, int number) {
    Locked locked;
    Instance* found = *place_of(from, number);
    if (!found || to == from) return;
    found->field->users++;
    if (!assign(to, number, found->field)) release(found->field);
}

static void reset(const mjModel*, double*, void*, int) {}
static void compute(const mjModel*, mjData*, int, int) {}

static double distance(const double point[3], const mjData* data, int number) {
    const Octree* octree = octree_of(data, number);
    return octree ? evaluate(*octree, point, nullptr) : 1;
}

static void gradient(double result[3], const double point[3], const mjData* data, int number) {
    result[0] = result[1] = result[2] = 0;
    if (const Octree* octree = octree_of(data, number)) evaluate(*octree, point, result);
}

// While a model is compiled: for the mesh that MuJoCo makes by marching cubes.

static void attribute(double result[], const char*[], const char* value[]) {
    char message[LONGEST_MESSAGE];
    Loaded* field = load(value[0], message);
    result[0] = field ? field->number : 0;
    compile_with(field);
    if (!field) fail("%s", message);
}

static const Octree* compiled(const double attributes[]) {
    const Loaded* field = (const Loaded*)pthread_getspecific(compiling);
    return field && field->number == attributes[0] ? field->octree : nullptr;
}

static double static_distance(const double point[3], const double attributes[]) {
    const Octree* octree = compiled(attributes);
    return octree ? evaluate(*octree, point, nullptr) : 1;
}

static void box(double result[6], const double attributes[]) {
    const Octree* octree = compiled(attributes);
    for (int k = 0; k < 3; k++) {
        result[k] = octree ? (octree->header.low[k] + octree->header.high[k]) / 2 : 0;
        result[3 + k] = octree ? (octree->header.high[k] - octree->header.low[k]) / 2 : 1;
    }
}

#if defined(_WIN32)
// Without an export of its own, the library would export the C library's functions in it.
extern "C" __declspec(dllexport) void sdfcli_field() {}
#endif

// MuJoCo loads this library, and counts the plugins that it registers meanwhile.
__attribute__((constructor)) static void start() {
    auto add = (int (*)(const mjpPlugin*))mujoco_symbol("mjp_registerPlugin");
    get_config = (const char* (*)(const mjModel*, int, const char*))mujoco_symbol("mj_getPluginConfig");
    fail = (void (*)(const char*, ...))mujoco_symbol("mju_error");
    if (!add || !get_config || !fail || pthread_key_create(&compiling, release_of_thread)) {
        fprintf(stderr, "sdfcli.field: not registered: load it with mj_loadPluginLibrary of MuJoCo 3 or 4\n");
        return;
    }
    static const char* const names[] = {"file"};
    mjpPlugin plugin = {};
    plugin.name = "sdfcli.field";
    plugin.nattribute = 1;
    plugin.attributes = names;
    plugin.capabilityflags = mjPLUGIN_SDF;
    plugin.nstate = no_state;
    plugin.init = init;
    plugin.destroy = destroy;
    plugin.copy = copy;
    plugin.reset = reset;
    plugin.compute = compute;
    plugin.sdf_distance = distance;
    plugin.sdf_gradient = gradient;
    plugin.sdf_staticdistance = static_distance;
    plugin.sdf_attribute = attribute;
    plugin.sdf_aabb = box;
    add(&plugin);
}
