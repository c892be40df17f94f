// Vertices and faces in lines of text, as in OBJ, STL, OFF and PLY files.
//
// Lines not in the simplest form are left to a more general reader.
//
// std::from_chars gives the same bits in 0.7 to 0.9 of the time to read a file. But it exists only from GCC 11 and LLVM
// 20 on, not on GPUs, and lies in the C++ library, which these kernels do without: to install without a compiler, Zig
// would have to compile that first, for three quarters of a minute.
//
// INTERFACE
//   sdf_text_lines    kind of each line: a vertex with coordinates, or a face with its corners' position
//   sdf_text_corners  the faces' corners
#ifndef SDFCLI_MESH_TEXT_H
#define SDFCLI_MESH_TEXT_H
#include "base/kernel.h"

FN bool is_blank(u8 c) { return c == ' ' || c == '\t'; }
FN bool is_space(u8 c) { return c == ' ' || (c >= 9 && c <= 13); }
FN bool is_digit(u8 c) { return c >= '0' && c <= '9'; }
FN bool is_visible(u8 c) { return c > ' ' && c < 127; }

// a b - whole, for numbers of at most 10^19 with a rounded product `whole` (Dekker 1971)
FN double product_error(double a, double b, double whole) {
    double high_a = 134217729.0 * a, high_b = 134217729.0 * b;  // 2^27 + 1
    high_a -= high_a - a, high_b -= high_b - b;
    double low_a = a - high_a, low_b = b - high_b;
    return ((high_a * high_b - whole) + high_a * low_b + low_a * high_b) + low_a * low_b;
}

// The double nearest to digits * 10^power, up to nineteen digits; false where it is uncertain (Ziv 1991).
//
// 10^22 is a double, so below 2^53 a single product or quotient suffices. Otherwise the value is a sum of two doubles,
// to 2^-100: if slightly more and slightly less of the second round to the same double, the result is certain.
FN bool scaled(u64 digits, int power, double* value) {
    if (power < -22 || power > 22) return false;
    double scale = 1.0;
    for (int k = 0; k < (power < 0 ? -power : power); k++) scale *= 10.0;  // exact
    double most = (double)digits;
    if (digits <= 9007199254740992ULL) {
        *value = power < 0 ? most / scale : most * scale;
        return true;
    }
    double rest = (double)(long long)(digits - (u64)most), more;
    if (power < 0) {
        *value = most / scale;
        double whole = *value * scale;
        more = (((most - whole) - product_error(*value, scale, whole)) + rest) / scale;
    } else {
        *value = most * scale;
        more = product_error(most, scale, *value) + rest * scale;
    }
    double slack = more * 9.094947017729282e-13;  // 2^-40
    double low = *value + (more - slack);
    *value += more + slack;
    return low == *value;
}

// Reads a text within `at` .. `end`.
struct Reader {
    const u8* text;
    size_t at, end;

    METHOD u8 next() const { return at < end ? text[at] : (u8)'\n'; }
    METHOD bool blank() {  // at least one blank, or the end
        if (at < end && !is_blank(text[at])) return false;
        while (at < end && is_blank(text[at])) at++;
        return true;
    }
    METHOD bool take(u8 c) {
        if (next() != c) return false;
        at++;
        return true;
    }
    METHOD bool word(const char* wanted) {  // case-insensitive
        size_t from = at;
        for (; *wanted; wanted++, at++)
            if ((next() | 32) != *wanted) break;
        if (*wanted == 0 && is_space(next())) return true;
        at = from;
        return false;
    }
    METHOD bool skip(u32 words) {
        for (; words; words--) {
            if (!is_visible(next())) return false;
            while (is_visible(next())) at++;
            if (!blank()) return false;
        }
        return true;
    }
    METHOD bool rest(u32 least, u32 most) {  // only words, between `least` and `most`
        u32 words = 0;
        for (; at < end && skip(1); words++) {
        }
        return at == end && words >= least && words <= most;
    }
    // Digits; `count` then has their number without leading zeros, nineteen at most.
    METHOD bool digits(u64* value, u32* count) {
        for (; is_digit(next()); at++) {
            u64 digit = (u64)(next() - '0');
            if ((*value || digit) && ++*count > 19) return false;  // before the value exceeds 64 bits
            *value = 10 * *value + digit;
        }
        return true;
    }
    METHOD bool whole(u64* value) {
        u32 count = 0;
        size_t from = at;
        *value = 0;
        return digits(value, &count) && at > from && count < 16;
    }
    METHOD bool real(double* value) {
        bool negative = take('-');
        if (!negative) take('+');
        u64 number = 0, tens = 0;
        u32 count = 0;
        size_t from = at, point;
        if (!digits(&number, &count)) return false;
        point = at;
        bool some = at > from;
        if (take('.')) {
            from = point = at;
            if (!digits(&number, &count)) return false;
            some = some || at > from;
        }
        if (!some || at - point > 999) return false;
        int power = -(int)(at - point);
        if (take('e') || take('E')) {
            bool down = take('-');
            if (!down) take('+');
            if (!whole(&tens) || tens > 999) return false;
            power += down ? -(int)tens : (int)tens;
        }
        if (number == 0) power = 0;
        if (!scaled(number, power, value)) return false;
        if (negative) *value = -*value;
        return true;
    }
    METHOD bool corner(u64* value) {  // a face's vertex; a negative n, counted from the end, becomes 2^64 + n
        bool negative = take('-');
        if (!whole(value)) return false;
        if (negative) *value = 0 - *value;
        return true;
    }
    METHOD void slash() {  // texture or normal number in an OBJ file
        if (take('/'))
            while (next() > ' ') at++;
    }
};

