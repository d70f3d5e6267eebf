// The sections of the page, made from the data in the page with the functions of charts.js.

// Sections ---------------------------------------------------------------------------------------------
const phaseColour = (p) => `var(--p${p})`;
function placeName(series, what, i) {
  if (series.group === 1) return what + ' ' + whole(i);
  return `${what}s ${whole(i * series.group)} to ${whole(Math.min(series.number, (i + 1) * series.group) - 1)}, mean`;
}
function stepName(i) {
  const p = run.points;
  if (p.group === 1) return 'step ' + whole(p.step[i]);
  const next = i + 1 < p.step.length ? p.step[i + 1] - 1 : null;
  return next === null ? `steps from ${whole(p.step[i])}` : `steps ${whole(p.step[i])} to ${whole(next)}`;
}

/// Text that a chart's numbers are over all steps, if there are several.
const overSteps = (what) => run.totals.steps > 1 ? what + ' over all steps. ' : '';

function tiles() {
  const t = run.totals;
  const box = html('section', { class: 'tiles', 'aria-label': 'In short' });
  const tile = (name, value, unit, more) => box.append(html('div', { class: 'tile' }, html('span', { class: 'name', text: name }),
    html('b', {}, value, html('small', { text: unit ? ' ' + unit : '' })), html('span', { text: more })));
  const unshared = run.planning.shares ? t.unshared_rows : t.rows;
  const removed = t.padded_rows - unshared;
  tile('tokens', short(t.tokens), '', `${counted(t.samples, 'sample')} in ${counted(t.steps, 'step')}`);
  tile('padding removed', t.padded_rows ? percent(removed / t.padded_rows) : '0 %', '', `${short(removed)} of ${short(t.padded_rows)} rows`);
  tile('work, max over mean', ratio(t.dp.mean), '', `of DP ranks; ${ratio(t.before.mean)} in source order`);
  tile('micro-batches', whole(t.micro_batches), '', `a DP rank; at least ${whole(t.lower_bound)}${t.empty ? `; ${whole(t.empty)} empty` : ''}`);
  if (run.planning.shares)
    tile('rows saved by sharing', t.unshared_rows ? percent((t.unshared_rows - t.rows) / t.unshared_rows) : '0 %', '', `${short(t.unshared_rows - t.rows)} of ${short(t.unshared_rows)}`);
  if (run.planning.shares && sum(t.repeated))
    tile('tokens repeated by splits', short(sum(t.repeated)), '', run.planning.repeat_reasons.map((reason, i) => [t.repeated[i], reason])
      .filter(([n]) => n > 0).map(([n, reason]) => `${reason} (${short(n)})`).join(', '));
  if (isPlan) return byId('main').append(box);
  tile('making steps', seconds(sum(t.seconds)), '', `${seconds(t.waited)} of it waited for`);
  tile('bytes between ranks', bytes(t.sent_bytes), '', t.node_bytes ? `${bytes(t.node_bytes)} of it between nodes` : `${bytes(t.kept_bytes)} stayed on a rank`);
  tile('memory of tensors', bytes(t.peak_bytes), '', 'on the rank with most');
  byId('main').append(box);
}

function advice() {
  const { box } = card('What to change', run.advice.length
    ? 'What was counted, and what may be behind it; shares are of the planned work or of the rows, the most first.' : '');
  if (!run.advice.length)
    return box.append(html('p', { class: 'nothing', text: 'Nothing: by these figures there is little to gain.' }));
  box.append(html('ol', { class: 'advice' }, ...run.advice.map((a) => html('li', {},
    html('div', { class: 'share', text: percent(a.share) }),
    html('div', {}, html('div', { text: a.what }), html('div', { class: 'why', text: a.why }), html('div', { class: 'action', text: a.action }))))));
}

