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
    unsigned n;
    const unsigned long long* keys;  /* Morton codes */
    unsigned long long* hilbert;     /* out: n */
} sdf_hilbert_args;

typedef struct {
    unsigned n;                     /* internal nodes: triangles - 1 */
    unsigned triangles;
    const unsigned long long* keys; /* triangles, sorted */
    unsigned* child;                /* out: n x 2, SDF_LEAF | slot or a node */
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
    const float* points;         /* n x 3 */
    const float* triangle;       /* triangles x 9, in Morton order */
    const unsigned* triangle_id; /* triangles: Morton order to the mesh's order */
    const unsigned* child;
    const float* box;
    const unsigned* seed;        /* n x 8 slots to start from, ended by SDF_NONE; may be null */
    float* distance;             /* out: n */
    unsigned* slot;              /* out: n, the nearest triangle's place in Morton order */
} sdf_distance_cct_args;

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
    const float* points;         /* n x 3 */
    const float* triangle;       /* by slot */
    const float* block;
    const unsigned* block_slot;
    const float* wide_box;       /* nodes x 6 x 16 */
    const unsigned* level_start; /* levels: each one's first node */
    const unsigned* triangle_id;
    const unsigned* seed;        /* n x 8 slots to start from, ended by SDF_NONE; may be null */
    float* distance;             /* out: n */
    unsigned* slot;              /* out: n */
} sdf_distance_wide_args; /* CPU only */

typedef struct {
    unsigned n;               /* triangles */
    const float* triangle;
    const unsigned* child;
    const unsigned* node_parent;
    const unsigned* leaf_parent;
    const float* box;
    unsigned* arrivals;       /* n - 1 zeros */
    float* moments;           /* out: (n - 1) x 17 */
} sdf_winding_moments_args;

typedef struct {
    unsigned n;               /* queries */
    unsigned triangles;
    const float* points;      /* n x 3 */
    const float* triangle;
    const unsigned* child;
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
    unsigned char* crosses;   /* out: n, 1 for a triangle that crosses another one */
} sdf_crossing_args;

typedef struct {
    unsigned n;                           /* 8 x cells to split */
    unsigned first;                       /* number of the first new cell */
    const unsigned* parents;              /* n / 8 cells of the level above */
    const unsigned long long* parent_key;
    const unsigned* parent_points;        /* x 27 */
    const unsigned* parent_neighbour;     /* x 27 */
    unsigned char* parent_meets_finer;    /* out: 1 for the neighbours of cells that are split */
    unsigned* parent_child;               /* out: first child, SDF_NONE for a leaf */
    unsigned long long* key;              /* out */
    unsigned* parent;                     /* out */
    unsigned* corner;                     /* out: x 8 points */
} sdf_octree_children_args;

typedef struct {
    unsigned n;                           /* 27 x new cells */
    unsigned first;
    const unsigned long long* key;
    const unsigned* parent;
    const unsigned* parent_neighbour;
    const unsigned* parent_child;
    unsigned* neighbour;                  /* in and out: x 27 cells, SDF_NONE: coarser there, SDF_OUTSIDE */
} sdf_octree_neighbours_args;

typedef struct {
    unsigned n;                           /* cells to open */
    const unsigned* cells;                /* n */
    const unsigned* neighbour;
    const unsigned char* state;           /* of all cells: 0 closed, 1 opening, 2 opened, 3 a jump */
    unsigned* cell_points;                /* in and out: x 27 */
    unsigned* mask;                       /* out: n, the points that each cell owns */
    unsigned* count;                      /* out: n */
} sdf_octree_own_args;

typedef struct {
    unsigned n;
    unsigned level;
    unsigned first;                       /* number of the first new point */
    const unsigned* cells;
    const unsigned long long* key;
    const unsigned* corner;
    const unsigned* mask;
    const unsigned* offset;               /* n, number of each cell's first new point */
    const unsigned* slot;                 /* nearest triangle of every older point */
    unsigned* cell_points;                /* in and out */
    unsigned long long* point_key;        /* out: Morton key on the lattice */
    unsigned* point_cell;                 /* out: the owner */
    float* position;                      /* out: x 3 */
    unsigned* seed;                       /* out: new points x 8 */
} sdf_octree_points_args;

