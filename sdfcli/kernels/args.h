/* The arguments of every kernel, declared once in plain C: the compilers of the CPU and GPU kernels read this file, and
 * so does the Python side (backend/base.py), which checks the arrays that it passes against these types. A kernel NAME
 * takes a NAME_args and runs for the indices 0 .. n - 1. Points, boxes and triangles lie in the unit cube.
 */
#ifndef SDFCLI_ARGS_H
#define SDFCLI_ARGS_H

typedef struct {
    unsigned n;
    const double* points;         /* n x 3 */
    unsigned long long* keys;     /* out: n */
} sdf_morton_args;

typedef struct {
    unsigned n;                   /* triangles */
    const double* corners;        /* n x 9 */
    unsigned long long* keys;     /* out: n */
} sdf_triangle_keys_args;

typedef struct {
    unsigned n;             /* 9 x triangles: their coordinates */
    const long long* order; /* triangles, by their keys */
    const double* corners;  /* triangles x 9 */
    unsigned* triangle_id;  /* out: triangles, the order */
    float* triangle;        /* out: n, in that order */
} sdf_triangles_sorted_args;

typedef struct {
    unsigned n;
    const float* points;  /* n x 3, in the unit cube */
    unsigned* keys;       /* out: n, places along the Hilbert curve, of 30 bits */
} sdf_curve_args;

typedef struct {
    unsigned n;          /* threads: whole warps */
    unsigned queries;
    unsigned coarser;    /* bits of places along the Hilbert curve that are passed over */
    const float* points; /* queries x 3, in the unit cube */
    unsigned* key;       /* out: queries */
    unsigned* rank;      /* out: queries: which of the points with this key a point is, in any order */
    unsigned* count;     /* in and out: how many points have a key */
} sdf_curve_count_args; /* GPU only */

typedef struct {
    unsigned n;          /* threads: whole warps */
    unsigned queries;
    const unsigned* key; /* queries */
    const unsigned* rank;
    const unsigned* end; /* of each key, counts summed up */
    unsigned* order;     /* out: queries */
} sdf_curve_place_args; /* GPU only */

typedef struct {
    unsigned n;                   /* points: at most 2^21 */
    const double* points;         /* n x 3, anywhere */
    double x;                     /* the domain's origin */
    double y;
    double z;
    double length;                /* and edge */
    double far;                   /* what lies farther off, in edges, is moved to this distance */
    float* unit;                  /* out: n x 3 */
    double* scale;                /* out: n, what distances from there are multiplied by */
    unsigned long long* keys;     /* out: n, the first 42 bits of the Morton code, then the point's number */
} sdf_look_up_args;

typedef struct {
    unsigned n;
    const unsigned long long* keys;  /* sorted */
    const float* unit;
    const double* scale;
    unsigned* order;                 /* out: n, the points' numbers */
    float* sorted_unit;              /* out: n x 3 */
    double* sorted_scale;            /* out: n */
} sdf_look_up_sorted_args;

typedef struct {
    unsigned n;                     /* internal nodes: triangles - 1 */
    unsigned triangles;
    const unsigned long long* keys; /* triangles, sorted */
    unsigned* child;                /* out: n x 2, marked slots or nodes (trees/child.h) */
    unsigned* node_parent;          /* out: n, SDF_NONE at the root */
    unsigned* leaf_parent;          /* out: triangles */
} sdf_bvh_build_args;

typedef struct {
    unsigned n;               /* triangles */
    const float* triangle;    /* n x 9, in Morton order */
    const unsigned* child;
    const unsigned* node_parent;
    const unsigned* leaf_parent;
    unsigned* arrivals;       /* n - 1 zeros */
    float* box;               /* out: (n - 1) x 6, lower then upper corner */
} sdf_bvh_refit_args;

typedef struct {
    unsigned n;                  /* queries */
    unsigned triangles;
    unsigned seeds;              /* at most so many slots to start from, for each query */
    const float* points;         /* n x 3 */
    const float* triangle;       /* triangles x 9, in Morton order */
    const unsigned* triangle_id; /* triangles: Morton order to the mesh's order */
    const float* node;           /* for baseline: (triangles - 1) x 8, a box and, bit by bit, the two children */
    const unsigned* child;       /* for the others */
    const float* box;
    const unsigned* seed;        /* n x seeds, ended by SDF_NONE */
    float* distance;             /* out: n */
    unsigned* slot;              /* out: n, the nearest triangle's place in Morton order */
    unsigned* boxes;             /* out, of the counting kernels: n, boxes measured */
    unsigned* tests;             /* out, of the counting kernels: n, triangles measured */
} sdf_distance_cct_args;

typedef sdf_distance_cct_args sdf_distance_baseline_args;
typedef sdf_distance_cct_args sdf_distance_soa_args;
typedef sdf_distance_cct_args sdf_distance_baseline_counted_args;
typedef sdf_distance_cct_args sdf_distance_soa_counted_args;
typedef sdf_distance_cct_args sdf_distance_cct_counted_args;

typedef struct {
    unsigned n;                  /* triangles */
    const float* triangle;       /* n x 9 */
    unsigned* block_slot;        /* out: n, the slots in the order of the blocks */
} sdf_wide_order_args; /* CPU only */

typedef struct {
    unsigned n;                  /* blocks of 16 triangles, or nodes of one level of the wide tree */
    unsigned triangles;
    const float* triangle;
    const unsigned* block_slot;  /* triangles: the slots in the order of the blocks */
    float* block;                /* out, for blocks; null for nodes: n x 9 x 16, the corners' coordinates lane by lane */
    const float* own;            /* for nodes: n x 6 x 16, the boxes of their children */
    float* above;                /* out: n / 16 x 6 x 16, boxes as the next level has them, filled up with empty ones */
} sdf_wide_build_args;

