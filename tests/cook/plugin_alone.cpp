// The MuJoCo plugin in a program that stands for MuJoCo:
//   FILE ...            for each file, its verdict, and if it is good distances and gradients at some points of its
//   domain
//   --threads FILE ...  threads make, copy, ask and free instances of these files; fails if anything is left at the end
#include "plugin.cpp"

#include <stdarg.h>
#include <string.h>

static mjpPlugin registered;
static const char** files;
static int file_count;
static char last_error[2 * LONGEST_MESSAGE];

extern "C" __attribute__((visibility("default"))) int mjp_registerPlugin(const mjpPlugin* plugin) {
    registered = *plugin;
    return 0;
}
extern "C" __attribute__((visibility("default"))) const char* mj_getPluginConfig(const mjModel*, int number,
                                                                                 const char*) {
    return files[number % file_count];
}
extern "C" __attribute__((visibility("default"))) void mju_error(const char* format, ...) {
    va_list values;
    va_start(values, format);
    vsnprintf(last_error, sizeof last_error, format, values);
    va_end(values);
}

static double random_number(uint64_t& state) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (double)(state >> 11) / (double)(1ull << 53);
}

static void* work(void* seed) {
    uint64_t state = (uint64_t)(uintptr_t)seed;
    mjData* data = (mjData*)(uintptr_t)(4096 * (uintptr_t)seed);
    mjData* twin = (mjData*)(uintptr_t)(4096 * (uintptr_t)seed + 64);
    const int instances_each = 3 * file_count;
    for (int round = 0; round < 6; round++) {
        double attributes[1], corner[6];
        const char* name[] = {"file"};
        const char* value[] = {files[round % file_count]};
        registered.sdf_attribute(attributes, name, value);
        registered.sdf_aabb(corner, attributes);
        double compiling = registered.sdf_staticdistance(corner, attributes);
        for (int i = 0; i < instances_each; i++)
            if (registered.init(nullptr, data, i)) return (void*)1;
        for (int i = 0; i < instances_each; i++) registered.copy(twin, nullptr, data, i);
        if (registered.sdf_distance(corner, data, round % file_count) != compiling) return (void*)1;
        for (int k = 0; k < 200; k++) {
            int i = (int)(random_number(state) * instances_each);
            double point[3], slope[3];
            for (double& each : point) each = random_number(state);
            registered.sdf_gradient(slope, point, twin, i);
            if (registered.sdf_distance(point, data, i) != registered.sdf_distance(point, twin, i)) return (void*)1;
        }
        for (int i = 0; i < instances_each; i++) registered.destroy(data, i);
        for (int i = 0; i < instances_each; i++) registered.destroy(twin, i);
    }
    return nullptr;
}

static int with_threads() {
    pthread_t threads[8];
    int failed = 0;
    for (uintptr_t i = 0; i < 8; i++) pthread_create(&threads[i], nullptr, work, (void*)(i + 1));
    for (pthread_t each : threads) {
        void* result;
        pthread_join(each, &result);
        failed += result != nullptr;
    }
    for (Instance* each : instances) failed += each != nullptr;
    failed += loaded != nullptr;
    if (failed) printf("failed: %d %s\n", failed, last_error);
    return failed != 0;
}

int main(int count, char** words) {
    if (!strcmp(words[1], "--threads")) {
        files = (const char**)words + 2;
        file_count = count - 2;
        return with_threads();
    }
    for (int k = 1; k < count; k++) {
        char message[LONGEST_MESSAGE];
        Octree* octree = read_octree(words[k], message);
        if (!octree) {
            printf("%s\n", message);
            continue;
        }
        uint64_t state = 1;
        printf("good");
        for (int i = 0; i < 20; i++) {
            double point[3], slope[3];
            for (int axis = 0; axis < 3; axis++)
                point[axis] = octree->header.origin[axis] + octree->header.length * (1.4 * random_number(state) - 0.2);
            double distance = evaluate(*octree, point, slope);
            printf(" %.17g %.17g %.17g %.17g", point[0], point[1], point[2], distance);
        }
        printf("\n");
        free_octree(octree);
    }
    return 0;
}
