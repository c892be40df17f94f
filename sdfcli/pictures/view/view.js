// The page: decodes the field, draws it with WebGL 2, and follows pointer, keys, controls and the address's #view.
const ANGLE = 28 * Math.PI / 180, MARGIN = 1.06, LINES = 10, WIDTH = 2048, REACH = 0.1, VEIL = 0.6;  // as in pictures/render.py
const RAYS = 12, REST = 140, SLOW = 50, FAST = 24, MOST_RATIO = 2;  // rays per pixel; milliseconds; device pixels
const $ = id => document.getElementById(id);
const facts = JSON.parse($("facts").textContent), root = document.documentElement;
const started = performance.now();

// Vectors.
const add = (a, b, s = 1) => a.map((x, k) => x + s * b[k]);
const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const toUnit = p => p.map((x, k) => (x - facts.origin[k]) / facts.length);
const toMesh = p => p.map((x, k) => facts.origin[k] + x * facts.length);
const clamp = (x, low, high) => Math.min(Math.max(x, low), high);

function say(words) {
  $("message").textContent = words;
  $("message").hidden = !words;
  if (words) root.dataset.state = "failed";
}

// The octree in an element's lists, and their parameters.
async function octree(id, {lists: listed, step, parts}) {
  const text = atob($(id).textContent), packed = Uint8Array.from(text, c => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer()), lists = {};
  let begin = 0;
  for (const [name, width, count] of listed) {
    const list = new Uint8Array(width * count);
    for (let plane = 0; plane < width; plane++, begin += count)
      for (let k = 0; k < count; k++) list[width * k + plane] = bytes[begin + k];
    const kind = name === "distance" ? Float32Array : {1: Uint8Array, 2: Uint16Array, 4: Uint32Array}[width];
    lists[name] = new kind(list.buffer);
  }
  const level = lists.leaf_level, whole = r => r >>> 1 ^ -(r & 1), part = lists.residual_part;
  const numbers = lists.distance ||
    Float64Array.from(lists.residual, (r, k) => whole(r) * parts + (part ? whole(part[k]) : 0));
  return {level, ...decode(level, numbers, step)};
}

// The largest 1, 2 or 5 times a power of ten not above a number.
function niceStep(most) {
  if (!(most > 0)) return 1;
  const power = Math.floor(Math.log10(most));
  return Math.max(...[-1, 0, 1].flatMap(k => [1, 2, 5].map(m => +`${m}e${power + k}`)).filter(step => step <= most));
}

const unit = facts.units ? ` ${facts.units}` : "";
const number = (x, digits = 4) => x === 0 ? "0" : String(+x.toPrecision(digits)).replace("-", "\u2212");
const place = x => String(+x.toFixed(Math.max(0, 4 - Math.floor(Math.log10(facts.length))))).replace("-", "\u2212");

class Gpu {
  constructor(canvas) {
    const gl = this.gl = canvas.getContext("webgl2", {alpha: false, antialias: false, depth: false});
    if (!gl) throw new Error("This page needs WebGL 2, which this browser lacks or has switched off.");
    this.half = gl.getExtension("EXT_color_buffer_float") || gl.getExtension("EXT_color_buffer_half_float");
    gl.bindVertexArray(gl.createVertexArray());
    this.trace = this.program($("trace").textContent);
    this.show = this.program($("show").textContent);
    this.probe = null;
    this.lists = [];
    this.sums = [this.target(), this.target()];  // while moving, at rest
  }