typedef struct {
    unsigned n;                  /* queries */
    unsigned triangles;
    unsigned levels;             /* of nodes above the blocks */
    unsigned seeds;              /* at most so many slots to start from, for each query */
    const float* points;         /* n x 3 */
    const float* triangle;       /* by slot */
    const float* block;
    const unsigned* block_slot;
    const float* wide_box;       /* nodes x 6 x 16 */
    const unsigned* level_start; /* levels: each one's first node */
    const unsigned* triangle_id;
    const unsigned* seed;        /* n x seeds, ended by SDF_NONE */
    float* distance;             /* out: n */
    unsigned* slot;              /* out: n */
    unsigned* boxes;             /* out: n, boxes measured; may be null */
    unsigned* tests;             /* out: n, triangles measured; may be null */
} sdf_distance_wide_args; /* CPU only */

typedef struct {
    unsigned n;                      /* threads: whole warps */
    unsigned triangles;
    unsigned bits;                   /* 2^bits cells along an edge of the domain, 8^bits in all */
    const unsigned long long* keys;  /* triangles: Morton codes, sorted */
    unsigned* count;                 /* cells of the curve: how many triangles are in each; 0 before */
    unsigned* last;                  /* out: cells: the slot after the last one of each that is not empty */
} sdf_packet_cells_args; /* GPU only */

typedef struct {
    unsigned n;                      /* threads: whole warps */
    unsigned triangles;
    unsigned bits;                   /* 2^bits cells along an edge of the domain, 8^bits in all */
    const unsigned long long* keys;
    const float* triangle;
    const unsigned* end;             /* cells: how many triangles are in each and those before it */
    const unsigned* last;
    float* placed;                   /* out: triangles x 4: middles, and slots, along the curve */
    unsigned nodes;                  /* above the blocks */
    unsigned* arrivals;              /* out: nodes, 0 */
} sdf_packet_centres_args; /* GPU only */

typedef struct {
    unsigned n;                  /* 32 x parts */
    unsigned triangles;
    unsigned size;               /* of a part, in triangles; the last one may have less */
    unsigned until;              /* parts are cut in halves until they have this size */
    float* placed;               /* triangles x 4 */
    float* cut;                  /* the same; after an odd number of halvings, what is cut is here */
} sdf_packet_cut_args; /* GPU only */

typedef struct {
    unsigned n;                  /* places: 32 x blocks */
    unsigned triangles;
    const float* triangle;
    const unsigned* triangle_id;
    const float* placed;         /* triangles x 4 */
    unsigned* arrivals;          /* in and out: nodes above the blocks: how many children are done; 0 before */
    unsigned* slot_place;        /* out: triangles: places by slot */
    float* record;               /* out: places x 16: what their distances take */
    float* box;                  /* out: nodes, blocks among them, x 4 x 32 x 4: the boxes of their children */
    float* part;                 /* out: blocks / 4, rounded up, x 4 x 32 x 4: the boxes of 4 triangles each */
    float* bounds;               /* out: nodes above the blocks x 6 x 32: as box, along the coordinate axes */
    unsigned* level_start;       /* out: each level's first node */
} sdf_packet_blocks_args; /* GPU only */

typedef struct {
    unsigned n;                  /* threads: whole warps */
    unsigned queries;
    unsigned levels;             /* of nodes, blocks among them */
    unsigned seeds;              /* slots to start from in a row, of which the first is used */
    const float* points;         /* queries x 3 */
    const unsigned* order;       /* queries: the order in which they are taken, neighbours together; null: as they are */
    const unsigned* slot_place;
    const float* record;         /* places x 16 */
    const float* box;            /* nodes x 4 x 32 x 4: the boxes of their children */
    const float* part;           /* blocks / 4, rounded up, x 4 x 32 x 4: the boxes of 4 triangles each */
    const unsigned* level_start; /* levels: each one's first node */
    const unsigned* sample_slot; /* queries / every, rounded up: nearest to samples; null: seeds are used */
    unsigned every;              /* how many queries there are from one sample to the next */
    const unsigned* seed;        /* queries x seeds, ended by SDF_NONE */
    const unsigned* seed_slot;   /* the slot of each seed; null: seeds are slots */
    float* distance;             /* out: queries */
    unsigned* slot;              /* out: queries */
    unsigned* boxes;             /* out: queries, boxes measured by the point's thread; may be null */
    unsigned* tests;             /* out: queries, triangles measured by it; may be null */
} sdf_distance_packet_args; /* GPU only */

typedef sdf_distance_packet_args sdf_distance_sample_args;
typedef sdf_distance_packet_args sdf_distance_lone_args;


typedef struct {
    unsigned n;               /* triangles */
    const float* triangle;
    const unsigned* child;
    const unsigned* node_parent;
    const unsigned* leaf_parent;
    const float* box;
    unsigned* arrivals;       /* n - 1 zeros */
    float* moments;           /* out: (n - 1) x 16, see winding/moments.h */
} sdf_winding_moments_args;

typedef struct {
    unsigned n;               /* queries */
    unsigned triangles;
    const float* points;      /* n x 3 */
    const float* triangle;
    const unsigned* slots;    /* triangles: where they are in `triangle`; null: one after the other */
    const float* moments;
    float beta;               /* 0: exact */
    float* winding;           /* out: n */
} sdf_winding_args;

typedef struct {
    unsigned n;               /* queries */
    const float* points;      /* n x 3 */
    const unsigned* slot;     /* n, the nearest triangle */
    const float* triangle;
    const float* normals;     /* triangles x 7 x 3: vertices a b c, edges ab bc ca, face; in Morton order */
    unsigned char* inside;    /* out: n */
} sdf_pseudonormal_args;

typedef struct {
    unsigned n;               /* triangles */
    const float* triangle;
    const unsigned* child;
    const float* box;
    unsigned all;             /* whether each triangle looks at all others, not at those after it only */
    unsigned* meets;          /* n, 0 before: how many boxes each one's meets; null for all */
    unsigned char* crowded;   /* out: 1, 0 before: whether these are too many somewhere, and the answers not all there */
    unsigned char* crosses;   /* out: n, 0 before, 1 for a triangle that crosses another one */
} sdf_crossing_args;