struct sdf_text_lines_args {
    u32 n;           // lines
    u32 form;        // SDF_TEXT_*
    u32 before;      // words before the data in a row
    u32 after;       // minimum number of words after a face's corners
    u32 most;        // maximum number
    const u8* text;  // [bytes]
    const u64* end;  // [n] end of each line: the position of its newline
    u8* kind;        // [n] out: SDF_LINE_*
    double* value;   // [n, 3] out: a vertex's coordinates; else undefined
    u64* corner;     // [n, 2] out: text position of a face's first corner, and corner count; else undefined
};
SDF_KERNEL(sdf_text_lines, PLAIN, i) {
    Reader line = {a.text, i ? (size_t)a.end[i - 1] + 1 : 0, (size_t)a.end[i]};
    u8 kind = SDF_LINE_OTHER;
    bool obj = a.form == SDF_TEXT_OBJ;
    while (line.at < line.end && is_space(line.next())) line.at++;
    if (line.at == line.end) {
    } else if (obj) {
        kind = line.word("v")                      ? SDF_LINE_VERTEX
               : line.word("f") || line.word("fo") ? SDF_LINE_FACE
               : line.next() == '#' || line.word("vn") || line.word("vt") || line.word("g") || line.word("o") ||
                       line.word("s") || line.word("usemtl")
                   ? SDF_LINE_OTHER
                   : SDF_LINE_UNKNOWN;
    } else if (a.form == SDF_TEXT_STL) {
        kind = line.word("vertex")     ? SDF_LINE_VERTEX
               : line.word("facet")    ? SDF_LINE_FACET
               : line.word("endfacet") ? SDF_LINE_END_FACET
                                       : SDF_LINE_OTHER;
    } else {
        kind = a.form == SDF_TEXT_POINTS ? SDF_LINE_VERTEX : SDF_LINE_FACE;
    }
    if (kind == SDF_LINE_VERTEX) {
        bool plain = (a.form == SDF_TEXT_POINTS || line.blank()) && line.skip(a.before);
        for (int k = 0; k < 3 && plain; k++) plain = line.real(a.value + 3 * (size_t)i + k) && line.blank();
        if (!(plain && line.rest(0, ~0u))) kind = SDF_LINE_ODD_VERTEX;
    }
    if (kind == SDF_LINE_FACE) {
        u64 value, count = 0, given = ~0ULL;
        bool plain = obj ? line.blank() : line.skip(a.before) && line.whole(&given) && line.blank();
        size_t first = line.at;
        for (; plain && line.at < line.end && count < given; count++) {
            plain = line.corner(&value);
            if (obj) line.slash();
            plain = plain && line.blank();
        }
        if (!(plain && count > 2 && (obj || (count == given && line.rest(a.after, a.most))))) kind = SDF_LINE_ODD_FACE;
        a.corner[2 * (size_t)i] = first;
        a.corner[2 * (size_t)i + 1] = count;
    }
    a.kind[i] = kind;
}

struct sdf_text_corners_args {
    u32 n;  // faces
    u64 bytes;
    const u8* text;  // [bytes]
    const u64* at;   // [n] position of a face's first corner
    const u64* end;  // [n] each face's end in `corner`
    u64* corner;     // [corners] out: as in the text, negative n as 2^64 + n
};
SDF_KERNEL(sdf_text_corners, PLAIN, i) {
    Reader line = {a.text, (size_t)a.at[i], (size_t)a.bytes};
    for (u64 k = i ? a.end[i - 1] : 0; k < a.end[i]; k++) {
        line.corner(a.corner + k);
        line.slash();
        line.blank();
    }
}

#endif