  program(source) {
    const gl = this.gl, program = gl.createProgram();
    const whole = "#version 300 es\nvoid main() { gl_Position = vec4(4 * (gl_VertexID & 1) - 1, 2 * (gl_VertexID & 2) - 1, 0, 1); }";
    for (const [kind, text] of [[gl.VERTEX_SHADER, whole], [gl.FRAGMENT_SHADER, source.trim()]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, text);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    return {program, places: new Map()};
  }

  use(from, values) {
    const gl = this.gl;
    gl.useProgram(from.program);
    if (!from.places.size) {
      if (!gl.getProgramParameter(from.program, gl.LINK_STATUS) && !gl.isContextLost()) {
        const shaders = gl.getAttachedShaders(from.program).map(each => gl.getShaderInfoLog(each)).join(" ");
        throw new Error(`The graphics driver refuses this page's program: ${shaders || gl.getProgramInfoLog(from.program)}`);
      }
      for (let k = 0; k < gl.getProgramParameter(from.program, gl.ACTIVE_UNIFORMS); k++) {
        const {name, type} = gl.getActiveUniform(from.program, k);
        from.places.set(name, [gl.getUniformLocation(from.program, name), type]);
      }
    }
    for (const [name, value] of Object.entries(values)) {
      const [where, type] = from.places.get(name) || [];
      if (!where) continue;
      if (type === gl.FLOAT) gl.uniform1f(where, value);
      else if (type === gl.FLOAT_VEC2) gl.uniform2f(where, ...value);
      else if (type === gl.FLOAT_VEC3) gl.uniform3f(where, ...value);
      else gl.uniform1i(where, value);
    }
  }

  target() { return {texture: this.gl.createTexture(), frame: this.gl.createFramebuffer(), width: 0, height: 0}; }

  resize(target, width, height) {
    const gl = this.gl;
    if (target.width === width && target.height === height) return;
    gl.activeTexture(gl.TEXTURE3);
    gl.bindTexture(gl.TEXTURE_2D, target.texture);
    const [inner, kind] = this.half ? [gl.RGBA16F, gl.HALF_FLOAT] : [gl.RGBA8, gl.UNSIGNED_BYTE];
    gl.texImage2D(gl.TEXTURE_2D, 0, inner, width, height, 0, gl.RGBA, kind, null);
    this.plain(gl.LINEAR);
    gl.bindFramebuffer(gl.FRAMEBUFFER, target.frame);
    gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.COLOR_ATTACHMENT0, gl.TEXTURE_2D, target.texture, 0);
    Object.assign(target, {width, height});
  }

  plain(filter) {
    const gl = this.gl;
    for (const [name, value] of [["MIN_FILTER", filter], ["MAG_FILTER", filter], ["WRAP_S", gl.CLAMP_TO_EDGE], ["WRAP_T", gl.CLAMP_TO_EDGE]])
      gl.texParameteri(gl.TEXTURE_2D, gl[`TEXTURE_${name}`], value);
  }

  // A list as a texture: rows of WIDTH texels.
  upload(slot, list, channels, inner, format, kind, width = WIDTH) {
    const gl = this.gl, rows = Math.ceil(list.length / channels / width), whole = rows * width * channels;
    if (rows > gl.getParameter(gl.MAX_TEXTURE_SIZE)) throw new Error("This field is too large for the graphics driver: use `sdfcli view --leaves`.");
    let padded = list;
    if (list.length < whole) (padded = new list.constructor(whole)).set(list);
    gl.activeTexture(gl.TEXTURE0 + slot);
    gl.deleteTexture(this.lists[slot] || null);
    gl.bindTexture(gl.TEXTURE_2D, this.lists[slot] = gl.createTexture());
    gl.pixelStorei(gl.UNPACK_ALIGNMENT, 1);
    gl.texImage2D(gl.TEXTURE_2D, 0, inner, width, rows, 0, format, kind, padded);
    this.plain(gl.NEAREST);
  }

  // Draws into rows of a target, adding to what is there if `more`.
  draw(target, from, values, first, rows, more) {
    const gl = this.gl;
    gl.bindFramebuffer(gl.FRAMEBUFFER, target ? target.frame : null);
    const [width, height] = target ? [target.width, target.height] : [gl.drawingBufferWidth, gl.drawingBufferHeight];
    gl.viewport(0, 0, width, height);
    gl.enable(gl.SCISSOR_TEST);
    gl.scissor(0, first, width, rows);
    more ? gl.enable(gl.BLEND) : gl.disable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE);
    this.use(from, values);
    gl.drawArrays(gl.TRIANGLES, 0, 3);
  }

  // What the ray through a pixel meets: {t, value, size, kind}.
  look(values) {
    const gl = this.gl;
    if (!this.probe) {
      this.probe = this.program($("trace").textContent.trim().replace("\n", "\n#define PROBE\n"));
      this.pixel = this.target();
      gl.activeTexture(gl.TEXTURE3);
      gl.bindTexture(gl.TEXTURE_2D, this.pixel.texture);
      gl.texStorage2D(gl.TEXTURE_2D, 1, gl.RGBA32UI, 1, 1);
      gl.bindFramebuffer(gl.FRAMEBUFFER, this.pixel.frame);
      gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.COLOR_ATTACHMENT0, gl.TEXTURE_2D, this.pixel.texture, 0);
      Object.assign(this.pixel, {width: 1, height: 1});
    }
    this.draw(this.pixel, this.probe, values, 0, 1, false);
    const bits = new Uint32Array(4);
    gl.readPixels(0, 0, 1, 1, gl.RGBA_INTEGER, gl.UNSIGNED_INT, bits);
    const [t, value] = new Float32Array(bits.buffer);
    return {t, value, size: bits[2], kind: bits[3]};
  }
}