function dpRanks() {
  const dp = run.dp;
  const n = dp.tokens.length;
  const { box, controls } = card('DP ranks, before and after', overSteps('Sums') + 'Before: samples in source order, in runs of equal count.');
  const area = html('div');
  const measures = [
    { name: 'work', after: dp.cost, before: dp.cost_before, format: short },
    { name: 'tokens', after: dp.tokens, before: dp.tokens_before, format: short },
    { name: 'waiting at the end', after: dp.waits_at_end.map((w) => w / (run.totals.longest_time || 1)), format: (v) => percent(v) },
    { name: 'waiting at each micro-batch', after: dp.waits_at_each.map((w) => w / (run.totals.meeting_time || 1)), format: (v) => percent(v) },
  ];
  const show = (i) => {
    area.replaceChildren();
    const m = measures[i];
    const mean = sum(m.after) / n;
    bars(area, {
      n, format: m.format, label: `${m.name} of DP ranks`, name: (r) => whole(r * dp.group),
      layers: m.before && n > 160 ? [{ values: m.after, colour: 'var(--accent)' }, { values: m.before, colour: 'var(--soft)', outline: true }]
        : m.before ? [{ values: m.before, colour: 'var(--before)' }, { values: m.after, colour: 'var(--accent)', width: 0.62 }]
        : [{ values: m.after, colour: 'var(--wait)' }],
      line: { value: mean, text: 'mean ' + m.format(mean) },
      tell: (r) => [placeName(dp, 'DP rank', r), [
        ['work', whole(dp.cost[r])], ['work before', whole(dp.cost_before[r])], ['tokens', whole(dp.tokens[r])],
        ['tokens before', whole(dp.tokens_before[r])], ['rows', whole(dp.rows[r])], ['samples', whole(dp.samples[r])],
        ['waits at the end', percent(dp.waits_at_end[r] / (run.totals.longest_time || 1))],
        ['waits at each micro-batch', percent(dp.waits_at_each[r] / (run.totals.meeting_time || 1))]]],
    });
    legend(area, m.before ? [[n > 160 ? 'var(--soft)' : 'var(--before)', m.name + ' in source order'], ['var(--accent)', m.name + ' as assigned']]
      : [['var(--wait)', 'share of the planned work’s time, if DP ranks meet ' + (i === 2 ? 'at the end of each step' : 'after every micro-batch')]]);
  };
  segments(controls, 'What bars show', measures.map((m) => m.name), 0, show);
  box.append(area);
  show(0);
}

function gantt() {
  if (!run.kept.length) return;
  const { box, controls } = card('Micro-batches of a step', 'What each DP rank runs, one micro-batch after the other'
    + (data.mesh.cp === 'flexible' ? '; DP ranks of a group run one together. ' : '. ')
    + 'The axis is planned work (' + run.planning.cost + '), not measured time.');
  const worst = run.kept.reduce((a, b) => b.waiting > a.waiting ? b : a);
  let step = worst;
  let meet = run.totals.meeting_time > 1.02 * run.totals.longest_time ? 1 : 0;
  let sorted = 0;
  const area = html('div');
  const select = html('select', { 'aria-label': 'Step', onchange: () => { step = run.kept[select.value]; show(); } },
    ...run.kept.map((s, i) => html('option', { value: i, text: `step ${s.step}: ${percent(s.waiting)} waiting` })));
  select.value = run.kept.indexOf(worst);
  controls.append(select);
  segments(controls, 'Where DP ranks meet', ['meet at the end', 'meet at each micro-batch'], meet, (i) => { meet = i; show(); });
  segments(controls, 'Order', ['by rank', 'longest first'], 0, (i) => { sorted = i; show(); });
  box.append(area);
  const show = () => { area.replaceChildren(); drawGantt(area, step, meet === 1, sorted === 1); };
  show();
}

