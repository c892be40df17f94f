// A field's octree, read from an .oct file (docs/reference/oct.md).
//
// INTERFACE
//   Octree       nodes, distances at the leaves' corners, domain
//   read_octree  reads and checks a file; null, with one line that says why, if it is missing or damaged
//   free_octree
//   evaluate     distance and gradient at a point, as Field.sample and Field.gradient
#ifndef SDFCLI_MUJOCO_OCTREE_H
#define SDFCLI_MUJOCO_OCTREE_H
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(_WIN32)
#include <windows.h>
#endif

constexpr size_t LONGEST_MESSAGE = 1200;
constexpr int MOST_LEVELS = 32;

struct OctreeHeader {
    char magic[8];
    uint32_t version, value_bytes;
    uint64_t nodes, leaves;
    double origin[3], length;
    double low[3], high[3];  // box around the leaves that the solid meets
};
static_assert(sizeof(OctreeHeader) == 112, "as in the file");

struct Octree {
    unsigned char* content;  // the whole file
    size_t bytes;
    OctreeHeader header;
    int32_t* link;       // [nodes] first child; in a leaf, -1 - its number
    const float* value;  // [leaves, 8]
};

static Octree* read_octree(const char* path, char* message);
static void free_octree(Octree* octree);
static double evaluate(const Octree& octree, const double point[3], double* gradient);

// IMPLEMENTATION

static FILE* open_for_reading(const char* path) {
#if defined(_WIN32)
    wchar_t wide[4096];
    if (!MultiByteToWideChar(CP_UTF8, 0, path, -1, wide, 4096)) return nullptr;
    return _wfopen(wide, L"rb");
#else
    return fopen(path, "rb");
#endif
}

// A file's content, to be freed; null if it cannot be read, is not an octree or not whole.
static unsigned char* read_whole(FILE* file, OctreeHeader& header, size_t& bytes, const char*& fault) {
    fault = "not an .oct file of version 1; write one with `sdfcli cook --for mujoco`";
    if (fread(&header, sizeof header, 1, file) != 1 || memcmp(header.magic, "SDFCLIOC", 8)) return nullptr;
    if (header.version != 1 || header.value_bytes != 4) return nullptr;
    uint64_t nodes = header.nodes, leaves = nodes - nodes / 8;
    fault = "damaged: its counts are no octree";
    if (nodes == 0 || nodes > INT32_MAX - 7 || nodes % 8 != 1 || header.leaves != leaves) return nullptr;
    uint64_t rest = (nodes + 7) / 8 * 8 + 32 * leaves;
    fault = "out of memory";
    if (rest > SIZE_MAX / 2) return nullptr;
    // In pieces: a short file that claims to be large takes no memory.
    const size_t piece = (size_t)1 << 24;
    unsigned char* content = nullptr;
    bytes = 0;
    while (bytes < rest) {
        size_t more = rest - bytes < piece ? (size_t)rest - bytes : piece;
        unsigned char* grown = (unsigned char*)realloc(content, bytes + more);
        if (!grown) break;
        content = grown;
        size_t got = fread(content + bytes, 1, more, file);
        bytes += got;
        if (got < more) {
            fault = "damaged: it ends too early";
            break;
        }
    }
    unsigned char beyond;
    if (bytes == rest && fread(&beyond, 1, 1, file) == 0) return content;
    if (bytes == rest) fault = "damaged: bytes after its end";
    free(content);
    return nullptr;
}

static const char* fault_of_place(const OctreeHeader& header) {
    bool fits = header.length > 1e-30 && header.length < 1e31;
    for (int k = 0; k < 3; k++) {
        fits = fits && isfinite(header.origin[k]) && isfinite(header.low[k]) && isfinite(header.high[k]);
        fits = fits && header.low[k] < header.high[k];
    }
    return fits ? nullptr : "damaged: an impossible domain";
}