class Viewer {
  constructor(octree, whole) {
    this.canvas = $("view");
    this.gpu = new Gpu(this.canvas);
    this.hold(octree, whole);
    const {gl} = this.gpu;
    const colours = Uint8Array.from(atob(facts.colours), c => c.charCodeAt(0));
    this.gpu.upload(2, colours, 3, gl.RGB8, gl.RGB, gl.UNSIGNED_BYTE, colours.length / 3);
    this.colours = colours;
    const box = facts.box.map(toUnit);
    this.middle = box[0].map((x, k) => (x + box[1][k]) / 2);
    this.box = box;
    this.extent = Math.hypot(...add(box[1], box[0], -1));
    this.scale = 0.5;
    this.rows = 64;
    this.moved = -Infinity;
    this.begin();
  }

  // Takes an octree in place of the one before. whole: false for the field's without its finest levels.
  hold({level, tree, corner}, whole) {
    const {gl} = this.gpu;
    this.gpu.upload(0, tree, 1, gl.R32UI, gl.RED_INTEGER, gl.UNSIGNED_INT);
    this.gpu.upload(1, corner, 4, gl.RGBA32F, gl.RGBA, gl.FLOAT);
    this.span = [0, 0];
    for (const value of corner) this.span = value < this.span[0] ? [value, this.span[1]] : value > this.span[1] ? [this.span[0], value] : this.span;
    this.largest = Math.max(-this.span[0], this.span[1]) || 1;
    this.spacing = niceStep(this.largest / LINES);
    this.depth = level.reduce((most, each) => Math.max(most, each), 0);
    this.whole = whole;
  }

  tell(state) { root.dataset.state = this.whole ? state : "coarse"; }

  begin() {
    const [azimuth, elevation] = facts.view;
    this.state = {azimuth, elevation, target: this.middle, distance: 1, iso: facts.iso, axis: -1, at: [...this.middle], veil: VEIL, cells: false};
    this.fitted = true;
  }

  axes() {
    const a = this.state.azimuth * Math.PI / 180, e = this.state.elevation * Math.PI / 180;
    const turned = facts.up === "z" ? ([x, y, z]) => [x, -z, y] : v => v;
    return [
      [Math.cos(a), 0, -Math.sin(a)],
      [-Math.sin(a) * Math.sin(e), Math.cos(e), -Math.cos(a) * Math.sin(e)],
      [Math.sin(a) * Math.cos(e), Math.sin(e), Math.cos(a) * Math.cos(e)],
    ].map(turned);
  }

  // The canvas's part beside the panel, in CSS pixels.
  free() {
    const {clientWidth: width, clientHeight: height} = this.canvas, panel = $("panel").getBoundingClientRect();
    if (root.classList.contains("bare")) return {x: width / 2, y: height / 2, width, height};
    if (getComputedStyle($("panel")).getPropertyValue("--below").trim()) {
      const seen = Math.max(height - panel.height - 48, height / 2);
      return {x: width / 2, y: 48 + (seen - 48) / 2, width, height: seen - 48};
    }
    const seen = Math.max(width - panel.width - 24, width / 2);
    return {x: seen / 2, y: height / 2, width: seen, height};
  }