function drawGantt(area, step, meets, sorted) {
  const cap = run.planning.cap;
  const rows = step.ranks.map((r) => ({ rank: r.rank, list: r.micro_batches, times: r.micro_batches.map((m) => m[3] * 1000 / r.speed) }));
  for (const row of rows) row.total = sum(row.times);
  if (sorted) rows.sort((a, b) => b.total - a.total);
  const k = most(rows.map((r) => r.list.length));
  const starts = Array(k).fill(0);
  if (meets) for (let j = 1; j < k; ++j) starts[j] = starts[j - 1] + most(rows.map((r) => r.times[j - 1] || 0));
  for (const row of rows) {
    let at = 0;
    row.from = row.times.map((time, j) => { const from = meets ? starts[j] : at; at = from + time; return from; });
    row.end = at;
  }
  const end = meets ? starts[k - 1] + most(rows.map((r) => r.times[k - 1] || 0)) : most(rows.map((r) => r.end));
  // Whole pixels, as long as the chart is at most a few screens high.
  const lane = rows.length <= 32 ? 20 : rows.length <= 64 ? 12 : rows.length <= 1024 ? Math.max(2, Math.round(800 / rows.length)) : 1;
  const gap = lane >= 6 ? 2 : 0;
  const thick = Math.min(lane - gap, 6);
  const height = 8 + rows.length * lane + 40;
  const { svg, width } = picture(area, height, `micro-batches of step ${step.step} on ${step.ranks.length} DP ranks`);
  const [left, right, top] = [46, width - 8, 6];
  const x = (t) => left + t / (end || 1) * (right - left);
  for (const v of ticks(0, end, 8)) {
    draw(svg, 'line', { x1: x(v), x2: x(v), y1: top, y2: height - 34, class: 'gridline' });
    word(svg, x(v), height - 20, short(v), { 'text-anchor': 'middle' });
  }
  word(svg, (left + right) / 2, height - 4, 'planned work', { 'text-anchor': 'middle' });
  const levels = ['', '', '', '', ''];
  let waiting = '';
  rows.forEach((row, r) => {
    const y = top + r * lane;
    waiting += rectangle(x(0), y + (lane - gap - thick) / 2, x(end) - x(0), thick);
    row.list.forEach((m, j) => {
      const w = x(row.from[j] + row.times[j]) - x(row.from[j]);
      const joined = !sorted && row.rank + 1 < m[6] + m[7] && rows[r + 1] && rows[r + 1].rank === row.rank + 1;
      if (w > 0) levels[Math.max(0, Math.min(4, Math.ceil(m[2] / cap * 5) - 1))] += rectangle(x(row.from[j]), y, Math.max(0.4, w - (w > 4 ? 1 : 0)), joined ? lane : lane - gap);
    });
  });
  draw(svg, 'path', { d: waiting || 'M0 0', fill: 'var(--wait)' });
  levels.forEach((d, i) => draw(svg, 'path', { d: d || 'M0 0', fill: `var(--level${i})` }));
  const every = Math.max(1, Math.ceil(14 / lane));
  rows.forEach((row, r) => { if (r % every === 0) word(svg, left - 8, top + r * lane + Math.max(4, lane / 2 + 3), row.rank, { 'text-anchor': 'end' }); });
  watch(svg, {
    first: [0, 0],
    at: (px, py) => {
      const r = Math.floor((py - top) / lane);
      if (r < 0 || r >= rows.length || px < left || px > right) return null;
      const t = (px - left) / (right - left) * end;
      const row = rows[r];
      let found = -1;
      row.from.forEach((from, j) => { if (row.times[j] > 0 && from <= t && t <= from + row.times[j]) found = j; });
      return [r, found];
    },
    box: ([r, j]) => j < 0 ? { x: x(0), y: top + r * lane - 1, w: x(end) - x(0), h: lane }
      : { x: x(rows[r].from[j]) - 0.5, y: top + r * lane - 1, w: x(rows[r].times[j]) - x(0), h: lane - gap + 2 },
    move: ([r, j], dx, dy) => {
      const to = Math.max(0, Math.min(rows.length - 1, r + dy));
      return [to, Math.max(-1, Math.min(rows[to].list.length - 1, j + dx))];
    },
    tell: ([r, j]) => {
      const row = rows[r];
      if (j < 0) return [`DP rank ${row.rank}`, [['work', whole(sum(row.list.map((m) => m[3])))], ['tokens', whole(sum(row.list.map((m) => m[1])))],
        ['micro-batches', whole(row.list.length)], ['empty', whole(row.list.filter((m) => m[2] === 0).length)], ['waits', percent(1 - row.total / (end || 1))]]];
      const [samples, tokens, filled, cost, longest, mini, first, size] = row.list[j];
      const group = size > 1 ? [['its group', `DP ranks ${first} to ${first + size - 1}`]] : [];
      return [`DP rank ${row.rank}, micro-batch ${j}`, [...group, ['samples', whole(samples)], ['tokens', whole(tokens)],
        ['rows', `${whole(filled)} of ${whole(cap)} (${percent(filled / cap, 0)})`], ['hold no token', whole(filled - tokens)],
        ['longest sample', whole(longest)], ['work', whole(cost)], ['mini-batch', whole(mini)]]];
    },
  });
  const levelsTold = ['up to 20 %', '40 %', '60 %', '80 %', '100 % of the cap'];
  legend(area, [...levelsTold.map((text, i) => [`var(--level${i})`, text]), ['var(--wait)', 'waiting']]);
  const left_out = step.number - step.ranks.length;
  const empty = sum(rows.map((r) => r.list.filter((m) => m[2] === 0).length));
  const notes = [];
  if (empty) notes.push(`${counted(empty, 'empty micro-batch', 'empty micro-batches')} take${empty === 1 ? 's' : ''} no place.`);
  if (left_out) notes.push(`${counted(left_out, 'DP rank')} of ${whole(step.number)} left out: shown are those that take longest and least.`);
  if (notes.length) area.append(html('p', { class: 'note', text: notes.join(' ') }));
}

