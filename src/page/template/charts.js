'use strict';
// Texts, elements and charts that page.js combines. No library, no network: drawings are SVG, and every text is set
// with textContent, so names cannot inject code. Precedes page.js in the same script.

const byId = (id) => document.getElementById(id);
const fail = (error) => {
  const box = byId('failure');
  box.hidden = false;
  box.textContent = 'This page could not be drawn: ' + error;
};
window.addEventListener('error', (event) => fail(event.message));

const data = JSON.parse(byId('data').textContent);
const isPlan = data.kind !== 'run';
let run = data.profiles[0];

// Texts ------------------------------------------------------------------------------------------------
const sum = (list) => list.reduce((a, b) => a + b, 0);
const most = (list) => list.reduce((a, b) => Math.max(a, b), 0);
const whole = (n) => Math.round(n).toLocaleString('en-US');
const percent = (share, digits = 1) => (100 * share).toFixed(digits) + ' %';
const ratio = (value) => value.toFixed(value < 10 ? 3 : 1);
function short(n) {
  const [value, unit] = Math.abs(n) >= 1e12 ? [n / 1e12, ' T'] : Math.abs(n) >= 1e9 ? [n / 1e9, ' G']
    : Math.abs(n) >= 1e6 ? [n / 1e6, ' M'] : Math.abs(n) >= 1e4 ? [n / 1e3, ' k'] : [n, ''];
  return (unit || !Number.isInteger(value) ? String(+value.toPrecision(3)) : whole(value)) + unit;
}
function bytes(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (n >= 1024 && unit < units.length - 1) { n /= 1024; ++unit; }
  return (unit === 0 ? whole(n) : n.toPrecision(n < 10 ? 2 : 3)) + ' ' + units[unit];
}
function seconds(s) {
  if (s === 0) return '0 s';
  return s < 1e-3 ? (s * 1e6).toPrecision(3) + ' µs' : s < 1 ? +(s * 1e3).toPrecision(3) + ' ms' : +s.toPrecision(4) + ' s';
}
const counted = (n, thing, things = thing + 's') => whole(n) + ' ' + (n === 1 ? thing : things);

// Elements ---------------------------------------------------------------------------------------------
function put(parent, element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'text') element.textContent = value;
    else element.setAttribute(name, value);
  }
  for (const child of children || []) element.append(child);
  if (parent) parent.append(element);
  return element;
}
const html = (tag, attributes, ...children) => put(null, document.createElement(tag), attributes, children);
const draw = (parent, tag, attributes) =>
  put(parent, document.createElementNS('http://www.w3.org/2000/svg', tag), attributes);
const word = (svg, x, y, text, attributes) => draw(svg, 'text', { x, y, text, ...attributes });

function card(title, note, half) {
  const controls = html('div', { class: 'controls' });
  const box = html('section', { class: half ? 'card half' : 'card', 'aria-label': title },
    html('div', { class: 'head' }, html('h2', { text: title }), controls));
  if (note) box.append(html('p', { class: 'note', text: note }));
  byId('main').append(box);
  return { box, controls };
}
function segments(controls, label, names, chosen, choose) {
  const group = html('span', { class: 'segments', role: 'group', 'aria-label': label });
  names.forEach((name, i) => group.append(html('button', {
    type: 'button', text: name, 'aria-pressed': String(i === chosen),
    onclick: () => {
      [...group.children].forEach((b, j) => b.setAttribute('aria-pressed', String(i === j)));
      choose(i);
    },
  })));
  controls.append(group);
}
function legend(box, entries) {
  const list = html('div', { class: 'legend' });
  for (const [colour, text, stroke] of entries)
    list.append(html('span', {}, html('i', { style: 'background:' + colour, class: stroke ? 'stroke' : '' }), text));
  box.append(list);
}