/* Of a level of an octree, see octree/levels.h: what each array holds an entry of is said with it. Those of the level above are
   null for the root. */

typedef struct {
    unsigned n;                           /* new cells */
    unsigned level;
    unsigned first;                       /* number of the first */
    const unsigned* parent;               /* family */
    const unsigned long long* key;        /* family: Morton key of the parent */
    const unsigned* above_row;            /* cell above */
    const unsigned* above_points;         /* row above, x 27 */
    const float* distance;                /* point: signed */
    const float* gradient;                /* point, x 3; null: worked out */
    const unsigned* slot;                 /* point: nearest triangle */
    unsigned triangles;
    const unsigned long long* triangle_key;
    const float* triangle;
    float tolerance;
    float band;
    float thin_least;                     /* sheets thinner than this, in edges of the domain, are given up */
    unsigned thin_only;                   /* whether only sheets are split on this level */
    unsigned char* wish;                  /* out: n, 0 stays a leaf, 1 is to be opened, 2 is to be probed */
} sdf_octree_screen_args;

typedef struct {
    unsigned n;                           /* new cells */
    unsigned level;
    unsigned first;                       /* number of the first */
    const unsigned* parent;               /* family */
    const unsigned long long* key;        /* family: Morton key of the parent */
    const unsigned* above_row;            /* cell above */
    const unsigned* above_points;         /* row above, x 27 */
    const float* distance;                /* point: signed */
    const float* gradient;                /* point, x 3; null: worked out */
    const unsigned* slot;                 /* point: nearest triangle */
    const float* triangle;
    float tolerance;
    float thin_least;
    float* width;                         /* out: n, of the thinnest sheet in the cell, 3e38 for none */
} sdf_octree_sheets_args;

typedef struct {
    unsigned n;
    unsigned level;
    const unsigned* cells;                /* n, to be probed */
    const unsigned* parent;
    const unsigned long long* key;
    const unsigned* above_row;
    const unsigned* above_points;
    const unsigned* slot;                 /* point: nearest triangle */
    unsigned seeds;                       /* of each, at most */
    float* position;                      /* out: n x 3, the centre */
    unsigned* seed;                       /* out: n x seeds, ended by SDF_NONE */
} sdf_octree_probe_args;

typedef struct {
    unsigned n;
    unsigned level;
    unsigned first;
    const unsigned* cells;                /* n, probed */
    const unsigned* parent;
    const unsigned long long* key;        /* family */
    const unsigned* above_row;
    const unsigned* above_points;
    const float* distance;                /* point: signed */
    const float* gradient;
    const unsigned* slot;                 /* point: nearest triangle */
    const float* triangle;
    const float* centre;                  /* n, unsigned distance of the centre */
    float tolerance;
    float band;
    unsigned char* wish;                  /* out: new cell, 1 is to be opened */
} sdf_octree_probed_args;

typedef struct {
    unsigned n;                           /* new cells, of which closed ones are looked at */
    unsigned level;
    unsigned first;                       /* number of the first */
    const unsigned* parent;
    const unsigned long long* key;        /* family */
    const unsigned* row;                  /* cell: number among the opened cells, or SDF_NONE */
    const unsigned char* state;           /* cell: 0 closed, 1 opening, 2 opened, 3 a jump, 4 split */
    const unsigned* points;               /* row, x 27 */
    const unsigned* above_row;
    const unsigned* above_child;          /* row above: family, or SDF_NONE */
    const unsigned* above_around;         /* row above, x 8: families by side, SDF_NONE: coarser there, SDF_OUTSIDE */
    const unsigned* above_points;
    const float* distance;
    const float* gradient;
    const unsigned* slot;                 /* point: nearest triangle */
    const float* triangle;
    float tolerance;
    float band;
    unsigned char* wish;                  /* out: n, 1 is to be opened */
} sdf_octree_peek_args;

typedef struct {
    unsigned n;                           /* cells to open */
    unsigned first;                       /* row of the first */
    const unsigned* cells;                /* n */
    const unsigned* parent;
    const unsigned* row;
    const unsigned char* state;
    const unsigned* above_row;
    const unsigned* above_child;
    const unsigned* above_around;
    unsigned* around;                     /* out: row, x 8 */
    unsigned* points;                     /* in and out: row, x 27; other opening cells' points as places in their list */
    unsigned* mask;                       /* out: n, the points that each cell owns */
    unsigned* lent;                       /* out: n, the points that other opening cells own */
    unsigned* count;                      /* out: n, of its own */
} sdf_octree_own_args;

typedef struct {
    unsigned n;                           /* opening cells of this piece */
    unsigned level;
    unsigned first;                       /* row of the first opening cell */
    unsigned piece;                       /* place of the piece's first cell among the opening cells */
    unsigned first_point;                 /* number of the first new point */
    unsigned piece_point;                 /* that of the piece */
    const unsigned* cells;                /* opening cells */
    const unsigned* parent;
    const unsigned long long* key;
    const unsigned* above_row;
    const unsigned* above_points;
    const unsigned* mask;
    const unsigned* lent;
    const unsigned* last;                 /* opening cells: running sums of their new points */
    const unsigned* slot;
    unsigned* points;                     /* in and out: row, x 27 */
    unsigned seeds;                       /* of each new point, at most */
    unsigned char* state;                 /* out: cell, opened */
    unsigned* point_row;                  /* out: new points of the piece, the owner's row */
    float* position;                      /* out: new points of the piece, x 3 */
    unsigned* seed;                       /* out: new points of the piece, x seeds, ended by SDF_NONE */
} sdf_octree_points_args;

typedef struct {
    unsigned n;                           /* rows of a level */
    unsigned level;
    const unsigned* cell;                 /* row */
    const unsigned long long* key;        /* family */
    const unsigned* points;               /* row, x 27 */
    unsigned long long* point_key;        /* out: point: Morton key on the lattice */
} sdf_octree_keys_args;