function lengths() {
  const l = run.lengths;
  const { box } = card('Lengths', `From ${whole(l.shortest)} to ${whole(l.longest)} tokens, in bins of ${whole(l.width)}.`, true);
  const [samples, tokens] = [sum(l.samples), sum(l.tokens)];
  bars(box, {
    n: l.samples.length || 1, format: short, label: 'samples by length', axis: 'tokens of a sample',
    layers: [{ values: l.samples.length ? l.samples : [0], colour: 'var(--accent)' }],
    name: (i) => short(i * l.width), height: 220,
    tell: (i) => [`${whole(i * l.width)} to ${whole((i + 1) * l.width - 1)} tokens`, [['samples', `${whole(l.samples[i] || 0)} (${percent((l.samples[i] || 0) / (samples || 1))})`],
      ['tokens', `${whole(l.tokens[i] || 0)} (${percent((l.tokens[i] || 0) / (tokens || 1))})`]]],
  });
}

function padding() {
  const t = run.totals;
  const { box } = card('Padding removed', 'What one padded tensor a step would take, and what became of its rows.', true);
  const unshared = run.planning.shares ? t.unshared_rows : t.rows;
  const parts = [
    ['var(--accent)', 'hold a token', t.filled],
    ['var(--wait)', run.planning.pads ? 'padding and alignment left' : 'alignment', t.rows - t.filled],
    ['var(--p2)', 'saved by sharing', unshared - t.rows],
    ['var(--before)', 'padding removed', t.padded_rows - unshared],
  ].filter(([, , n]) => n > 0);
  const all = sum(parts.map(([, , n]) => n));
  const { svg, width } = picture(box, 46 + parts.length * 26, 'rows of a padded batch');
  let x = 0;
  const places = [];
  parts.forEach(([colour, name, n], i) => {
    const w = n / (all || 1) * width;
    draw(svg, 'rect', { x, y: 4, width: Math.max(0.5, w - 1.5), height: 30, fill: colour, rx: 3 });
    places.push({ x, y: 3, w, h: 32 });
    x += w;
    const y = 62 + i * 26;
    draw(svg, 'rect', { x: 0, y: y - 10, width: 12, height: 12, rx: 3, fill: colour });
    word(svg, 20, y, name, { style: 'font-size:13px' });
    word(svg, width - 70, y, whole(n), { 'text-anchor': 'end', style: 'font-size:13px' });
    word(svg, width, y, percent(n / (all || 1)), { 'text-anchor': 'end', class: 'strong', style: 'font-size:13px' });
  });
  watch(svg, {
    first: 0,
    at: (px, py) => { const i = places.findIndex((p) => px >= p.x && px <= p.x + p.w); return py > 40 || i < 0 ? null : i; },
    box: (i) => places[i],
    move: (i, dx) => Math.max(0, Math.min(places.length - 1, i + dx)),
    tell: (i) => [parts[i][1], [['rows', whole(parts[i][2])], ['of a padded batch', percent(parts[i][2] / all)]]],
  });
}