// The mark under the pointer or selected with arrow keys --------------------------------------------------------------
const tip = byId('tip');
function showTip(title, rows, x, y) {
  tip.replaceChildren(html('b', { text: title }), html('table', {}, ...rows.map(([name, value]) =>
    html('tr', {}, html('td', { text: name }), html('td', { text: value })))));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 8)) + 'px';
  tip.style.top = Math.max(4, y + 18 + box.height > innerHeight ? y - box.height - 12 : y + 18) + 'px';
}
/// marks: {at(x, y) -> mark or null, box(mark), tell(mark) -> [title, rows], first, move(mark, dx, dy)}
function watch(svg, marks) {
  const lit = draw(svg, 'rect', { class: 'lit', visibility: 'hidden', rx: 2 });
  let mark = null;
  const leave = () => { tip.hidden = true; lit.setAttribute('visibility', 'hidden'); };
  const enter = (next, x, y) => {
    mark = next;
    if (mark === null) return leave();
    const b = marks.box(mark);
    for (const [name, value] of Object.entries({ x: b.x, y: b.y, width: Math.max(b.w, 1), height: Math.max(b.h, 1) }))
      lit.setAttribute(name, value);
    lit.setAttribute('visibility', 'visible');
    const [title, rows] = marks.tell(mark);
    if (x === undefined) {
      const frame = svg.getBoundingClientRect();
      const scale = frame.width / svg.viewBox.baseVal.width;
      [x, y] = [frame.left + (b.x + b.w / 2) * scale, frame.top + (b.y + b.h / 2) * scale];
    }
    showTip(title, rows, x, y);
  };
  svg.setAttribute('tabindex', '0');
  svg.addEventListener('pointermove', (event) => {
    const frame = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / frame.width;
    enter(marks.at((event.clientX - frame.left) * scale, (event.clientY - frame.top) * scale), event.clientX, event.clientY);
  });
  svg.addEventListener('pointerleave', leave);
  svg.addEventListener('blur', leave);
  svg.addEventListener('keydown', (event) => {
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (event.key === 'Escape') return leave();
    if (!way) return;
    event.preventDefault();
    enter(mark === null ? marks.first : marks.move(mark, ...way));
  });
}