typedef struct {
    unsigned n;                           /* new points */
    const float* position;                /* n x 3 */
    const unsigned* slot;                 /* n, nearest triangle */
    const float* distance;                /* n, unsigned */
    const unsigned char* inside;          /* n: 0, 1, or 2 where the winding number decides; null where normals do */
    const float* winding;                 /* n; may be null */
    const float* normals;                 /* as for sdf_pseudonormal */
    const float* triangle;
    unsigned* nearest;                    /* out: n, the slots once more */
    float* signed_distance;               /* out: n */
    float* gradient;                      /* out: n x 3, of the signed distance; may be null */
} sdf_octree_measured_args;

typedef struct {
    unsigned n;
    const float* points;                  /* n x 3 */
    const unsigned* slot;
    const float* triangle;
    double* nearest;                      /* out: n x 3 */
} sdf_closest_args;

typedef struct {
    unsigned n;
    unsigned level;
    unsigned first;                       /* row of the first, where these follow each other */
    const unsigned* rows;                 /* n; may be null */
    const unsigned* cell;                 /* row */
    const unsigned long long* key;        /* family */
    const unsigned* points;               /* row, x 27 */
    const float* distance;
    const float* gradient;
    const unsigned* slot;                 /* point: nearest triangle */
    unsigned triangles;
    const unsigned long long* triangle_key;
    const float* triangle;
    float tolerance;
    float band;
    float thin_least;                     /* sheets thinner than this, in edges of the domain, are given up */
    unsigned thin_only;                   /* whether only sheets are split on this level */
    float jump_edge;                      /* cells of this edge or less are not split for a jump of the sign */
    unsigned char* asked;                 /* out: cell, where it is to be split: 1, or 2 for the sake of a sheet alone */
    unsigned char* state;                 /* out: cell, where the sign jumps; may be null */
} sdf_octree_test_args;

typedef struct {
    unsigned n;                           /* cells of a level */
    const unsigned char* asked;           /* n, 1 where a cell is to be split */
    const unsigned char* state;           /* n */
    const unsigned* parent;               /* family */
    const unsigned* above_row;
    const unsigned* above_around;
    const unsigned char* above_state;
    unsigned char* above_asked;           /* out: cell above; null where nothing is balanced */
    unsigned char* flag;                  /* in and out: n + 1, first 0 */
} sdf_octree_balance_args;

typedef struct {
    unsigned n;                           /* cells to split */
    unsigned first;                       /* number of the first new family */
    const unsigned* cells;                /* n */
    const unsigned long long* key;        /* family */
    const unsigned* row;                  /* cell */
    const unsigned* around;               /* row, x 8 */
    unsigned char* state;                 /* out: cell */
    unsigned* child;                      /* in and out: row, family below */
    unsigned char* meets_finer;           /* out: cell, 1 for the neighbours of cells that are split */
    unsigned* below_parent;               /* out: family below */
    unsigned long long* below_key;        /* out: family below */
    unsigned* below_row;                  /* in and out: cell below */
    unsigned char* below_state;           /* out: cell below */
    unsigned char* below_asked;           /* out: cell below */
    unsigned char* below_meets_finer;     /* out: cell below */
    unsigned* below_around;               /* in and out: row below, x 8: older ones learn of the new family */
} sdf_octree_children_args;

typedef struct {
    unsigned n;                           /* cells to open */
    unsigned first;                       /* row of the first */
    const unsigned* cells;                /* n */
    unsigned* row;                        /* out: cell */
    unsigned char* state;                 /* out: cell */
    unsigned* cell;                       /* out: row */
    unsigned* child;                      /* out: row, none yet */
} sdf_octree_opening_args;

typedef struct {
    unsigned n;                           /* cells of a level, of which leaves are looked at */
    const unsigned* parent;
    const unsigned* row;
    const unsigned char* state;
    const unsigned char* meets_finer;
    const unsigned* points;               /* row, x 27 */
    const unsigned* above_row;
    const unsigned* above_child;
    const unsigned* above_around;
    const unsigned* above_points;
    float* value;                         /* in and out: point, the field's value */
    unsigned char* hanging;               /* out: point, 1 for those that take a leaf's value */
} sdf_octree_constrain_args;

typedef struct {
    unsigned n;                           /* cells of a level, of which leaves are looked at */
    unsigned level;
    const unsigned* parent;
    const unsigned long long* key;        /* family */
    const unsigned* row;
    const unsigned char* state;
    const unsigned* points;               /* row, x 27 */
    const unsigned* above_row;
    const unsigned* above_around;
    const unsigned* above_points;
    const unsigned char* above_state;
    const float* distance;                /* point: true signed distance */
    const float* gradient;
    const unsigned* slot;                 /* point: nearest triangle */
    const float* triangle;
    const float* value;
    const unsigned char* hanging;
    float tolerance;
    float band;
    float thin_least;                     /* sheets thinner than this, in edges of the domain, are given up */
    unsigned char* above_asked;           /* out: cell above, 1 where it is to be split */
    unsigned char* any;                   /* out: 1 if there is any */
} sdf_octree_tighten_args;

typedef struct {
    unsigned n;                           /* rows of a level */
    const unsigned* points;               /* row, x 27 */
    const float* value;                   /* point */
    const unsigned char* hanging;         /* point */
    const unsigned* fine;                 /* point: bits, see sdf_octree_sheet_points; may be null */
    int parts;                            /* steps to which values are rounded where there are no bits */
    double step;
    float* rounded;                       /* in and out: point */
    int* steps;                           /* out: point */
} sdf_octree_round_args;

typedef struct {
    unsigned n;                           /* cells of a level, of which leaves are looked at */
    unsigned level;
    const unsigned* parent;               /* family */
    const unsigned long long* key;        /* family */
    const unsigned char* state;
    const unsigned* above_row;
    const unsigned* above_points;
    const float* distance;                /* point: signed */
    const float* gradient;
    const unsigned* slot;
    const float* triangle;
    float thin_least;
    float tolerance;
    float step;                           /* to which distances are rounded elsewhere, in edges of the domain */
    float share;                          /* of a sheet's thickness: steps are no larger around it */
    unsigned parts;                       /* of a step at most, a power of two */
    unsigned* fine;                       /* out: point, bits: how often the step is halved */
} sdf_octree_sheet_points_args;