/// Charts of samples that arrive while the job trains, which are the same for all profiles.
function arrivals() {
  const a = data.arrivals;
  if (!a) return;
  const states = [['trained', 'var(--accent)', a.trained], ['in steps', 'var(--p1)', a.formed], ['waiting', 'var(--before)', a.waiting],
    ...Object.entries(a.dropped).map(([reason, n]) => ['dropped: ' + reason.replaceAll('_', ' '), 'var(--wait)', n])].filter(([, , n]) => n > 0);
  const samples = card('Samples that arrived', `${counted(a.received, 'sample')} since the buffer began, and ${counted(a.duplicates, 'duplicate')}. `
    + `Steps of this run waited ${seconds(a.waited_seconds)} for samples.`, true);
  bars(samples.box, {
    n: Math.max(1, states.length), format: short, height: 220, label: 'what became of samples', name: (i) => states.length ? states[i][0] : '',
    layers: states.length ? states.map(([, colour], i) => ({ colour, values: states.map(([, , n], j) => i === j ? n : 0) })) : [{ values: [0], colour: 'var(--accent)' }],
    tell: (i) => states.length ? [states[i][0], [['samples', whole(states[i][2])], ['of those that arrived', percent(states[i][2] / (a.received || 1))]]] : ['nothing', []],
  });
  const mean = (tokens, n) => n ? (tokens / n).toFixed(1) : 'none';
  samples.box.append(html('p', { class: 'note', text: `Response tokens of a sample: ${mean(a.received_tokens, a.received)} of those that arrived, ${mean(a.trained_tokens, a.trained)} of those that were trained.` }));
  const ages = Object.entries(a.staleness).map(([versions, n]) => [+versions, n]).sort((x, y) => x[0] - y[0]);
  if (!ages.length) return;
  const behind = card('Samples behind the policy', 'Of this run’s steps, by the versions that they were behind when their step was formed.', true);
  bars(behind.box, {
    n: ages.length, format: short, height: 220, label: 'samples by versions behind the policy', name: (i) => whole(ages[i][0]), axis: 'versions behind',
    layers: [{ values: ages.map(([, n]) => n), colour: 'var(--accent)' }],
    tell: (i) => [counted(ages[i][0], 'version') + ' behind', [['samples', whole(ages[i][1])], ['of all', percent(ages[i][1] / sum(ages.map(([, n]) => n)))]]],
  });
}

function steps() {
  const p = run.points;
  const n = p.step.length;
  if (n < 2) return;
  const each = p.group > 1 ? ` Each point is ${p.group} steps: the worst ratio, the mean of the rest.` : '';
  const { box } = card('Balance over steps', 'Work of DP ranks, max over mean; 1 is even.' + each, true);
  const tell = (i) => [stepName(i), [['source order', ratio(p.before[i])], ['as assigned', ratio(p.dp[i])], ['meeting at each micro-batch', ratio(p.each[i])],
    ['samples', whole(p.samples[i])], ['tokens', whole(p.tokens[i])]]];
  lines(box, {
    n, low: 1, format: (v) => String(+v.toFixed(3)), label: 'balance over steps', name: (i) => whole(p.step[i]), tell,
    layers: [{ values: p.before, colour: 'var(--before)' }, { values: p.each, colour: 'var(--wait)' }, { values: p.dp, colour: 'var(--accent)' }],
  });
  legend(box, [['var(--before)', 'source order', 1], ['var(--wait)', 'ranks meeting at each micro-batch', 1], ['var(--accent)', 'as assigned', 1]]);
  const count = card('Micro-batches over steps', 'K of each DP rank, and the lower bound.' + (p.group > 1 ? ' The most of each point’s steps.' : ''), true);
  lines(count.box, {
    n, low: 0, format: short, label: 'micro-batches over steps', name: (i) => whole(p.step[i]),
    tell: (i) => [stepName(i), [['micro-batches', whole(p.micro_batches[i])], ['lower bound', whole(p.lower_bound[i])]]],
    layers: [{ values: p.micro_batches, colour: 'var(--accent)' }, { values: p.lower_bound, colour: 'var(--before)', dash: '5 4' }],
  });
  legend(count.box, [['var(--accent)', 'micro-batches per DP rank', 1], ['var(--before)', 'lower bound', 1]]);
}

