// Vertices and triangles in lines of text, as a Wavefront OBJ file has them.
//
// A line that is not of the plainest form is left to a reader that knows more. A number is exact, hence rounded as
// every other reader rounds it: its digits make a whole number below 2^53, and a power of ten up to 10^22 is a double,
// so that one product or quotient is all there is.
//
// INTERFACE
//   sdf_obj_lines  what each line is, and its three numbers
#ifndef SDFCLI_MESH_TEXT_H
#define SDFCLI_MESH_TEXT_H
#include "base/kernel.h"

FN bool is_blank(u8 c) { return c == ' ' || c == '\t'; }
FN bool is_space(u8 c) { return c == ' ' || (c >= 9 && c <= 13); }
FN bool is_digit(u8 c) { return c >= '0' && c <= '9'; }

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
    METHOD bool digits(u64* value, u32* count) {  // up to nineteen in all
        for (; is_digit(next()); at++) {
            if (++*count > 19) return false;
            *value = 10 * *value + (u64)(next() - '0');
        }
        return true;
    }
    METHOD bool real(double* value) {
        bool negative = take('-');
        if (!negative) take('+');
        u64 whole = 0, tens = 0;
        u32 count = 0, before, some = 0;
        if (!digits(&whole, &count)) return false;
        before = count;
        if (take('.') && !digits(&whole, &count)) return false;
        if (count == 0 || whole > 9007199254740992ULL) return false;
        int power = (int)before - (int)count;
        if (take('e') || take('E')) {
            bool down = take('-');
            if (!down) take('+');
            if (!digits(&tens, &some) || some == 0 || tens > 999) return false;
            power += down ? -(int)tens : (int)tens;
        }
        if (power < -22 || power > 22) return false;
        double scale = 1.0;
        for (int k = 0; k < (power < 0 ? -power : power); k++) scale *= 10.0;  // exact
        double size = power < 0 ? (double)whole / scale : (double)whole * scale;
        *value = negative ? -size : size;
        return true;
    }
};

struct sdf_obj_lines_args {
    u32 n;           // lines
    const u8* text;  // [bytes]
    const u64* end;  // [n] of each line, where the next one's newline is
    u8* kind;        // [n] out: SDF_LINE_*
    double* value;   // [n, 3] out: coordinates of a vertex, or numbers of a triangle's; else undefined
};
SDF_KERNEL(sdf_obj_lines, PLAIN, i) {
    Reader line = {a.text, i ? (size_t)a.end[i - 1] + 1 : 0, (size_t)a.end[i]};
    double value[3];
    u8 kind = SDF_LINE_OTHER;
    if (line.end - line.at > 1 && is_space(line.text[line.at + 1])) {
        u8 first = line.text[line.at++];
        kind = first == 'v' ? SDF_LINE_VERTEX : first == 'f' ? SDF_LINE_TRIANGLE : SDF_LINE_OTHER;
    }
    bool plain = kind != SDF_LINE_OTHER && line.blank();
    for (int k = 0; k < 3 && plain; k++) {
        if (kind == SDF_LINE_VERTEX) {
            plain = line.real(value + k) && line.blank();
            continue;
        }
        u64 number = 0;
        u32 count = 0;
        plain = line.digits(&number, &count) && count > 0 && count < 16;
        if (line.take('/'))  // of a texture or a normal
            while (line.next() > ' ') line.at++;
        plain = plain && line.blank();
        value[k] = (double)number;
    }
    if (kind != SDF_LINE_OTHER && !(plain && line.at == line.end))
        kind = kind == SDF_LINE_VERTEX ? SDF_LINE_OTHER_VERTEX : SDF_LINE_OTHER_FACE;
    a.kind[i] = kind;
    if (plain)
        for (int k = 0; k < 3; k++) a.value[3 * (size_t)i + k] = value[k];
}

#endif
