// Constants that several headers share, or that Python reads: sdfcli.backend.C.NAME is SDF_NAME here.
#ifndef SDFCLI_BASE_CONSTANTS_H
#define SDFCLI_BASE_CONSTANTS_H

constexpr unsigned SDF_NONE = 0xffffffffu;     // "no such cell, point or triangle"
constexpr unsigned SDF_LEAF = 0x80000000u;     // of a tree's children: marks a leaf
constexpr unsigned SDF_OUTSIDE = 0xfffffffeu;  // a neighbour position outside of the domain

// No distance is as large as SDF_UNKNOWN, and no bound of a box as large as SDF_NO_BOX.
constexpr float SDF_UNKNOWN = 3.4e38f;
constexpr float SDF_NO_BOX = 3.402823466e38f;

// ---- Threads ----

constexpr int SDF_LANES = 16;               // floats that the CPU takes together (base/simd.h)
constexpr int SDF_WARP = 32;                // threads of a warp
constexpr int SDF_BLOCK_WARPS = 4;          // warps of a thread block
constexpr int SDF_RUN = 256;                // entries that a warp counts (base/sort.h)
constexpr unsigned SDF_SCAN_RUNS = 1024;    // runs of numbers whose sums are added up at a time (base/scan.h)
constexpr unsigned SDF_BYTES_PIECE = 256;   // bytes that are copied for an index (base/bytes.h)
constexpr unsigned SDF_BYTES_APART = 1024;  // of which one is written: no page is smaller (base/bytes.h)
constexpr int SDF_LINK_ROUNDS = 8;          // times 32 links that a warp looks at (sign/corners.h)
constexpr unsigned SDF_LATTICE_ROWS = 8;    // threads of a triangle that columns cross (sign/lattice.h)
constexpr unsigned SDF_POINT_WIDTH = 16;    // threads that sum up the winding number of a point (winding/warp.h)

// ---- Trees ----

constexpr unsigned SDF_PART = 4;             // triangles in a part of a block (trees/packed.h)
constexpr int SDF_MOMENTS = 16;              // floats of a node's record (winding/moments.h)
constexpr unsigned SDF_SPHERES_ABREAST = 8;  // children of a node of a tree of spheres (contact/spheres.h)
constexpr unsigned SDF_VECTORS_ABREAST = 8;  // vectors of a leaf, and children of a node (neighbours/exact.h)

// Every box is grown by this much, in the unit cube: more than the rounding of a distance to it (geometry/boxes.h).
constexpr float SDF_BOX_MARGIN = 9.5367431640625e-07f;

// ---- Lattices and octrees ----

constexpr int SDF_MORTON_BITS = 21;   // of a coordinate in a Morton code
constexpr int SDF_LATTICE_BITS = 20;  // of a coordinate of an octree's corners
constexpr int SDF_CENTRE = 13;        // the point in the middle of a cell's 27
constexpr int SDF_TOP_LEVEL = 6;      // the level whose cells are a table (field/sampler.h)

constexpr float SDF_NO_SHEET = 3.402823466e38f;  // the thickness where there is no sheet
constexpr float SDF_SHEET_WIDEST = 8.f;          // in tolerances: wider sheets are like any other part of the surface

// Gradients whose cosine is below this belong to two sides of a sheet: these meet at 37 degrees at most.
constexpr float SDF_OPPOSED = -0.8f;

constexpr unsigned SDF_OWN_POINTS = 19;  // of an opened cell, at most

// Of a leaf's byte, beside its parent's Cause (octree/levels.h): it was left coarse at a jump of the sign.
constexpr unsigned SDF_CAUSE_JUMP = 0x80u;

// Why a launch of visits ends (octree/visit.h): nothing is left; room is wanted; many points are to be asked for; many
// new cells are to be looked at; the first cells of the finest level for the tolerance tell which sheets are kept.
constexpr unsigned SDF_VISITS_GO_ON = 0;
constexpr unsigned SDF_VISITS_DONE = 1;
constexpr unsigned SDF_VISITS_NO_ROOM = 2;
constexpr unsigned SDF_VISITS_TO_ASK = 3;
constexpr unsigned SDF_VISITS_TO_CONSIDER = 4;
constexpr unsigned SDF_VISITS_TO_AFFORD = 5;

constexpr int SDF_TABLE_ROW = 16;  // bytes of a case in the table of marching cubes

// ---- Signs ----

constexpr int SDF_SIGN_UNKNOWN = 2;  // of a point: neither inside (1) nor outside (0) yet
constexpr int SDF_AS_BEFORE = 2;     // of a node of a grid: that of the node before it in its row
constexpr int SDF_TO_ASK = 3;        // of a node of a grid: to be decided by the signer

// Slack of two distances together; 6.1e-6 is the largest error found for one, at needles.
constexpr float SDF_DISTANCE_ERROR = 1.6e-5f;

// ---- Meshes (mesh/) ----

constexpr unsigned SDF_FACE_RUN = 32;      // faces that a thread sums up
constexpr unsigned SDF_FACE_TURNED = 1;    // state of a face: its corners count in the other order
constexpr unsigned SDF_FACE_LEFT_OUT = 2;  // it does not count

// What a text is (mesh/text.h), and what its lines are.
constexpr unsigned SDF_TEXT_OBJ = 0;
constexpr unsigned SDF_TEXT_STL = 1;
constexpr unsigned SDF_TEXT_POINTS = 2;  // rows of numbers
constexpr unsigned SDF_TEXT_FACES = 3;   // rows of a count and as many vertices
constexpr unsigned SDF_LINE_OTHER = 0;
constexpr unsigned SDF_LINE_VERTEX = 1;
constexpr unsigned SDF_LINE_FACE = 2;
constexpr unsigned SDF_LINE_ODD_VERTEX = 3;  // not in the plainest form
constexpr unsigned SDF_LINE_ODD_FACE = 4;
constexpr unsigned SDF_LINE_FACET = 5;  // the start and the end of a triangle in an STL file
constexpr unsigned SDF_LINE_END_FACET = 6;
constexpr unsigned SDF_LINE_UNKNOWN = 7;  // in an OBJ file: with a keyword that is not known here

// ---- Thickness (verify/thickness.h): bits of what is said of a ball ----

constexpr unsigned SDF_BALL_OPPOSED = 1;   // the surface nearest to its centre lies opposite its point
constexpr unsigned SDF_BALL_FULL = 2;      // it is not empty, or its centre lies beyond the other side
constexpr unsigned SDF_BALL_DOUBTFUL = 4;  // it is empty, but its centre may lie beyond

// ---- Particles (flow/particles.h) ----

constexpr int SDF_FLUID = 0;  // a kind of particle: one that moves
constexpr int SDF_WALL = 1;   // one that does not
constexpr int SDF_GONE = 2;   // none, or one that has left the domain

constexpr int SDF_LAYOUT_INDEX = 0;    // particles in the order of their numbers, buckets as linked lists
constexpr int SDF_LAYOUT_BUCKET = 1;   // a fixed number of places a bucket
constexpr int SDF_LAYOUT_COMPACT = 2;  // sorted by bucket without gaps

#endif