function phases() {
  const p = run.points;
  const n = p.step.length;
  const { box } = card('Phases of steps', 'Seconds spent making each step, means over ranks. What the trainer did not wait for was made ahead.'
    + (p.group > 1 ? ` Each bar is the mean of ${p.group} steps.` : ''));
  bars(box, {
    n, stacked: true, format: seconds, label: 'phases of steps', name: (i) => whole(p.step[i]),
    layers: data.phases.map((_, i) => ({ values: p.seconds[i], colour: phaseColour(i) })),
    tell: (i) => [stepName(i), [...data.phases.map((name, j) => [name, `${seconds(p.seconds[j][i])} (slowest ${seconds(p.slowest[j][i])})`]),
      ['waited for', seconds(p.waited[i])], ['bytes between ranks', bytes(p.sent_bytes[i])], ['memory so far', bytes(p.peak_bytes[i])]]],
  });
  legend(box, data.phases.map((name, i) => [phaseColour(i), name]));
}

function worldRanks() {
  const r = run.ranks;
  const n = r.waited.length;
  if (!n) return;
  const { box } = card('Phases of ranks', overSteps('Seconds') + 'A rank that is quick in one phase waits in the next.', true);
  bars(box, {
    n, stacked: true, format: seconds, label: 'phases of ranks', name: (i) => whole(i * r.group), height: 220,
    layers: data.phases.map((_, i) => ({ values: r.seconds[i], colour: phaseColour(i) })),
    tell: (i) => [placeName(r, 'rank', i), [...data.phases.map((name, j) => [name, seconds(r.seconds[j][i])]), ['waited for', seconds(r.waited[i])]]],
  });
  legend(box, data.phases.map((name, i) => [phaseColour(i), name]));
  const memory = card('Memory of ranks', 'Most that tensors took at a time.' + (r.group > 1 ? ` The most of ${r.group} neighbors.` : ''), true);
  bars(memory.box, {
    n, format: bytes, label: 'memory of ranks', name: (i) => whole(i * r.group), height: 220,
    layers: [{ values: r.peak_bytes, colour: 'var(--accent)' }],
    tell: (i) => [placeName(r, 'rank', i), [['memory', bytes(r.peak_bytes[i])], ['sent', bytes(r.sent_bytes[i])], ['kept', bytes(r.kept_bytes[i])]]],
  });
}

