// Constants shared by several headers, or read by Python: sdfcli.backend.C.NAME is SDF_NAME.
#ifndef SDFCLI_BASE_CONSTANTS_H
#define SDFCLI_BASE_CONSTANTS_H

constexpr unsigned SDF_NONE = 0xffffffffu;     // "no such cell, point or triangle"
constexpr unsigned SDF_LEAF = 0x80000000u;     // marks a leaf among a tree's children
constexpr unsigned SDF_OUTSIDE = 0xfffffffeu;  // a neighbour position outside the domain

// Larger than every distance (SDF_UNKNOWN) and than every box bound (SDF_NO_BOX).
constexpr float SDF_UNKNOWN = 3.4e38f;
constexpr float SDF_NO_BOX = 3.402823466e38f;

// ---- Threads ----

constexpr int SDF_LANES = 16;               // floats per vector on the CPU (base/simd.h)
constexpr int SDF_WARP = 32;                // threads per warp
constexpr int SDF_BLOCK_WARPS = 4;          // warps per thread block
constexpr int SDF_RUN = 256;                // entries that a warp counts (base/sort.h)
constexpr unsigned SDF_SCAN_RUNS = 1024;    // maximum number of runs in a scan (base/scan.h)
constexpr unsigned SDF_SCAN_SLOTS = 64;     // a producer's sum is spread over so many entries (base/scan.h),
constexpr unsigned SDF_SCAN_APART = 32;     // so far apart
constexpr unsigned SDF_BYTES_PIECE = 256;   // bytes copied per index (base/bytes.h)
constexpr unsigned SDF_BYTES_APART = 1024;  // stride in bytes between touched bytes; no page is smaller (base/bytes.h)
constexpr int SDF_LINK_ROUNDS = 8;          // batches of 32 links per warp (sign/corners.h)
constexpr unsigned SDF_LATTICE_ROWS = 8;    // threads per triangle crossed by columns (sign/lattice.h)
constexpr unsigned SDF_POINT_WIDTH = 16;    // threads per point's winding number (winding/warp.h)

// ---- Trees ----

constexpr unsigned SDF_PART = 4;             // triangles per part of a block (trees/packed.h)
constexpr int SDF_MOMENTS = 16;              // floats per node record (winding/moments.h)
constexpr unsigned SDF_SPHERES_ABREAST = 8;  // children per node in a sphere tree (contact/spheres.h)
constexpr unsigned SDF_VECTORS_ABREAST = 8;  // vectors per leaf, and children per node (neighbours/exact.h)

// Every box is enlarged by this margin, in the unit cube: it exceeds the rounding error in distances to the box
// (geometry/boxes.h).
constexpr float SDF_BOX_MARGIN = 9.5367431640625e-07f;

// ---- Lattices and octrees ----

constexpr int SDF_MORTON_BITS = 21;        // per coordinate in a Morton code
constexpr int SDF_LATTICE_BITS = 20;       // per coordinate of an octree corner
constexpr unsigned SDF_SPLIT_LEVELS = 16;  // a field's leaves are on level 0 to 16
constexpr int SDF_CENTRE = 13;             // index of a cell's centre among its 27 points
constexpr int SDF_TOP_LEVEL = 6;           // level whose cells form a table (field/sampler.h)

constexpr float SDF_NO_SHEET = 3.402823466e38f;  // thickness where no sheet exists
constexpr float SDF_SHEET_WIDEST = 8.f;          // in allowed errors: wider sheets are treated as ordinary surface

// Gradients with a cosine below this belong to two sides of a sheet, which meet at 37 degrees at most.
constexpr float SDF_OPPOSED = -0.8f;

constexpr unsigned SDF_OWN_POINTS = 19;  // maximum number of new points per opened cell
constexpr unsigned SDF_PIECES = 8;       // minimum number of chunks of new points, where chunks exceed their least size

// Bit of a leaf's byte, next to its Cause (octree/levels.h): left coarse at a jump of the sign.
constexpr unsigned SDF_CAUSE_JUMP = 0x80u;

// Why a launch of an octree's growth ended (octree/growth.h).
constexpr unsigned SDF_GROWTH_GOES_ON = 0;
constexpr unsigned SDF_GROWTH_DONE = 1;
constexpr unsigned SDF_GROWTH_NO_ROOM = 2;     // an array's capacity has to grow
constexpr unsigned SDF_GROWTH_TO_ANSWER = 3;   // launches that the host has prepared answer queries
constexpr unsigned SDF_GROWTH_TO_MEASURE = 4;  // the host measures new points
constexpr unsigned SDF_GROWTH_TO_PROBE = 5;    // the host queries the distances of cells' centres
constexpr unsigned SDF_GROWTH_TO_LAUNCH = 6;   // the host launches the recorded kernels, as at every stop
constexpr unsigned SDF_GROWTH_TO_AFFORD = 7;   // the host decides which sheets the first cells of level `depth` keep
constexpr unsigned SDF_GROWTH_TO_SAMPLE = 8;   // the host selects the cells whose children are followed

