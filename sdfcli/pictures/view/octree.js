// The octree and its corners' distances, decoded from the lists of the field's file (docs/reference/file.md).
//
// level   (n) uint8: the leaves' levels along the Morton curve
// steps   the values' numbers of steps, or distances if `step` is null, in the file's order
// Returns tree, Uint32Array: entry 0 is the root's, entries 1 + 8 i to 8 + 8 i are those of split cell i's children:
// the number of a split cell, or LEAF + that of a leaf; and corner, Float32Array (n, 8).
const LEAF = 0x80000000, NOT_SPLIT = -1, OUTSIDE = -2;

function decode(level, steps, step) {
  const splits = (level.length - 1) / 7, tree = new Uint32Array(1 + 8 * splits);
  const place = new Int32Array(3 * splits), levels = Array.from({length: 17}, () => []);
  let leaves = 0, cells = 0;
  function grow(slot, own, x, y, z) {
    if (level[leaves] === own) {
      tree[slot] = LEAF + leaves++;
      return;
    }
    const cell = tree[slot] = cells++;
    place.set([x, y, z], 3 * cell);
    levels[own].push(cell);
    for (let c = 0; c < 8; c++)
      grow(1 + 8 * cell + c, own + 1, 2 * x + (c & 1), 2 * y + (c >> 1 & 1), 2 * z + (c >> 2));
  }
  grow(0, 0, 0, 0, 0);

  const corner = new Float32Array(8 * level.length);
  let next = 0;
  const given = () => step === null ? steps[next++] : steps[next++] * step;
  let above = new Float32Array(8);  // of the level's split cells, at their corners
  for (let c = 0; c < 8; c++) above[c] = given();
  if (!splits) corner.set(above);
  for (let own = 0; own < 17 && levels[own].length; own++) {
    const split = levels[own], value = new Float32Array(27 * split.length);
    const below = new Float32Array(8 * (levels[own + 1] || []).length), find = finder(place, split);
    const m = new Float64Array(27), beside = new Int32Array(27);
    let child = 0;
    for (let k = 0; k < split.length; k++) {
      interpolate(above, 8 * k, m);
      const base = 27 * k, x = place[3 * split[k]], y = place[3 * split[k] + 1], z = place[3 * split[k] + 2];
      for (let n = 0; n < 27; n++) beside[n] = find(x + n % 3 - 1, y + (n / 3 | 0) % 3 - 1, z + (n / 9 | 0) - 1, 1 << own);
      for (let p = 0; p < 27; p++) {
        let hangs = false, first = k;
        for (let n = 0; n < BESIDE[p].length; n++) {  // of split cells at the point, the earliest lists it
          const other = beside[BESIDE[p][n]];
          if (other === NOT_SPLIT) hangs = true;
          else if (other >= 0 && other < first) first = other;
        }
        if (!LISTED[p] || (hangs && step !== null)) value[base + p] = m[p];
        else if (first === k) value[base + p] = step === null ? given() : m[p] + given();
        else value[base + p] = value[27 * first + p + mirrored(p, place, split[k], split[first])];
      }
      for (let o = 0; o < 8; o++) {
        const entry = tree[1 + 8 * split[k] + o], leaf = entry >= LEAF;
        const into = leaf ? corner : below, at = leaf ? 8 * (entry - LEAF) : 8 * child++;
        for (let c = 0; c < 8; c++) into[at + c] = value[base + OCTANT[o] + OCTANT[c]];
      }
    }
    above = below;
  }
  return {tree, corner};
}

// Point x + 3 y + 9 z of a cell's 27; the points that may be listed; the equal cells at each of them, also of 27.
const coordinates = p => [p % 3, Math.floor(p / 3) % 3, Math.floor(p / 9)];
const OCTANT = [0, 1, 3, 4, 9, 10, 12, 13];
const LISTED = Array.from({length: 27}, (_, p) => coordinates(p).includes(1));
const BESIDE = LISTED.map((listed, p) => {
  const [x, y, z] = coordinates(p).map(i => i === 1 ? [1] : [1, i]);
  return listed ? z.flatMap(c => y.flatMap(b => x.map(a => a + 3 * b + 9 * c))).slice(1) : [];
});

// From a point's number in one cell to that in another.
function mirrored(p, place, one, other) {
  let shift = 0;
  for (let k = 0, weight = 1; k < 3; k++, weight *= 3) shift += 2 * weight * (place[3 * one + k] - place[3 * other + k]);
  return shift;
}

// Means of pairs along x, then y, then z, in float64.
function interpolate(above, at, m) {
  for (let c = 0; c < 8; c++) m[2 * OCTANT[c]] = above[at + c];
  for (let z = 0; z < 27; z += 18)
    for (let y = 0; y < 9; y += 6) m[z + y + 1] = (m[z + y] + m[z + y + 2]) / 2;
  for (let z = 0; z < 27; z += 18)
    for (let x = 0; x < 3; x++) m[z + x + 3] = (m[z + x] + m[z + x + 6]) / 2;
  for (let p = 0; p < 9; p++) m[p + 9] = (m[p] + m[p + 18]) / 2;
}

// A function of a cell's place: its index among a level's split cells, NOT_SPLIT or OUTSIDE.
function finder(place, split) {
  let size = 2;
  while (size < 2 * split.length) size *= 2;
  const table = new Int32Array(size).fill(-1);
  const hash = (x, y, z) => (Math.imul(x, 73856093) ^ Math.imul(y, 19349663) ^ Math.imul(z, 83492791)) & size - 1;
  for (let k = 0; k < split.length; k++) {
    let slot = hash(place[3 * split[k]], place[3 * split[k] + 1], place[3 * split[k] + 2]);
    while (table[slot] >= 0) slot = slot + 1 & size - 1;
    table[slot] = k;
  }
  return (x, y, z, cells) => {
    if (Math.min(x, y, z) < 0 || Math.max(x, y, z) >= cells) return OUTSIDE;
    for (let slot = hash(x, y, z); table[slot] >= 0; slot = slot + 1 & size - 1) {
      const at = 3 * split[table[slot]];
      if (place[at] === x && place[at + 1] === y && place[at + 2] === z) return table[slot];
    }
    return NOT_SPLIT;
  };
}