typedef struct {
    unsigned n;                           /* cells of a level, of which leaves are looked at */
    const unsigned* parent;               /* family */
    const unsigned char* state;
    const unsigned* above_row;
    const unsigned* above_points;
    const float* distance;                /* point: signed */
    unsigned on_surface;                  /* whether only leaves count through which the surface passes */
    const unsigned* before;               /* point */
    unsigned* fine;                       /* in and out: point, at first as before */
} sdf_octree_beside_sheets_args;

typedef struct {
    unsigned n;                           /* families of a level */
    const unsigned* parent;
    const unsigned* held;                 /* cell, the leaves in it */
    unsigned* above_held;                 /* out: cell above */
} sdf_octree_held_args;

typedef struct {
    unsigned n;                           /* families of a level */
    const unsigned* parent;
    const unsigned* above_rank;           /* cell above */
    unsigned* rank;                       /* in and out: cell, first the leaves in it */
} sdf_octree_rank_args;

typedef struct {
    unsigned n;                           /* cells of a level */
    unsigned level;
    const unsigned* parent;
    const unsigned long long* key;
    const unsigned char* state;
    const unsigned* above_row;
    const unsigned* above_points;
    const unsigned* rank;                 /* cell: a leaf's number among the leaves */
    unsigned long long* leaf_key;         /* out: leaf */
    unsigned char* leaf_level;            /* out: leaf */
    unsigned char* used;                  /* out: point, 1 for a corner of a leaf */
} sdf_octree_leaves_args;

typedef struct {
    unsigned n;                           /* cells of a level */
    const unsigned* parent;
    const unsigned char* state;
    const unsigned* above_row;
    const unsigned* above_points;
    const unsigned* place;                /* point: its number among the corners */
    const unsigned* rank;                 /* cell: a leaf's number among the leaves */
    unsigned* leaf_corner;                /* out: leaf, x 8 */
} sdf_octree_corners_args;

typedef struct {
    unsigned n;                           /* new points */
    unsigned first;                       /* number of the first */
    const unsigned* point_row;            /* n, their owners' rows */
    const unsigned* points;               /* row, x 27 */
    float step;                           /* half an edge of the cells */
    const float* signed_distance;         /* older point */
    const float* distance;                /* n, unsigned */
    const unsigned char* before;          /* n, what the first pass found: 0, 1, or 2 where not known; null in that */
    const float* position;                /* n x 3 */
    unsigned groups;                      /* of caps, as for sdf_sign_clear */
    const float* box;
    const float* area;
    float* clear;                         /* in and out: point; null: a closed surface */
    unsigned char* inside;                /* out: n, 0, 1, or 2 where not known */
    unsigned long long* link;             /* out: n, 0 where the sign is not known; may be null */
} sdf_sign_inherit_args;

typedef struct {
    unsigned n;                             /* points, along a curve */
    const float* points;                    /* n x 3 */
    const float* distance;                  /* unsigned, to all at which the sign, or what is handed on, changes */
    unsigned* link;                         /* out: n */
} sdf_sign_link_args;

typedef struct {
    unsigned n;                             /* leaves */
    unsigned corners;
    const unsigned long long* leaf_key;
    const unsigned char* leaf_level;
    const unsigned long long* corner_key;   /* sorted */
    unsigned* leaf_corner;                  /* out: n x 8 */
} sdf_field_corners_args;

typedef struct {
    unsigned n;                             /* corners of one level, after those of all coarser ones */
    unsigned corners;
    unsigned level;
    const unsigned* corner;                 /* n, their numbers */
    const unsigned long long* corner_key;   /* sorted */
    const unsigned char* hanging;           /* of every corner: 1 where it takes the mean of those around it */
    double step;
    float* value;                           /* in and out: of every corner */
    int* residual;                          /* out: n, in steps */
} sdf_corner_quantise_args;

typedef struct {
    unsigned n;                             /* as for sdf_corner_quantise */
    unsigned corners;
    unsigned level;
    const unsigned* corner;
    const unsigned long long* corner_key;
    const int* residual;                    /* n, in steps */
    double step;
    float* value;                           /* out: of every corner */
} sdf_corner_restore_args;

typedef struct {
    unsigned n;                             /* leaves */
    const unsigned long long* leaf_key;     /* sorted */
    const unsigned char* leaf_level;
    unsigned* count;                        /* out: n, of the nodes that begin with a leaf */
} sdf_leaf_count_args;

typedef struct {
    unsigned n;                             /* leaves */
    const unsigned long long* leaf_key;
    const unsigned char* leaf_level;
    const unsigned* end;                    /* n, running sums of the counts */
    unsigned long long* node_key;           /* out: nodes */
    unsigned char* node_level;              /* out: nodes */
} sdf_leaf_list_args;

typedef struct {
    unsigned n;                             /* nodes; or 2^15 cells of level 5 */
    unsigned leaves;
    const unsigned long long* leaf_key;     /* sorted */
    const unsigned char* leaf_level;
    const unsigned long long* node_key;     /* cells of level 6 and finer that are no leaves, by level, then sorted */
    const unsigned char* node_level;
    const unsigned* first_node;             /* 22, of each level */
    unsigned* entry;                        /* out: n x 8, a marked leaf, or a node; of level 6 x fastest */
} sdf_leaf_nodes_args;

typedef sdf_leaf_nodes_args sdf_leaf_top_args;