typedef struct {
    unsigned n;
    const unsigned* cells;
    const unsigned* neighbour;
    const unsigned char* state;
    const unsigned* mask;
    unsigned* cell_points;                /* in and out */
} sdf_octree_share_args;

typedef struct {
    unsigned n;
    const float* points;                  /* n x 3 */
    const unsigned* slot;
    const unsigned char* inside;
    const float* triangle;
    float* gradient;                      /* out: n x 3, of the signed distance */
} sdf_gradient_args;

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
    const unsigned* cells;
    const unsigned* cell_points;
    const float* distance;                /* signed, of every point */
    const float* position;
    const float* gradient;                /* of every point, x 3 */
    const unsigned long long* key;        /* of the cells */
    unsigned triangles;
    const unsigned long long* triangle_key;
    const float* triangle;
    float tolerance;
    float band;
    float jump_edge;                      /* cells of this edge or less are not split for a jump of the sign */
    unsigned char* wish;                  /* out: n, 1 where the cell is to be opened (screen) or split (test) */
} sdf_octree_test_args;

typedef sdf_octree_test_args sdf_octree_screen_args;

typedef struct {
    unsigned n;
    const unsigned* cells;
    const unsigned* cell_points;
    const unsigned* neighbour;
    const unsigned char* state;
    const float* distance;
    float tolerance;
    float band;
    unsigned char* wish;                  /* out: n, 1 where the cell is to be opened */
} sdf_octree_peek_args;

typedef struct {
    unsigned n;
    unsigned level;
    unsigned triangles;
    const unsigned* cells;
    const unsigned long long* key;
    const unsigned long long* triangle_key; /* sorted */
    unsigned char* wish;                    /* out: n */
} sdf_octree_density_args;

typedef struct {
    unsigned n;
    const unsigned* cells;                /* leaves of one level */
    const unsigned* cell_points;
    const unsigned* neighbour;
    const unsigned* child;
    const unsigned* corner;
    const unsigned char* state;
    const unsigned char* tight;           /* of every point */
    float* value;                         /* in and out: the field's value at every point */
    unsigned char* wish;                  /* out: n */
} sdf_octree_constrain_args;

typedef struct {
    unsigned n;
    const unsigned* cells;                /* leaves of one level */
    const unsigned* corner;
    const unsigned char* state;
    const unsigned* points_of_cell;       /* x 27; null on the finest level */
    const float* distance;                /* true signed distances */
    const float* value;
    float tolerance;
    float band;
    unsigned char* tight;                 /* in and out: of every point */
} sdf_octree_tighten_args;

typedef struct {
    unsigned n;
    const unsigned* points;               /* n points without a sign */
    const unsigned* point_cell;
    const unsigned* cell_points;
    const float* position;
    const float* distance;                /* unsigned */
    const unsigned char* inside;          /* of every point: 0, 1, or 2 where not known */
    const float* clear;
    float guard;
    unsigned char* new_inside;            /* out: n */
    float* new_clear;                     /* out: n */
} sdf_sign_inherit_args;

typedef struct {
    unsigned n;                             /* leaves */
    unsigned corners;
    const unsigned long long* leaf_key;
    const unsigned char* leaf_level;
    const unsigned long long* corner_key;   /* sorted */
    unsigned* leaf_corner;                  /* out: n x 8 */
} sdf_field_corners_args;

typedef struct {
    unsigned n;                             /* points */
    unsigned leaves;
    const double* points;                   /* n x 3 */
    const unsigned long long* leaf_key;     /* sorted */
    const unsigned char* leaf_level;
    const unsigned* leaf_corner;
    const float* value;                     /* of the corners, in the mesh's units */
    double length;                          /* edge of the domain in the mesh's units */
    double* result;                         /* out: n */
    double* gradient;                       /* out: n x 3; may be null */
    unsigned* leaf_of;                      /* out: n; may be null */
} sdf_field_sample_args;

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

#endif