function links() {
  const l = run.links;
  if (!l) return;
  const n = Math.ceil(l.ranks / l.per_line);
  if (n < 2) return;
  const { box } = card('Bytes from rank to rank', overSteps('Bytes') + 'Rows send, columns receive. On the diagonal: what a rank kept.'
    + (l.per_line > 1 ? ` Each line is ${l.per_line} neighboring ranks.` : ''));
  const size = Math.max(8, Math.min(34, 560 / n));
  const { svg, width } = picture(box, n * size + 44, 'bytes from rank to rank');
  const left = Math.max(52, (width - n * size) / 2);
  const top = 24;
  const peak = most(l.bytes);
  const levels = Array.from({ length: 6 }, () => '');
  const level = (v) => v === 0 ? 0 : 1 + Math.min(4, Math.floor(v / (peak || 1) * 4.9999));
  for (let i = 0; i < n; ++i) for (let j = 0; j < n; ++j)
    levels[level(l.bytes[i * n + j])] += rectangle(left + j * size, top + i * size, size - (size > 12 ? 2 : 0.5), size - (size > 12 ? 2 : 0.5));
  levels.forEach((d, i) => draw(svg, 'path', { d: d || 'M0 0', fill: i === 0 ? 'var(--grid)' : `var(--level${i - 1})` }));
  const every = Math.max(1, Math.ceil(22 / size));
  for (let i = 0; i < n; i += every) {
    word(svg, left - 8, top + i * size + size / 2 + 3, whole(i * l.per_line), { 'text-anchor': 'end' });
    word(svg, left + i * size + size / 2, top - 8, whole(i * l.per_line), { 'text-anchor': 'middle' });
  }
  const name = (i) => l.per_line === 1 ? 'rank ' + i : `ranks ${i * l.per_line} to ${Math.min(l.ranks, (i + 1) * l.per_line) - 1}`;
  watch(svg, {
    first: [0, 0],
    at: (px, py) => {
      const [i, j] = [Math.floor((py - top) / size), Math.floor((px - left) / size)];
      return i < 0 || j < 0 || i >= n || j >= n ? null : [i, j];
    },
    box: ([i, j]) => ({ x: left + j * size - 1, y: top + i * size - 1, w: size, h: size }),
    move: ([i, j], dx, dy) => [Math.max(0, Math.min(n - 1, i + dy)), Math.max(0, Math.min(n - 1, j + dx))],
    tell: ([i, j]) => [i === j && l.per_line === 1 ? `${name(i)} kept` : `${name(i)} to ${name(j)}`, [['bytes', bytes(l.bytes[i * n + j])]]],
  });
  legend(box, [['var(--grid)', 'nothing'], ...[0, 1, 2, 3, 4].map((i) => [`var(--level${i})`, 'up to ' + bytes(peak * (i + 1) / 5)])]);
}

/// Returns a bar of the part that a step needs, up to 1, and of the excess.
const timeBar = (time, longest) => html('td', { class: 'time' },
  html('i', { style: `width:${70 / longest}%` }), html('i', { class: 'more', style: `width:${70 * Math.max(0, time - 1) / longest}%` }), html('span', { text: ratio(time) }));
function table(box, names, rows) {
  box.append(html('div', { class: 'wide' }, html('table', { class: 'ways' }, html('tr', {}, ...names.map((text) => html('th', { text, scope: 'col' }))), ...rows)));
}
/// Returns the plan within the cap that ends first if DP ranks are synchronized at each micro-batch.
function best(plans) {
  const sound = plans.filter((p) => !p.totals.above_cap);
  return (sound.length ? sound : plans).reduce((a, b) => b && b.totals.each.mean < a.totals.each.mean ? b : a, (sound.length ? sound : plans)[0]);
}

function planningWays() {
  const list = data.ways.filter((way) => !('cp' in way) && !('share' in way));
  if (!list.length) return;
  const { box } = card('Ways to plan', 'How long a step takes, where 1 is its work divided evenly over the DP ranks, and what is beyond 1 is waiting. Below is the plan of the way that is marked; click on another one.');
  const longest = most(list.map((way) => Math.max(way.step_max_over_mean, way.dp_max_over_mean)));
  const shaped = list.some((way) => 'padding_to_shapes' in way);
  table(box, ['way', 'micro-batches', 'above the cap', 'if DP ranks meet once a step', 'if they meet at each micro-batch', ...(shaped ? ['padding to shapes'] : [])],
    list.map((way, i) => html('tr', { class: run === data.profiles[i] ? 'chosen' : undefined },
      html('td', {}, html('button', { type: 'button', text: way.way, 'aria-pressed': String(run === data.profiles[i]), onclick: () => { run = data.profiles[i]; drawAll(); } })),
      html('td', { text: whole(way.num_micro_batches) }),
      html('td', { text: whole(way.above_cap), class: way.above_cap ? 'alarm' : undefined }),
      timeBar(way.dp_max_over_mean, longest), timeBar(way.step_max_over_mean, longest),
      ...(shaped ? [html('td', { text: 'padding_to_shapes' in way ? percent(way.padding_to_shapes) : '' })] : []))));
}