typedef struct {
    unsigned n;                             /* points */
    const double* points;                   /* n x 3, in the mesh's units; null where `single` is given */
    const float* single;                    /* n x 3 */
    double origin_x;                        /* of the domain, in the mesh's units */
    double origin_y;
    double origin_z;
    double length;                          /* edge of the domain in the mesh's units */
    const unsigned char* leaf_level;
    const float* leaf_value;                /* leaves x 8, in the mesh's units */
    const unsigned* top;                    /* 2^18, from sdf_leaf_top */
    const unsigned* child;                  /* nodes x 8, from sdf_leaf_nodes */
    unsigned* marks;                        /* in and out: marks[0] is 1 where a point is not finite */
    double* result;                         /* out: n; may be null */
    double* gradient;                       /* out: n x 3; may be null */
    unsigned* leaf_of;                      /* out: n; may be null */
} sdf_field_sample_args;

/* A picture of the level set (surface/render.h). Lengths are in edges of the domain where nothing else is said. */
typedef struct {
    unsigned n;                             /* pixels, row by row */
    unsigned first;                         /* so many lie before them, from the top */
    unsigned width;
    unsigned height;
    const unsigned long long* leaf_key;     /* sorted */
    const unsigned char* leaf_level;
    const unsigned* leaf_corner;
    const unsigned* first_leaf;             /* 2^18 + 1 */
    const float* value;                     /* of the corners, in the mesh's units */
    double length;                          /* edge of the domain in the mesh's units */
    double iso;                             /* the level, in the mesh's units */
    double error;                           /* of the field, near the surface */
    double slack;                           /* of the field, as a part of the distance */
    double error_at_level;
    double reach;                           /* how far ambient occlusion looks */
    double smoothing;                       /* the least way over which normals are taken, to both sides */
    double pixel_size;                      /* of a pixel at distance 1 */
    const double* camera;                   /* 4 x 3: the eye; then of length 1: to the right, up, forward */
    const unsigned char* rough;             /* height x width x 3, with one ray a pixel; null: that is what to make */
    unsigned char* pixel;                   /* out: height x width x 3, red, green, blue */
    double* depth;                          /* out: height x width, from the eye, negative for nothing; may be null */
    double* normal;                         /* out: height x width x 3; may be null */
} sdf_render_args;

typedef struct {
    unsigned n;                             /* points */
    unsigned leaves;
    const float* points;                    /* n x 3, in the unit cube of the new field */
    double scale;                           /* from there to the unit cube of the earlier field */
    double shift_x;
    double shift_y;
    double shift_z;
    const unsigned long long* leaf_key;     /* of the earlier field, sorted */
    const unsigned char* leaf_level;
    const unsigned* leaf_corner;
    const unsigned* nearest;                /* of the earlier field's corners: triangles in the mesh's order */
    const unsigned* slot_of;                /* triangles: the mesh's order to Morton order */
    unsigned* seed;                         /* out: n */
} sdf_previous_args;

typedef struct {
    unsigned n;                             /* points */
    unsigned leaves;                        /* a power of two */
    unsigned leaf_size;                     /* triangles in each leaf */
    const double* points;                   /* n x 3 */
    const double* triangle;                 /* leaves x leaf_size x 9 */
    const double* box;                      /* (2 leaves - 1) x 6; node k has the children 2 k + 1 and 2 k + 2 */
    double* distance;                       /* out: n */
} sdf_exact_distance_args;

typedef struct {
    unsigned n;                             /* points */
    unsigned leaves;
    unsigned leaf_size;
    unsigned open_edges;
    unsigned rays;                          /* at least 1 */
    const double* points;                   /* n x 3 */
    const double* triangle;
    const double* box;
    const double* open_edge;                /* open_edges x 6, from and to */
    const double* multiplicity;             /* open_edges */
    const double* ray;                      /* rays x 3, unit vectors with no zero component, tried in turn */
    double* winding;                        /* out: n */
} sdf_exact_winding_args;

typedef struct {
    unsigned n;                             /* nodes of a uniform grid: side^3, x fastest */
    unsigned side;
    float spacing;                          /* 1 / (side - 1), a power of two */
    const float* distance;                  /* unsigned, and right where it is not above the spacing */
    unsigned char* sign;                    /* out: n, SDF_AS_BEFORE or SDF_TO_ASK */
} sdf_grid_doubt_args;

typedef struct {
    unsigned n;                             /* rows: side^2 */
    unsigned side;
    const unsigned char* sign;              /* of every node: 1 inside, 0 outside, or SDF_AS_BEFORE */
    float* distance;                        /* in and out: of every node */
} sdf_grid_sign_args;

typedef struct {
    unsigned n;                             /* nodes of a uniform grid */
    unsigned side;
    float spacing;
    unsigned step;                          /* in nodes */
    const float* position;                  /* of the seeds, x 3 */
    const unsigned* carried;                /* n, numbers of seeds; SDF_NONE: none yet */
    unsigned* nearer;                       /* out: n */
} sdf_flood_pass_args;

typedef struct {
    unsigned n;                             /* nodes of a uniform grid */
    unsigned side;
    float spacing;
    const unsigned* carried;                /* n, numbers of seeds or SDF_NONE */
    const unsigned* slot;                   /* of the seeds: their triangles */
    const float* triangle;
    float* distance;                        /* out: n; the largest float without a seed */
} sdf_flood_distance_args;

/* Isosurfaces (surface/marching_cubes.h). A grid has cells[0] x cells[1] x cells[2] cells, and nodes from 0 to cells[k] along an
 * axis. Its bricks are blocks of 8 x 8 x 8 nodes, numbered x fastest; a word is one of a brick's eight layers.
 */
typedef struct {
    unsigned n;                             /* leaves */
    const unsigned* leaf_corner;
    const float* value;
    float iso;
    unsigned char* side;                    /* out: n; 1 inside, 0 outside, 2 both */
    unsigned* around;                       /* in and out: bit c of a corner: it is corner c of a leaf; may be null */
} sdf_leaf_side_args;

