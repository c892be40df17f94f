// Vertices and faces in lines of text, as files of OBJ, STL, OFF and PLY have them.
//
// A line that is not of the plainest form is left to a reader that knows more.
//
// INTERFACE
//   sdf_text_lines    what each line is: coordinates of a vertex, or where the corners of a face are
//   sdf_text_corners  the corners of faces
#ifndef SDFCLI_MESH_TEXT_H
#define SDFCLI_MESH_TEXT_H
#include "base/kernel.h"

FN bool is_blank(u8 c) { return c == ' ' || c == '\t'; }
FN bool is_space(u8 c) { return c == ' ' || (c >= 9 && c <= 13); }
FN bool is_digit(u8 c) { return c >= '0' && c <= '9'; }
FN bool is_visible(u8 c) { return c > ' ' && c < 127; }

// a b - whole of two numbers of at most 10^19 whose product is about that (Dekker 1971)
FN double product_error(double a, double b, double whole) {
    double high_a = 134217729.0 * a, high_b = 134217729.0 * b;  // 2^27 + 1
    high_a -= high_a - a, high_b -= high_b - b;
    double low_a = a - high_a, low_b = b - high_b;
    return ((high_a * high_b - whole) + high_a * low_b + low_a * high_b) + low_a * low_b;
}

// The double nearest to digits * 10^power, up to nineteen digits; false where it is not certain (Ziv 1991).
//
// 10^22 is a double, so that below 2^53 one product or quotient is all there is. Else it is a sum of two doubles, to
// 2^-100: where a little more and a little less of the second round to the same, that is it.
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

// Reads from `at` to `end` of a text, which it never leaves.
struct Reader {
    const u8* text;
    size_t at, end;

    METHOD u8 next() const { return at < end ? text[at] : (u8)'\n'; }
    METHOD bool blank() {  // one or more, or the end
        if (at < end && !is_blank(text[at])) return false;
        while (at < end && is_blank(text[at])) at++;
        return true;
    }
    METHOD bool take(u8 c) {
        if (next() != c) return false;
        at++;
        return true;
    }
    METHOD bool word(const char* wanted) {  // in small letters or capitals
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
    METHOD bool rest(u32 least) {  // nothing but words, as many or more
        u32 words = 0;
        for (; at < end && skip(1); words++) {
        }
        return at == end && words >= least;
    }
    // Digits, after which there are `count`, leading zeros aside, nineteen at most.
    METHOD bool digits(u64* value, u32* count) {
        for (; is_digit(next()); at++) {
            u64 digit = (u64)(next() - '0');
            if ((*value || digit) && ++*count > 19) return false;  // before the value leaves 64 bits
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
    METHOD bool corner(u64* value) {  // of a face: a vertex, from the last one where it is negative, as 2^64 less
        bool negative = take('-');
        if (!whole(value)) return false;
        if (negative) *value = 0 - *value;
        return true;
    }
    METHOD void slash() {  // a texture's or a normal's number in an OBJ file
        if (take('/'))
            while (next() > ' ') at++;
    }
};

struct sdf_text_lines_args {
    u32 n;           // lines
    u32 form;        // SDF_TEXT_*
    u32 before;      // words of a row before what is read
    u32 after;       // words of a row after a face's corners, or more
    const u8* text;  // [bytes]
    const u64* end;  // [n] of each line, where the next one's newline is
    u8* kind;        // [n] out: SDF_LINE_*
    double* value;   // [n, 3] out: coordinates of a vertex; else undefined
    u64* corner;     // [n, 2] out: where a face's first corner is in the text, and how many it has; else undefined
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
        if (!(plain && line.rest(0))) kind = SDF_LINE_ODD_VERTEX;
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
        if (!(plain && count > 2 && (obj || (count == given && line.rest(a.after))))) kind = SDF_LINE_ODD_FACE;
        a.corner[2 * (size_t)i] = first;
        a.corner[2 * (size_t)i + 1] = count;
    }
    a.kind[i] = kind;
}

struct sdf_text_corners_args {
    u32 n;  // faces
    u64 bytes;
    const u8* text;  // [bytes]
    const u64* at;   // [n] where a face's first corner is
    const u64* end;  // [n] of each face in `corner`
    u64* corner;     // [corners] out: as in the text, a negative number as 2^64 less
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