function contextWays() {
  const list = data.ways.filter((way) => 'cp' in way);
  if (!list.length) return;
  const { box } = card('Context parallelism', 'How long a step takes, where 1 is a bound that no plan is below. ' + data.conclusion);
  const longest = most(list.map((way) => way.end_over_bound));
  table(box, ['way', 'micro-batches', 'time over the bound'], list.map((way) => html('tr', {},
    html('td', { text: way.way }), html('td', { text: whole(way.num_micro_batches) }), timeBar(way.end_over_bound, longest))));
}

function sharingWays() {
  const list = data.ways.filter((way) => 'share' in way);
  if (!list.length) return;
  const { box } = card('Shared prefixes', 'How long a step takes, where 1 is the work of every token once, evenly on all DP ranks.');
  const longest = most(list.map((way) => Math.max(way.end_over_bound_once ?? 0, way.end_over_bound_every_micro_batch ?? 0)));
  const time = (end) => end === null ? html('td', { text: '-' }) : timeBar(end, longest);
  table(box, ['way', 'tokens', 'attention scores', 'held at once', 'if DP ranks meet once a step', 'if they meet at each micro-batch'], list.map((way) => html('tr', {},
    html('td', { text: way.way }), html('td', { text: whole(way.tokens) }), html('td', { text: whole(way.score_entries) }), html('td', { text: whole(way.held_at_once) }),
    time(way.end_over_bound_once), time(way.end_over_bound_every_micro_batch))));
}

function footer() {
  const notes = [];
  if (run.kept.length < run.totals.steps)
    notes.push(`Micro-batches are shown of ${run.kept.length} of ${whole(run.totals.steps)} steps: the first, the last, and those that wait longest; everything else is over all steps.`);
  if (run.points.group > 1) notes.push(`Charts over steps have one point for ${run.points.group} steps.`);
  if (run.dp.group > 1) notes.push(`Charts over DP ranks have one bar for ${run.dp.group} neighbors.`);
  if (isPlan) notes.push('A plan has no seconds, no bytes and no memory: nothing was run.');
  notes.push('This file needs no network and no other file.');
  byId('footer').textContent = notes.join(' ');
}

// Main -------------------------------------------------------------------------------------------------
function drawAll() {
  byId('main').replaceChildren();
  const m = data.mesh;
  byId('title').textContent = data.title + (run && run.name && data.kind === 'run' ? ', profile ' + run.name : '');
  byId('subtitle').textContent = `Evenkeel${data.version ? ' ' + data.version : ''} on tp ${m.tp} × cp ${m.cp} × dp ${m.dp} × pp ${m.pp}`
    + (isPlan ? '' : `, ${counted(m.tp * (m.cp === 'flexible' ? 1 : m.cp) * m.dp * m.pp, 'rank')}, ${seconds(data.seconds)}`);
  byId('origin').textContent = [data.date, data.sources.join(', ')].filter((text) => text).join(', from ');
  if (data.kind === 'comparison') { planningWays(); contextWays(); sharingWays(); }
  else if (!run) byId('main').append(html('p', { text: 'No steps were run.' }));
  if (!run) return;
  tiles();
  if (data.kind !== 'comparison') advice();
  arrivals();
  dpRanks();
  gantt();
  lengths();
  padding();
  steps();
  if (!isPlan) { phases(); worldRanks(); links(); }
  footer();
}
if (data.kind === 'comparison') run = best(data.profiles);
else if (data.profiles.length > 1) {
  const nav = byId('profiles');
  nav.hidden = false;
  segments(nav, 'Profile', data.profiles.map((p) => p.name || 'the job’s own'), 0, (i) => { run = data.profiles[i]; drawAll(); });
}
byId('text').open = false;
drawAll();
let width = innerWidth;
window.addEventListener('resize', () => { if (Math.abs(innerWidth - width) > 20) { width = innerWidth; drawAll(); } });
document.documentElement.dataset.drawn = 'yes';