// Charts -----------------------------------------------------------------------------------------------
function picture(box, height, label) {
  const style = getComputedStyle(box);
  const width = Math.max(300, box.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight));
  const svg = put(box, document.createElementNS('http://www.w3.org/2000/svg', 'svg'),
    { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': label });
  return { svg, width };
}
/// Returns about this many round numbers from `low` to `high`; with `beyond`, one more that is at least `high`.
function ticks(low, high, about, { beyond, base = 10, integers } = {}) {
  const rough = (high - low) / about || 1;
  const power = base ** Math.floor(Math.log(rough) / Math.log(base));
  const steps = base === 10 ? [1, 2, 2.5, 5, 10] : [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
  let step = power * steps.find((m) => m * power >= rough * 0.999);
  if (integers) step = Math.max(1, Math.ceil(step));
  const list = [];
  const first = Math.ceil(low / step - 1e-9);
  const last = beyond ? Math.ceil(high / step - 1e-9) : Math.floor(high / step + 1e-6);
  for (let i = first; i <= last; ++i) list.push(+(i * step).toPrecision(12));
  return list;
}
/// Draws a frame with both axes; returns functions from values to positions.
function frame(svg, width, height, { low = 0, high, format, left = 58, bottom = 26, top = 10, right = 8 }) {
  const values = ticks(low, high > low ? high : low + 1, 4, { beyond: true, base: format === bytes ? 1024 : 10, integers: format === short });
  const up = values[values.length - 1];
  const y = (v) => height - bottom - (v - low) / (up - low || 1) * (height - bottom - top);
  for (const v of values) {
    draw(svg, 'line', { x1: left, x2: width - right, y1: y(v), y2: y(v), class: v === low ? 'axis' : 'gridline' });
    word(svg, left - 8, y(v) + 4, format(v), { 'text-anchor': 'end' });
  }
  return { y, left, right: width - right, bottom: height - bottom, top, width: width - right - left };
}
/// Draws names below n positions, as many as fit.
function under(svg, f, n, name) {
  const every = Math.max(1, Math.ceil(n / Math.max(1, Math.floor(f.width / 56))));
  for (let i = 0; i < n; i += every)
    word(svg, f.left + (i + 0.5) * f.width / n, f.bottom + 16, name(i), { 'text-anchor': 'middle' });
}
const rectangle = (x, y, w, h) => `M${x.toFixed(2)} ${y.toFixed(2)}h${w.toFixed(2)}v${h.toFixed(2)}h${(-w).toFixed(2)}z`;

/// Draws bars side by side, with layers nested or stacked.
function bars(box, { n, layers, stacked, format, name, tell, height = 230, label, line, axis }) {
  const { svg, width } = picture(box, height + (axis ? 14 : 0), label);
  const tops = [...Array(n).keys()].map((i) => stacked ? sum(layers.map((l) => l.values[i])) : most(layers.map((l) => l.values[i])));
  const f = frame(svg, width, height, { high: Math.max(most(tops), line ? line.value : 0), format });
  const place = f.width / n;
  const slot = Math.min(place * (n > 160 ? 1 : 0.78), 64);
  const below = Array(n).fill(0);
  for (const layer of layers) {
    const wide = slot * (layer.width || 1);
    let path = '';
    if (layer.outline) {
      const steps = layer.values.map((v, i) => `${(f.left + i * place).toFixed(2)} ${f.y(v).toFixed(2)}h${place.toFixed(2)}`);
      draw(svg, 'path', { d: 'M' + steps.join('L'), fill: 'none', stroke: layer.colour, 'stroke-width': 1.2 });
      continue;
    }
    for (let i = 0; i < n; ++i) {
      const from = stacked ? below[i] : 0;
      const to = from + layer.values[i];
      if (layer.values[i] > 0) path += rectangle(f.left + (i + 0.5) * place - wide / 2, f.y(to), wide, f.y(from) - f.y(to));
      below[i] = to;
    }
    draw(svg, 'path', { d: path || 'M0 0', fill: layer.colour });
  }
  if (line) {
    draw(svg, 'line', { x1: f.left, x2: f.right, y1: f.y(line.value), y2: f.y(line.value), stroke: 'var(--mean)', 'stroke-dasharray': '5 4' });
    word(svg, f.right, f.y(line.value) - 5, line.text, { 'text-anchor': 'end', class: 'strong' });
  }
  under(svg, f, n, name);
  if (axis) word(svg, f.left + f.width / 2, height + 10, axis, { 'text-anchor': 'middle' });
  watch(svg, {
    first: 0,
    at: (x) => x < f.left || x > f.right ? null : Math.min(n - 1, Math.floor((x - f.left) / place)),
    box: (i) => ({ x: f.left + (i + 0.5) * place - Math.max(slot, 3) / 2 - 1, y: f.y(tops[i]) - 1, w: Math.max(slot, 3) + 2, h: f.bottom - f.y(tops[i]) + 1 }),
    move: (i, dx) => Math.max(0, Math.min(n - 1, i + dx)),
    tell,
  });
}

/// Draws lines over steps.
function lines(box, { n, layers, low, format, name, tell, height = 210, label }) {
  const { svg, width } = picture(box, height, label);
  const f = frame(svg, width, height, { low, high: most(layers.map((l) => most(l.values))), format });
  const x = (i) => n === 1 ? f.left + f.width / 2 : f.left + 8 + i * (f.width - 16) / (n - 1);
  for (const layer of layers) {
    const at = (i) => `${x(i).toFixed(2)} ${f.y(Math.max(low, layer.values[i])).toFixed(2)}`;
    draw(svg, 'path', { d: 'M' + layer.values.map((_, i) => at(i)).join('L'), fill: 'none', stroke: layer.colour, 'stroke-width': 2, 'stroke-linejoin': 'round', 'stroke-dasharray': layer.dash });
    if (n <= 60) for (let i = 0; i < n; ++i) draw(svg, 'circle', { cx: x(i), cy: f.y(Math.max(low, layer.values[i])), r: 2.6, fill: layer.colour });
  }
  const every = Math.max(1, Math.ceil(n / Math.max(1, Math.floor(f.width / 56))));
  for (let i = 0; i < n; i += every) word(svg, x(i), f.bottom + 16, name(i), { 'text-anchor': 'middle' });
  watch(svg, {
    first: 0,
    at: (px) => px < f.left ? null : n === 1 ? 0 : Math.max(0, Math.min(n - 1, Math.round((px - f.left - 8) / (f.width - 16) * (n - 1)))),
    box: (i) => ({ x: x(i) - 1, y: f.top, w: 2, h: f.bottom - f.top }),
    move: (i, dx) => Math.max(0, Math.min(n - 1, i + dx)),
    tell,
  });
}