typedef struct {
    unsigned n;                             /* corners */
    const unsigned* around;                 /* n, from sdf_leaf_side */
    const unsigned long long* corner_key;
    const float* value;
    const unsigned long long* leaf_key;
    const unsigned char* leaf_level;
    const unsigned* first_leaf;             /* 2^18 + 1 */
    const unsigned char* side;
    float iso;
    unsigned char* meets;                   /* in and out: 1 for leaves that touch a corner on the other side */
} sdf_leaf_meets_args;

typedef struct {
    unsigned n;                             /* leaves that may hold the surface */
    const unsigned* leaf;                   /* n */
    const unsigned long long* leaf_key;
    const unsigned char* leaf_level;
    const unsigned* cells;                  /* 3 */
    const unsigned* first;                  /* n, where each leaf's bricks begin; null: count only */
    unsigned* count;                        /* out: n; may be null */
    unsigned long long* brick;              /* out: the bricks that hold nodes of cells at the leaf; may be null */
} sdf_leaf_bricks_args;

typedef struct {
    unsigned n;                             /* bricks */
    const unsigned long long* brick;        /* n, sorted */
    const unsigned* cells;
    unsigned* neighbour;                    /* out: n x 8 places in `brick`, SDF_NONE where one is not there */
} sdf_brick_neighbours_args;

typedef struct {
    unsigned n;                             /* 8 x bricks */
    const unsigned long long* brick;
    const unsigned* cells;
    const unsigned long long* leaf_key;
    const unsigned char* leaf_level;
    const unsigned* first_leaf;
    const unsigned* leaf_corner;
    const unsigned char* side;
    const float* value;
    float iso;
    unsigned long long* inside;             /* out: n words */
} sdf_field_inside_args;

typedef struct {
    unsigned n;                             /* 8 x bricks, whole layers of them */
    const unsigned* cells;
    unsigned first_layer;                   /* of nodes, the first in `volume` */
    const float* volume;                    /* nodes of some layers, x fastest */
    float iso;
    unsigned long long* inside;             /* out: n words */
} sdf_volume_inside_args;

typedef struct {
    unsigned n;                             /* words */
    const unsigned long long* brick;
    const unsigned* cells;
    const unsigned* neighbour;
    const unsigned long long* inside;
    unsigned long long* active;             /* out: n words, the nodes whose cells the surface meets */
    unsigned* count;                        /* out: n */
} sdf_cell_flags_args;

typedef struct {
    unsigned n;                             /* words */
    const unsigned long long* brick;
    const unsigned* cells;
    const unsigned* neighbour;
    const unsigned long long* inside;
    const unsigned long long* active;
    const unsigned* first;                  /* n, the number of each word's first active cell */
    const unsigned char* table;             /* 256 x 16, see extract/tables.py */
    unsigned* cell;                         /* out: active cells, 64 x word + place in it */
    unsigned char* cases;                   /* out: of the active cells */
    unsigned* vertices;                     /* out: of the active cells, how many each one owns */
    unsigned* triangles;                    /* out: of the active cells, how many each one has */
    unsigned* marks;                        /* in and out: marks[0] is 1 where the surface meets the border of the grid */
} sdf_cell_cases_args;

typedef struct {
    unsigned n;                             /* active cells */
    const unsigned* cell;
    const unsigned char* cases;
    const unsigned* first_vertex;           /* n */
    const unsigned long long* brick;
    const unsigned* cells;
    const double* frame;                    /* 6: position of node 0, distance of neighbouring nodes */
    unsigned reversed;                      /* 1: positions are written z, y, x */
    const unsigned long long* leaf_key;
    const unsigned char* leaf_level;
    const unsigned* first_leaf;
    const unsigned* leaf_corner;
    const float* value;
    float iso;
    unsigned* marks;                        /* in and out: marks[1] is 1 where a value is not finite */
    double* position;                       /* out: vertices x 3 */
} sdf_field_vertices_args;

typedef struct {
    unsigned n;                             /* active cells */
    const unsigned* cell;
    const unsigned char* cases;
    const unsigned* first_vertex;
    const unsigned long long* brick;
    const unsigned* cells;
    const double* frame;
    unsigned reversed;
    unsigned first_layer;
    const float* volume;
    float iso;
    unsigned* marks;                        /* in and out: marks[1] is 1 where a value is not finite */
    double* position;                       /* out: vertices x 3 */
} sdf_volume_vertices_args;

typedef struct {
    unsigned n;                             /* active cells */
    const unsigned* cell;
    const unsigned char* cases;
    const unsigned* first_vertex;           /* of these cells and those after them that share their vertices */
    const unsigned* first_triangle;         /* n */
    const unsigned* neighbour;
    const unsigned long long* active;
    const unsigned* first;
    const unsigned char* table;
    unsigned reversed;                      /* 1: the other orientation */
    unsigned base;                          /* added to every vertex number */
    unsigned* triangle;                     /* out: triangles x 3 */
} sdf_cell_triangles_args;

typedef struct {
    unsigned n;                             /* threads: count / 4, rounded up */
    unsigned long long count;
    unsigned long long base;
    unsigned* values;                       /* in and out: count */
} sdf_scan_add_args;

typedef struct {
    unsigned n;
    unsigned long long count;
    unsigned long long base;
    unsigned long long* values;
} sdf_scan_add_wide_args;

typedef struct {
    unsigned n;                             /* threads: whole warps */
    unsigned count;                         /* points */
    unsigned triangles;
    unsigned caps;                          /* triangles that close the surface's holes; 0: none, or not asked for */
    unsigned steps;
    const float* points;                    /* count x 3 */
    const unsigned* asked;                  /* those that are asked for; null: all */
    const unsigned* many;                   /* how many these are; null: count */
    const float* triangle;
    const unsigned* slots;                  /* triangles: where they are in `triangle`; null: one after the other */
    const float* moments;
    const float* caps_triangle;
    const float* caps_moments;
    const float* step;                      /* steps x 2: how near to the level 0.5, and beta for the caps there */
    float beta;                             /* 0: exact */
    float lost;                             /* by how much the caps may change a winding number */
    float* winding;                         /* out: count */
} sdf_winding_lone_args; /* GPU only */