  fit() {
    const axes = this.axes(), {width, height} = this.free(), size = 2 * Math.tan(ANGLE / 2) / Math.min(width, height);
    const {axis, at} = this.state, corner = (c, place) => add([0, 1, 2].map(k => place(c >> k & 1, k)), this.middle, -1);
    const corners = [0, 1, 2, 3, 4, 5, 6, 7].flatMap(c => [
      corner(c, (side, k) => this.box[side][k]),
      ...axis < 0 ? [] : [corner(c, (side, k) => k === axis ? at[k] : side)],
    ]);
    let target = this.middle, distance = 0;
    [width, height].forEach((pixels, k) => {
      const slope = 0.5 * pixels * size / MARGIN;
      const side = sign => Math.max(...corners.map(p => dot(p, axes[2]) + sign * dot(p, axes[k]) / slope));
      const ahead = side(1), behind = side(-1);
      target = add(target, axes[k], 0.5 * (ahead - behind) * slope);
      distance = Math.max(distance, 0.5 * (ahead + behind));
    });
    Object.assign(this.state, {target, distance});
  }

  uniforms(scale) {
    const {state} = this, [right, up, back] = this.axes(), free = this.free();
    const across = this.canvas.width / this.canvas.clientWidth * scale;
    return {
      tree: 0, corners: 1, colours: 2, depth: this.depth, iso: state.iso, scale: 1 / facts.length,
      error: Math.min((this.whole && facts.near !== null ? facts.near : Infinity) / facts.length, 1e9),
      slack: this.whole && facts.slack || 0, reach: REACH * this.extent,
      smoothing: facts.sign === "none" ? state.iso / facts.length : 0,
      eye: add(state.target, back, state.distance), right, up, forward: back.map(x => -x),
      pixel: 2 * Math.tan(ANGLE / 2) / (Math.min(free.width, free.height) * across),
      middle: [free.x * across, (this.canvas.clientHeight - free.y) * across], jitter: [0, 0],
      axis: state.axis, at: state.at[Math.max(state.axis, 0)], veil: state.veil,
      largest: this.largest / facts.length, spacing: this.spacing / facts.length, cells: state.cells,
      ink: Math.max(1, across),
    };
  }

  // Requests pictures: coarse ones while moving, then RAYS rays per pixel, a band of rows at a time.
  change(moving = false) {
    this.rays = this.row = 0;
    if (moving) this.moved = performance.now();
    this.rough = true;
    this.wait();
  }

  wait() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(now => {
      this.waiting = false;
      try { this.frame(now); } catch (error) { say(error.message); }
    });
  }

  frame(now) {
    const {gpu, canvas} = this, took = now - (this.before || now), ratio = Math.min(devicePixelRatio || 1, MOST_RATIO);
    this.before = now;
    const width = Math.max(1, Math.round(canvas.clientWidth * ratio)), height = Math.max(1, Math.round(canvas.clientHeight * ratio));
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, {width, height});
    if (this.fitted) this.fit();
    if (this.rough) {
      if (took > SLOW) this.scale = Math.max(0.15, 0.8 * this.scale);
      else if (took < FAST) this.scale = Math.min(1, 1.1 * this.scale);
      gpu.resize(gpu.sums[0], Math.ceil(this.scale * width), Math.ceil(this.scale * height));
      gpu.draw(gpu.sums[0], gpu.trace, this.uniforms(gpu.sums[0].width / width), 0, gpu.sums[0].height, false);
      this.present(gpu.sums[0], 1);
      this.rough = false;
      if (!root.dataset.first) root.dataset.first = Math.round(performance.now() - started);
      this.tell("moving");
      return this.wait();
    }
    if (now - this.moved < REST) return this.wait();
    if (this.row) this.rows = clamp(Math.round(this.rows * (took > SLOW ? 0.6 : took < FAST ? 1.5 : 1)), 8, height);
    gpu.resize(gpu.sums[1], width, height);
    const k = this.rays, jitter = [(k * 0.7548776662 + 0.5) % 1 - 0.5, (k * 0.5698402910 + 0.5) % 1 - 0.5];  // R2 sequence
    gpu.draw(gpu.sums[1], gpu.trace, {...this.uniforms(1), jitter}, this.row, this.rows, k > 0);
    this.row += this.rows;
    if (this.row >= height) {
      this.row = 0;
      this.rays++;
      this.present(gpu.sums[1], this.rays);
      this.tell("drawn");
    }
    if (this.rays < (gpu.half ? RAYS : 1)) return this.wait();
    this.before = null;
    this.tell("still");
  }

  present(target, rays) {
    const {gl} = this.gpu, dark = matchMedia("(prefers-color-scheme: dark)").matches;
    gl.activeTexture(gl.TEXTURE3);
    gl.bindTexture(gl.TEXTURE_2D, target.texture);
    const [top, below] = dark ? [[0.022, 0.025, 0.032], [0.007, 0.008, 0.011]] : [[0.955, 0.962, 0.975], [0.825, 0.842, 0.865]];
    const size = [gl.drawingBufferWidth, gl.drawingBufferHeight];
    this.gpu.draw(null, this.gpu.show, {sum: 3, size, rays, top, below}, 0, size[1], false);
  }

  // What is under a point of the canvas, in CSS pixels: {position, distance, edge, plane}, or null.
  under(x, y) {
    const values = this.uniforms(1), ratio = this.canvas.width / this.canvas.clientWidth;
    const pointer = [x * ratio, this.canvas.height - y * ratio];
    const found = this.gpu.look({...values, jitter: add(pointer, [0.5, 0.5], -1)});
    if (!found.kind) return null;
    const q = add(pointer, values.middle, -1).map(s => s * values.pixel);
    let way = add(add(values.forward, values.right, q[0]), values.up, q[1]);
    way = way.map(s => s / Math.hypot(...way));
    const p = add(values.eye, way, found.t), edge = facts.length * found.size / 2 ** this.depth;
    return {unit: p, position: toMesh(p), distance: found.value * facts.length + this.state.iso, edge, plane: found.kind === 2};
  }
}