// Kernels that a launch of steps may leave to the host, and bytes for each: its name, then its arguments
// (base/steps.h).
constexpr unsigned SDF_RECORDS = 2;
constexpr unsigned SDF_RECORD_BYTES = 512;
constexpr unsigned SDF_NAME_BYTES = 32;
constexpr unsigned SDF_STEP_SUMS = 8192;  // partial sums of a scan: at least the warps that a GPU runs concurrently
constexpr unsigned SDF_PARTS = 24;        // places in a grid where steps of few items start

constexpr int SDF_TABLE_ROW = 16;  // bytes per case in the marching cubes table

// ---- Signs ----

constexpr int SDF_SIGN_UNKNOWN = 2;  // a point's sign: neither inside (1) nor outside (0) yet
constexpr int SDF_AS_BEFORE = 2;     // a grid node's sign: equal to its predecessor's in the row
constexpr int SDF_TO_ASK = 3;        // a grid node's sign: the signer decides

// Slack for two distances together; the largest error found for one is 6.1e-6, at needles.
constexpr float SDF_DISTANCE_ERROR = 1.6e-5f;

// ---- Meshes (mesh/) ----

constexpr unsigned SDF_FACE_RUN = 32;      // faces per thread in a sum
constexpr unsigned SDF_FACE_TURNED = 1;    // face state: orientation reversed
constexpr unsigned SDF_FACE_LEFT_OUT = 2;  // face state: ignored

// Kind of a text (mesh/text.h), and kinds of its lines.
constexpr unsigned SDF_TEXT_OBJ = 0;
constexpr unsigned SDF_TEXT_STL = 1;
constexpr unsigned SDF_TEXT_POINTS = 2;  // rows of numbers
constexpr unsigned SDF_TEXT_FACES = 3;   // rows of a count and that many vertices
constexpr unsigned SDF_LINE_OTHER = 0;
constexpr unsigned SDF_LINE_VERTEX = 1;
constexpr unsigned SDF_LINE_FACE = 2;
constexpr unsigned SDF_LINE_ODD_VERTEX = 3;  // not in the simplest form
constexpr unsigned SDF_LINE_ODD_FACE = 4;
constexpr unsigned SDF_LINE_FACET = 5;  // start and end of a triangle in an STL file
constexpr unsigned SDF_LINE_END_FACET = 6;
constexpr unsigned SDF_LINE_UNKNOWN = 7;  // OBJ line with an unsupported keyword

// ---- Thickness (verify/thickness.h): bits of a ball's verdict ----

constexpr unsigned SDF_BALL_OPPOSED = 1;   // the surface nearest to the centre lies opposite the ball's point
constexpr unsigned SDF_BALL_FULL = 2;      // not empty, or the centre lies beyond the opposite side
constexpr unsigned SDF_BALL_DOUBTFUL = 4;  // empty, but the centre may lie beyond

// ---- Proofs (verify/prove.h): marks of a leaf ----

constexpr unsigned SDF_PROOF_RUN = 16;     // corners per thread
constexpr unsigned SDF_PROOF_FREE = 1;     // no face lies in it
constexpr unsigned SDF_PROOF_OUTSIDE = 2;  // the centre of a part without faces is outside
constexpr unsigned SDF_PROOF_INSIDE = 4;   // or inside
constexpr unsigned SDF_PROOF_HOLE = 8;     // given up: the sign may change without a face

// ---- Flood (solid/flood.h): labels of a corner; one that both reach at once has both, and counts as inside ----

constexpr unsigned SDF_FLOOD_OUTSIDE = 1;
constexpr unsigned SDF_FLOOD_INSIDE = 2;

// ---- Hausdorff distance (verify/hausdorff.h) ----

constexpr int SDF_PATCH_PARTS = 9;       // maximum parts of a triangle
constexpr unsigned SDF_PATCH_RUN = 256;  // faces per index of the exact query

// ---- Sharp surfaces ----

constexpr int SDF_SPLIT_CORNER = 3;  // an edge split at a corner (surface/sharp.h)

// ---- Particles (flow/particles.h) ----

constexpr int SDF_FLUID = 0;  // particle kind: moving
constexpr int SDF_WALL = 1;   // fixed
constexpr int SDF_GONE = 2;   // unused, or has left the domain

constexpr int SDF_LAYOUT_INDEX = 0;    // particles in index order, buckets as linked lists
constexpr int SDF_LAYOUT_BUCKET = 1;   // fixed capacity per bucket
constexpr int SDF_LAYOUT_COMPACT = 2;  // sorted by bucket without gaps

#endif