typedef struct {
    unsigned n;                             /* threads: a warp for each run of 256 points */
    unsigned count;                         /* points */
    const unsigned long long* link;         /* count */
    unsigned* asked;                        /* out: up to count, the points whose link is 0 */
    unsigned* many;                         /* how many are listed: 0 before */
} sdf_sign_asked_args; /* GPU only */

typedef struct {
    unsigned n;                             /* points */
    unsigned groups;                        /* of caps */
    const float* points;                    /* n x 3 */
    const float* box;                       /* groups x 6 */
    const float* area;                      /* groups, over 4 pi times the winding number that is small */
    float* clear;                           /* out: n */
} sdf_sign_clear_args;

typedef struct {
    unsigned n;                             /* split cells */
    const unsigned long long* cell;
    const unsigned* point;                  /* n x 27, from sdf_split_points */
    const float* distance;                  /* of the corners, unsigned */
    const float* clear;                     /* of the corners; may be null: a closed surface */
    unsigned long long* link;               /* in and out: of the corners, a neighbour as a number; 0: none */
} sdf_sign_links_args;

typedef struct {
    unsigned n;                             /* corners */
    const unsigned long long* link;
    const float* winding;                   /* of those that are alone */
    float* distance;                        /* in and out: n, without a sign, then with it */
} sdf_sign_spread_args;

/* Octrees as lists of split cells (octree/cells.h). A cell is its Morton code on the lattice, shifted by 4 bits, plus its level. */
typedef struct {
    unsigned n;                             /* keys - 1: pairs of neighbours */
    unsigned depth;                         /* cells of this level are not split */
    const unsigned long long* keys;         /* n + 1 Morton codes, sorted */
    unsigned* count;                        /* out: n, the split cells that begin at each pair */
} sdf_split_count_args;

typedef struct {
    unsigned n;
    unsigned depth;
    const unsigned long long* keys;
    const unsigned* end;                    /* n, the running sums of the counts */
    unsigned long long* cell;               /* out: the split cells, sorted */
} sdf_split_cells_args;

typedef struct {
    unsigned n;                             /* 8 x split cells: their children */
    unsigned splits;
    const unsigned long long* cell;         /* sorted */
    unsigned long long* leaf_key;           /* out: 7 x splits + 1, sorted */
    unsigned char* leaf_level;              /* out */
    unsigned* leaf_child;                   /* out: which child each leaf is, 8 x split cell + octant */
} sdf_split_leaves_args;

typedef struct {
    unsigned n;                             /* split cells */
    unsigned depth;                         /* they are on the levels above it */
    const unsigned long long* cell;
    unsigned* kin;                          /* out: 15 x n, see octree/cells.h */
    unsigned* count;                        /* out: depth x n, how many points each cell owns; 0 on other levels */
} sdf_split_own_args;

typedef struct {
    unsigned n;                             /* 27 x split cells: their points */
    unsigned splits;
    unsigned low_bits;                      /* of the keys of corners, all of them 0 */
    const unsigned long long* cell;
    const unsigned* kin;
    const unsigned* end;                    /* depth x splits, the running sums of the counts */
    unsigned* point;                        /* out: n, which corners they are: level by level, cell by cell; or null */
    unsigned* near;                         /* out: of the corners, one of a level above nearby or SDF_NONE; or null */
    float* position;                        /* out: corners x 3, in the unit cube; or null */
    unsigned* short_code;                   /* out: corners: their keys without low_bits */
    unsigned long long* code;               /* out: the same where 32 bits are too few, and short_code is null */
} sdf_split_points_args;

typedef struct {
    unsigned n;                             /* corners */
    unsigned low_bits;
    const unsigned* short_code;             /* sorted; or null */
    const unsigned long long* code;
    const long long* order;                 /* n, where each one was */
    unsigned long long* corner_key;         /* out: n */
    unsigned* place;                        /* out: n, the inverse of the order */
} sdf_corner_sorted_args;

typedef struct {
    unsigned n;                             /* corners */
    const unsigned* place;                  /* of each one in Morton order */
    const float* distance;
    const unsigned* slot;
    const unsigned* triangle_id;            /* by slot */
    float* placed_distance;                 /* out: n */
    unsigned* nearest;                      /* out: n, numbers of triangles */
} sdf_corner_placed_args;

typedef struct {
    unsigned n;                             /* 8 x leaves */
    const unsigned* leaf_child;
    const unsigned* point;                  /* 27 x split cells */
    const unsigned* place;                  /* of the corners in Morton order */
    unsigned* leaf_corner;                  /* out: n, places */
} sdf_split_leaf_corners_args;

typedef struct {
    unsigned n;                             /* corners */
    const unsigned long long* corner_key;
    unsigned char* level;                   /* out: n, the first whose cells have it */
} sdf_corner_level_args;

typedef struct {
    unsigned n;                             /* threads: a warp for a run of 256 entries */
    unsigned count;                         /* entries */
    unsigned levels;                        /* at most 32 */
    const unsigned char* level;             /* of the entries */
    unsigned* counts;                       /* out: levels x runs */
} sdf_level_count_args; /* GPU only */

typedef struct {
    unsigned n;
    unsigned count;
    unsigned levels;
    unsigned first;                         /* number of the first entry */
    const unsigned char* level;
    const unsigned* end;                    /* levels x runs, the running sums of the counts */
    unsigned* order;                        /* out: count, the entries by level */
    unsigned* ends;                         /* out: levels, where each one ends */
} sdf_level_order_args; /* GPU only */

typedef struct {
    unsigned n;                             /* 32 */
    unsigned count;                         /* entries, at most 32 x 1023 */
    unsigned first;                         /* number of the first */
    const unsigned char* wish;              /* count, 0 to 3 */
    unsigned* chosen;                       /* out: the entries with 1, then 2, then 3 */
    unsigned* last;                         /* out: 3, where each ends */
} sdf_chosen_args; /* GPU only */

#endif