// Links nodes to their first children. Each child comes after its parent, so no walk goes round.
static const char* link_nodes(Octree& octree) {
    const uint64_t nodes = octree.header.nodes;
    uint64_t splits = 0, level_end = 1;
    int levels = 1;
    for (uint64_t i = 0; i < nodes; i++) {
        if (i == level_end) {
            levels++;
            level_end = 1 + 8 * splits;
        }
        unsigned char flag = octree.content[i];
        if (flag > 1) return "damaged: a flag that is neither 0 nor 1";
        uint64_t first = 1 + 8 * splits;
        if (flag && (first <= i || first + 8 > nodes)) return "damaged: its nodes are out of order";
        octree.link[i] = flag ? (int32_t)first : (int32_t)(-1 - (int64_t)(i - splits));
        splits += flag;
    }
    if (splits != nodes / 8) return "damaged: its nodes are out of order";
    return levels <= MOST_LEVELS ? nullptr : "damaged: more than 32 levels";
}

static Octree* read_octree(const char* path, char* message) {
    OctreeHeader header;
    size_t bytes = 0;
    const char* fault = "cannot be opened; give a path from the working directory, or its folder in SDFCLI_FIELDS";
    unsigned char* content = nullptr;
    if (FILE* file = open_for_reading(path)) {
        content = read_whole(file, header, bytes, fault);
        fclose(file);
    }
    Octree* octree = nullptr;
    if (content) {
        octree = (Octree*)malloc(sizeof(Octree));
        int32_t* link = (int32_t*)malloc(header.nodes * sizeof(int32_t));
        if (octree && link) {
            const float* value = (const float*)(content + (header.nodes + 7) / 8 * 8);
            *octree = {content, bytes, header, link, value};
            fault = fault_of_place(header);
            if (!fault) fault = link_nodes(*octree);
            for (uint64_t i = 0; !fault && i < 8 * header.leaves; i++)
                if (!isfinite(value[i])) fault = "damaged: a distance that is not finite";
        } else {
            fault = "out of memory";
        }
        if (fault) {
            free(content);
            free(link);
            free(octree);
            octree = nullptr;
        }
    }
    if (!octree) snprintf(message, LONGEST_MESSAGE, "sdfcli.field: %.1000s: %s", path, fault);
    return octree;
}

static void free_octree(Octree* octree) {
    free(octree->content);
    free(octree->link);
    free(octree);
}

static double evaluate(const Octree& octree, const double point[3], double* gradient) {
    const double length = octree.header.length;
    double t[3], beyond[3], away = 0;
    for (int k = 0; k < 3; k++) {
        double unit = (point[k] - octree.header.origin[k]) / length;
        t[k] = unit < 0 ? 0 : unit > 1 ? 1 : unit;
        beyond[k] = unit - t[k];
        away += beyond[k] * beyond[k];
    }
    away = sqrt(away);
    int32_t node = 0;
    double edge = length;
    while (octree.link[node] >= 0) {
        int slot = 0;
        for (int k = 0; k < 3; k++) {
            int upper = t[k] >= 0.5;
            t[k] = 2 * t[k] - upper;  // exact
            slot |= upper << k;
        }
        node = octree.link[node] + slot;
        edge /= 2;
    }
    const float* v = octree.value + 8 * (size_t)(-1 - octree.link[node]);
    double result = away * length, slope[3] = {0, 0, 0};
    for (int c = 0; c < 8; c++) {
        double w[3];
        for (int k = 0; k < 3; k++) w[k] = c >> k & 1 ? t[k] : 1 - t[k];
        result += v[c] * w[0] * w[1] * w[2];
        for (int k = 0; k < 3; k++) slope[k] += (c >> k & 1 ? v[c] : -v[c]) * w[(k + 1) % 3] * w[(k + 2) % 3];
    }
    if (gradient)
        for (int k = 0; k < 3; k++) gradient[k] = beyond[k] != 0 ? beyond[k] / away : slope[k] / edge;
    return result;
}
#endif