function controls(viewer) {
  const {canvas} = viewer;
  const axes = [...document.querySelectorAll("input[name=axis]")];
  const ranges = [0, 1, 2].map(k => [facts.origin[k], facts.origin[k] + facts.length]);
  const toIso = s => s * s * (s < 0 ? viewer.span[0] : viewer.span[1]);
  const fromIso = d => d < 0 ? -Math.sqrt(d / viewer.span[0]) : viewer.span[1] ? Math.sqrt(d / viewer.span[1]) : 0;

  function show() {
    const now = viewer.state;
    axes.forEach(each => each.checked = +each.value === now.axis);
    $("plane").hidden = now.axis < 0;
    if (now.axis >= 0) {
      const [low, high] = ranges[now.axis], value = toMesh(now.at)[now.axis];
      Object.assign($("at"), {min: 0, max: 1, step: 0.001, value: now.at[now.axis]});
      $("at").setAttribute("aria-valuetext", `${"xyz"[now.axis]} = ${place(value)}${unit}, of ${place(low)} to ${place(high)}`);
      $("at-value").textContent = `${"xyz"[now.axis]} = ${place(value)}${unit}`;
    }
    $("veil").value = now.veil;
    $("iso").value = fromIso(now.iso);
    $("iso-value").textContent = number(now.iso, 3) + unit;
    $("iso").setAttribute("aria-valuetext", $("iso-value").textContent);
    $("cells").checked = now.cells;
    clearTimeout(controls.timer);
    controls.timer = setTimeout(remember, 300);
  }
  const changed = moving => { show(); viewer.change(moving); };

  // The address holds the view.
  function remember() {
    const now = viewer.state, short = x => String(+x.toPrecision(7)), words = [];
    words.push(`view=${short(now.azimuth)},${short(now.elevation)}`);
    if (!viewer.fitted) words.push(`target=${toMesh(now.target).map(short)}`, `distance=${short(now.distance * facts.length)}`);
    if (now.axis >= 0) words.push(`slice=${"xyz"[now.axis]},${short(toMesh(now.at)[now.axis])}`);
    if (now.veil !== VEIL) words.push(`veil=${short(now.veil)}`);
    if (now.iso !== facts.iso) words.push(`iso=${short(now.iso)}`);
    if (now.cells) words.push("cells");
    if (root.classList.contains("bare")) words.push("bare");
    try { history.replaceState(null, "", `#${words.join("&")}`); } catch { /* a frame without an address */ }
  }
  function recall() {
    const given = new URLSearchParams(location.hash.slice(1).replaceAll("+", "%2B")), now = viewer.state;
    const numbers = (name, count) => {
      const found = (given.get(name) || "").split(",").map(word => word.trim() === "" ? NaN : +word);
      return found.length === count && found.every(Number.isFinite) ? found : null;
    };
    const view = numbers("view", 2), target = numbers("target", 3), distance = numbers("distance", 1);
    if (view) [now.azimuth, now.elevation] = [view[0] % 360, clamp(view[1], -90, 90)];
    root.classList.toggle("bare", given.has("bare"));
    if (target && distance && distance[0] > 0) {
      Object.assign(now, {target: toUnit(target), distance: distance[0] / facts.length});
      viewer.fitted = false;
    }
    const [name, at] = (given.get("slice") || "").split(","), axis = ["x", "y", "z"].indexOf(name);
    if (axis >= 0) {
      now.axis = axis;
      if (at && Number.isFinite(+at)) now.at[axis] = clamp((+at - facts.origin[axis]) / facts.length, 0, 1);
    }
    now.veil = clamp((numbers("veil", 1) || [now.veil])[0], 0, 1);
    now.iso = (numbers("iso", 1) || [now.iso])[0];
    now.cells = given.has("cells");
  }

  function turn(x, y) {
    viewer.state.azimuth = (viewer.state.azimuth - x + 540) % 360 - 180;
    viewer.state.elevation = clamp(viewer.state.elevation + y, -90, 90);
    viewer.fitted = false;
    changed(true);
  }
  function pan(x, y) {
    viewer.fitted = false;
    const [right, up] = viewer.axes(), free = viewer.free();
    const size = 2 * Math.tan(ANGLE / 2) * viewer.state.distance / Math.min(free.width, free.height);
    viewer.state.target = add(add(viewer.state.target, right, -x * size), up, y * size);
    changed(true);
  }
  function zoom(factor, x, y) {
    const distance = clamp(viewer.state.distance * factor, 1e-4, 20), free = viewer.free();
    const kept = 1 - distance / viewer.state.distance;
    if (x !== undefined) pan(-kept * (x - free.x), -kept * (y - free.y));  // the point under the pointer stays
    viewer.fitted = false;
    viewer.state.distance = distance;
    changed(true);
  }
  function reset() {
    const {axis, at, veil, cells} = viewer.state;
    viewer.begin();
    Object.assign(viewer.state, {axis, at, veil, cells});
    changed(true);
  }

  let asked = null;
  function read(x, y) {
    if (!asked) requestAnimationFrame(() => {
      const found = viewer.under(...asked);
      asked = null;
      $("reading").hidden = !found;
      if (!found) return;
      $("distance").textContent = number(found.distance, 4) + unit;
      $("position").textContent = found.position.map(place).join(", ");
      $("edge").textContent = number(found.edge, 3) + unit;
    });
    asked = [x, y];
  }

  const pointers = new Map();
  const seat = event => [event.clientX, event.clientY];
  canvas.addEventListener("pointerdown", event => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, seat(event));
  });
  canvas.addEventListener("pointermove", event => {
    const before = pointers.get(event.pointerId), [x, y] = seat(event);
    if (!before) return event.pointerType === "touch" ? undefined : read(x, y);
    const move = [x - before[0], y - before[1]];
    if (pointers.size === 2) {
      const [other] = [...pointers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
      const spread = Math.hypot(x - other[0], y - other[1]) / (Math.hypot(before[0] - other[0], before[1] - other[1]) || 1);
      pan(move[0] / 2, move[1] / 2);
      zoom(1 / clamp(spread, 0.5, 2), (x + other[0]) / 2, (y + other[1]) / 2);
    } else if (event.shiftKey || event.buttons & 6) pan(...move);
    else turn(0.4 * move[0], 0.4 * move[1]);
    pointers.set(event.pointerId, [x, y]);
  });
  canvas.addEventListener("click", event => read(...seat(event)));
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, event => pointers.delete(event.pointerId));
  canvas.addEventListener("pointerleave", event => { if (event.pointerType !== "touch") $("reading").hidden = true; });
  canvas.addEventListener("contextmenu", event => event.preventDefault());
  canvas.addEventListener("wheel", event => {
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 16 : 1;
    zoom(Math.exp(clamp(event.deltaY * lines, -200, 200) * (event.ctrlKey ? 0.01 : 0.0015)), ...seat(event));
  }, {passive: false});
  canvas.addEventListener("dblclick", event => {  // turn about this point
    const found = viewer.under(...seat(event));
    if (!found) return;
    viewer.state.target = found.unit;
    viewer.fitted = false;
    changed(true);
  });

  const keys = {
    ArrowLeft: shift => shift ? pan(30, 0) : turn(8, 0), ArrowRight: shift => shift ? pan(-30, 0) : turn(-8, 0),
    ArrowUp: shift => shift ? pan(0, 30) : turn(0, 8), ArrowDown: shift => shift ? pan(0, -30) : turn(0, -8),
    "+": () => zoom(1 / 1.15), "=": () => zoom(1 / 1.15), "-": () => zoom(1.15), "0": reset, Home: reset,
    s: () => { viewer.state.axis = (viewer.state.axis + 2) % 4 - 1; changed(); },
    c: () => { viewer.state.cells = !viewer.state.cells; changed(); },
    h: () => { root.classList.toggle("bare"); changed(); },
  };
  addEventListener("keydown", event => {
    const typed = event.target.closest("input, summary, button");
    const act = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey || (typed && event.key.length > 1)) return;
    event.preventDefault();
    act(event.shiftKey);
  });

  axes.forEach(each => each.addEventListener("change", () => { viewer.state.axis = +each.value; changed(); }));
  $("at").addEventListener("input", () => { viewer.state.at[viewer.state.axis] = +$("at").value; changed(true); });
  $("veil").addEventListener("input", () => { viewer.state.veil = +$("veil").value; changed(true); });
  $("iso").addEventListener("input", () => { viewer.state.iso = toIso(Math.abs($("iso").value) < 0.02 ? 0 : +$("iso").value); changed(true); });
  $("zero").addEventListener("click", () => { viewer.state.iso = facts.iso; changed(); });
  $("cells").addEventListener("change", () => { viewer.state.cells = $("cells").checked; changed(); });
  $("reset").addEventListener("click", reset);
  $("fold").addEventListener("click", () => {
    const open = $("panel").classList.toggle("open");
    $("fold").setAttribute("aria-expanded", open);
    viewer.change();
  });
  addEventListener("resize", () => viewer.change());
  addEventListener("hashchange", () => { viewer.begin(); recall(); changed(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => viewer.change());
  canvas.addEventListener("webglcontextlost", () => say("The browser dropped this page's graphics: load the page again."));

  // For the octree held: the scale of the plane's colours, and the picture.
  function begin() {
    const stops = Array.from({length: 65}, (_, k) => {
      const d = viewer.span[0] + (viewer.span[1] - viewer.span[0]) * k / 64;
      const c = 3 * (255 + Math.round(255 * Math.sign(d) * Math.sqrt(Math.abs(d) / viewer.largest)));
      return `rgb(${viewer.colours.slice(c, c + 3)}) ${100 * k / 64}%`;
    });
    $("bar").style.background = `linear-gradient(90deg, ${stops})`;
    $("least").textContent = number(viewer.span[0], 2);
    $("most").textContent = number(viewer.span[1], 2);
    $("nought").style.left = `${100 * -viewer.span[0] / (viewer.span[1] - viewer.span[0] || 1)}%`;
    $("spacing").textContent = number(viewer.spacing, 2) + unit;
    changed();
  }

  recall();
  return begin;
}

// The document arrives from its beginning: the coarse octree and this program first, the field last.
const arrived = () => document.readyState !== "loading" || new Promise(done => addEventListener("DOMContentLoaded", done));
const painted = () => new Promise(done => requestAnimationFrame(() => setTimeout(done)));

async function main() {
  if (!window.DecompressionStream) throw new Error("This page needs a browser from 2023 or later.");
  const coarse = facts.coarse && await octree("coarse", facts.coarse);
  if (!coarse) await arrived();
  const viewer = new Viewer(coarse || await octree("field", facts), !coarse), begin = controls(viewer);
  begin();
  if (!coarse) return;
  await painted();  // before the thread is busy with the field
  await arrived();
  viewer.hold(await octree("field", facts), true);
  begin();
}

main().catch(error => say(error.message));
