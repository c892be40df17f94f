// Moves points that are nearer to a surface than `clearance`, or inside of it, out along the gradient.

FN D3 pushed_out(const Sampler& field, double clearance, D3 p) {
    double gradient[3], d = sdf_sample(field, p, gradient);
    for (int step = 0; step < 8 && d < clearance; step++) {
        D3 way = load3(gradient);
        double slope = sqrt(dot(way, way));
        if (slope == 0.0) break;
        p = p + (clearance - d) / slope * way;
        d = sdf_sample(field, p, gradient);
    }
    return p;
}

FN void push_out_one(const Sampler& field, double clearance, double* position) {
    D3 p = pushed_out(field, clearance, load3(position));
    position[0] = p.x, position[1] = p.y, position[2] = p.z;
}

#ifdef __CUDACC_RTC__  // NVRTC, for a GPU
extern "C" __global__ void push_out(Sampler field, double clearance, long long n, double* position) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) push_out_one(field, clearance, position + 3 * i);
}
#else  // g++, for a CPU
extern "C" void push_out(const Sampler* field, double clearance, long long n, double* position) {
    for (long long i = 0; i < n; i++) push_out_one(*field, clearance, position + 3 * i);
}
#endif
