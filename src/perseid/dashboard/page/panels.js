// State, checkpoints, time, hosts and keys.
import { html, useState } from './vendor/preact-htm.js';
import { useData } from './data.js';
import { BYTES, Chart, COLOURS, MILLISECONDS, WHOLE } from './curves.js';
import { hostColour } from './graph.js';
import { clock, count, day, duration, percent, rate, size } from './format.js';

const RANGES = [['all', null], ['1 h', 3600000], ['10 min', 600000], ['1 min', 60000]];
const REASONS = { period: '--c1', profiling: '--muted', static: '--c1', minimum: '--good', no_minimum: '--warn', recorded: '--good', unrecorded: '--warn', own_period: '--c1', scale: '--c2', asked: '--c5', final: '--c4' };
const reason = (name) => name.replaceAll('_', ' ');

function useRange(now) {
  const [span, set] = useState(null);
  const query = span == null ? '' : `?from=${now.at_ms - span}`;
  const buttons = html`<div class="ranges" role="group" aria-label="Time shown">${RANGES.map(([name, ms]) => html`
    <button aria-pressed=${span === ms} onClick=${() => set(ms)}>${name}</button>`)}</div>`;
  return [query, buttons];
}
export const Empty = ({ error, what }) => html`<p class="empty">${error || `No ${what} yet.`}</p>`;

export function State({ root, now }) {
  const [query, ranges] = useRange(now);
  const { data, error } = useData(`${root}/state${query}`, now.revision);
  const [over, setOver] = useState(null);
  if (!data || !data.total.t) return html`<section aria-label="State">${ranges}<${Empty} error=${error} what="epochs" /></section>`;
  const names = Object.keys(data.operators).filter((name) => data.operators[name].t);
  const marks = data.checkpoints.map((c) => ({ at: c.at_ms / 1000, colour: c.state === 'failed' ? '--bad' : REASONS[c.reason] || '--c1', strong: c.key === over }));
  const lines = data.threshold ? [{ at: data.threshold, text: `alert below ${size(data.threshold)}` }] : [];
  const used = [...new Set(data.checkpoints.map((c) => c.reason))].filter(Boolean);
  return html`<section aria-label="State">${ranges}
    <${Chart} title="State of all operators" note="Dots are checkpoints, by the reason they were taken for." t=${data.total.t} steps=${BYTES} format=${size} bands=${data.bands} marks=${marks} lines=${lines} height=${260}
      series=${[{ label: 'total', colour: '--c1', values: data.total.bytes, fill: '22', width: 2 }]} />
    <p class="key">${used.map((name) => html`<span class="dot" style=${`background:var(${REASONS[name] || '--c1'})`}></span>${reason(name)} `)}</p>
    <div class="columns">${names.map((name, i) => html`<${Chart} key=${name} title=${name} t=${data.operators[name].t} steps=${BYTES} format=${size} bands=${data.bands} height=${150}
      series=${[{ label: name, colour: COLOURS[(i + 1) % COLOURS.length], values: data.operators[name].bytes, fill: '22' }]} />`)}</div>
    <div class="card"><h3>Why each checkpoint was taken when it was</h3><ul class="reasons">${data.checkpoints.slice(-12).reverse().map((c) => html`
      <li tabindex="0" onMouseEnter=${() => setOver(c.key)} onFocus=${() => setOver(c.key)} onMouseLeave=${() => setOver(null)} onBlur=${() => setOver(null)}>
        <span class="dot" style=${`background:var(${c.state === 'failed' ? '--bad' : REASONS[c.reason] || '--c1'})`}></span>
        <b>${c.id}</b> <time>${clock(c.at_ms)}</time> <span>${c.why || reason(c.reason) || 'no reason is recorded'}${c.bytes != null ? html` <em>(${size(c.bytes)})</em>` : ''}${c.error ? html` <em class="bad">${c.error}</em>` : ''}</span></li>`)}</ul></div>
  </section>`;
}

const PARTS = [['ordered', 'waiting for its epoch', 'wait'], ['forked', 'fork', 'fork'], ['synced', 'write', 'write'], ['written', 'sync', 'sync'], ['end', 'others and commit', 'commit']];
const SHOWN = 60, ROWS = 40;

function Gantt({ one }) {
  const end = Math.max(1, one.end);
  const rows = one.rows.length > SHOWN ? [...one.rows].sort((a, b) => b.written - a.written).slice(0, SHOWN) : one.rows;
  return html`<div class="gantt" role="table" aria-label="Shards of the checkpoint">${rows.map((row) => {
    let before = 0;
    const bars = PARTS.map(([field, name, kind]) => {
      const to = field === 'end' ? one.end : row[field], took = Math.max(0, to - before);
      const bar = took > 0 && html`<i class=${kind} style=${`left:${(before / end) * 100}%;width:${Math.max(0.35, (took / end) * 100)}%`} title=${`${name}: ${duration(took)}`}></i>`;
      before = Math.max(before, to);
      return bar;
    });
    return html`<div role="row"><span role="cell" class="who">${row.shard}</span><span role="cell" class="bars">${bars}</span><span role="cell" class="size">${size(row.bytes)}</span></div>`;
  })}<div class="axis"><span></span><span class="bars">${[0, 0.25, 0.5, 0.75, 1].map((at) => html`<b style=${`left:${at * 100}%`}>${duration(end * at)}</b>`)}</span><span></span></div></div>
    ${rows.length < one.rows.length && html`<p class="note">the ${SHOWN} latest of ${one.rows.length} shards</p>`}
    <p class="key">${PARTS.map(([, name, kind]) => html`<span class=${`dot ${kind}`}></span>${name} `)}</p>`;
}

export function Checkpoints({ root, now, chosen, go }) {
  const { data, error } = useData(`${root}/checkpoints`, now.revision), [most, show] = useState(ROWS);
  const list = data ? data.checkpoints : [];
  const key = chosen || (list.find((c) => c.state === 'committed') || list[0] || {}).key;
  const one = useData(key ? `${root}/checkpoints/${key}` : null, now.revision);
  if (!data || !list.length) return html`<section aria-label="Checkpoints"><${Empty} error=${error} what="checkpoints" /></section>`;
  const c = one.data;
  return html`<section aria-label="Checkpoints">
    ${one.error && html`<p class="banner warn">${one.error}</p>`}
    ${c && html`<div class="card"><h3>Checkpoint ${c.id} <span class=${`badge ${c.state === 'failed' ? 'bad' : c.state === 'committed' ? 'good' : ''}`}>${c.state}</span></h3>
      <p>${c.why ? `Taken because ${c.why}.` : ''} ${c.error}</p>
      <dl class="facts"><div><dt>size</dt><dd>${size(c.bytes)}</dd></div><div><dt>took</dt><dd>${duration(c.ms)}</dd></div><div><dt>decided</dt><dd>${day(c.at_ms)}</dd></div>
        ${c.inflight > 0 && html`<div><dt>epochs in flight</dt><dd>${count(c.inflight)} (${size(c.inflight_bytes)})</dd></div>`}
        ${c.awaited_ms > 0 && html`<div><dt>epochs waited for it</dt><dd>${duration(c.awaited_ms)}</dd></div>`}</dl>
      ${c.rows.length > 0 && html`<${Gantt} one=${c} /><p class="note">${c.slowest}.</p>`}</div>`}
    <div class="card scroll tall"><h3>${count(data.of)} ${data.of === 1 ? 'checkpoint' : 'checkpoints'}</h3><table class="checkpoints"><thead><tr><th class="n">number</th><th>when</th><th class="n">age</th><th>reason</th><th class="n">size</th><th class="n">took</th><th></th></tr></thead>
      <tbody>${list.slice(0, most).map((one) => html`<tr class=${one.key === key ? 'chosen' : ''} onClick=${() => go('checkpoints', one.key)}>
        <td class="n"><button class="link" aria-current=${one.key === key} onClick=${() => go('checkpoints', one.key)}>${one.id}</button></td><td>${clock(one.at_ms)}</td><td class="n">${duration(one.age_ms)}</td>
        <td class="why" title=${one.why}><b>${reason(one.reason)}</b> ${one.why}</td><td class="n">${size(one.bytes)}</td><td class="n">${duration(one.ms)}</td>
        <td>${one.state === 'committed' ? html`<span class="good">✓</span>` : one.state === 'failed' ? html`<span class="bad">✗ ${one.error}</span>` : 'on its way'}</td></tr>`)}</tbody></table>
      ${list.length > most && html`<p><button onClick=${() => show(most + ROWS)}>older ones</button> <span class="note">${count(list.length - most)} more here, ${count(data.of)} in all</span></p>`}</div>
  </section>`;
}

const SPLIT = [['admission', 'admission', '--c4'], ['waiting', 'waiting', '--muted'], ['spark', 'Spark', '--c1'], ['hosts', 'hosts', '--c2'], ['sink', 'sink', '--c3']];

function stacked(curves) {
  let below = curves.t.map(() => 0);
  return SPLIT.map(([field, label, colour]) => {
    below = below.map((v, i) => v + (curves[field][i] || 0));
    return { label, colour, values: below, raw: curves[field], fill: true, width: 0.5 };
  }).reverse();
}

export function Time({ root, now }) {
  const [query, ranges] = useRange(now);
  const { data, error } = useData(`${root}/time${query}`, now.revision);
  if (!data || !data.curves.t) return html`<section aria-label="Time">${ranges}<${Empty} error=${error} what="epochs" /></section>`;
  const c = data.curves, s = data.summary, lag = c.lag_ms.some((v) => v != null);
  return html`<section aria-label="Time">${ranges}
    <div class="tiles">
      <${Tile} id="epochs" name="epochs" value=${count(s.epochs)} /><${Tile} id="p50" name="median" value=${duration(s.p50)} /><${Tile} id="p95" name="95 %" value=${duration(s.p95)} />
      <${Tile} id="p99" name="99 %" value=${duration(s.p99)} /><${Tile} id="rows-in" name="rows in" value=${count(s.rows_in)} /><${Tile} id="rows-out" name="rows out" value=${count(s.rows_out)} />
      <${Tile} id="waits" name="rows that wait" value=${count(now.rows_wait)} /><${Tile} id="late" name="late rows" value=${count(s.late)} /><${Tile} id="aside" name="put aside" value=${count(now.totals.dead_letters + now.totals.malformed_lines)} /></div>
    <${Chart} title="Latency of an epoch" note="From its admission to its commit, over the last 30 epochs of each point." t=${c.t} steps=${MILLISECONDS} format=${duration} bands=${data.bands}
      series=${[{ label: '99 %', colour: '--c5', values: c.p99 }, { label: '95 %', colour: '--c2', values: c.p95 }, { label: 'median', colour: '--c1', values: c.p50, width: 2 }]} />
    <${Chart} title="Where the time goes" note="Waiting is for the epoch before; sink is from the last host's answer to the commit." t=${c.t} steps=${MILLISECONDS} format=${duration} bands=${data.bands} kind="stack" series=${stacked(c)} />
    <${Chart} title="Rows a second" t=${c.t} format=${rate} bands=${data.bands}
      series=${[{ label: 'in', colour: '--c1', values: c.rows_in, width: 2 }, { label: 'out', colour: '--c3', values: c.rows_out }]} />
    <div class="columns">
    ${c.rows_wait.some((v) => v != null) && html`<${Chart} title="Rows that wait" note="In the sources, behind the admitted epoch, as far as sources know." t=${c.t} steps=${WHOLE} format=${count} bands=${data.bands} height=${150} series=${[{ label: 'rows', colour: '--c2', values: c.rows_wait, fill: '22' }]} />`}
    <${Chart} title="Epochs that wait" note="Admitted and not committed." t=${c.t} steps=${WHOLE} format=${count} bands=${data.bands} height=${150} series=${[{ label: 'epochs', colour: '--c4', values: c.backlog, fill: '22' }]} />
    ${lag && html`<${Chart} title="Watermark lag" note="How far the watermark lies behind the time of the epoch." t=${c.t} steps=${MILLISECONDS} format=${duration} bands=${data.bands} height=${150} series=${[{ label: 'lag', colour: '--c5', values: c.lag_ms, fill: '22' }]} />`}
    <${Chart} title="Late rows" note="Dropped, or given to the operator as late." t=${c.t} steps=${WHOLE} format=${count} bands=${data.bands} height=${150} series=${[{ label: 'rows', colour: '--c6', values: c.late, fill: '22' }]} /></div>
  </section>`;
}

export const Tile = ({ id, name, value, tone = '' }) => html`<div class=${`tile ${tone}`}><span>${name}</span><b id=${id}>${value}</b></div>`;

function Spark({ points }) {
  if (points.length < 2) return null;
  const from = points[0][0], span = Math.max(1, points.at(-1)[0] - from), top = Math.max(0.05, ...points.map((p) => p[1]));
  const line = points.map(([t, v]) => `${(((t - from) / span) * 118 + 1).toFixed(1)},${(25 - (v / top) * 22).toFixed(1)}`).join(' ');
  return html`<svg class="spark" width="120" height="28" role="img" aria-label=${`CPU, at most ${percent(top)}`}><polyline points=${line} /></svg>`;
}

export function Hosts({ now }) {
  const operators = [...new Set(now.shards.map((s) => s.operator))];
  return html`<section aria-label="Hosts and keys">
    <div class="hosts">${now.hosts.map((h) => html`<article class="card host"><h3><i style=${`background:${hostColour(h.id)}`}></i>host ${h.id} ${!h.shards.length && !h.copies_of.length && html`<span class="badge">spare</span>`}${h.copies_of.map((id) => html`<span class="badge">copy of ${id}</span>`)}</h3>
      <p class="note">pid ${h.pid} · ${h.address}</p><div class="pair"><div><span>CPU</span><b>${percent(h.cpu)}</b></div><div><span>memory</span><b>${size(h.memory)}</b></div><${Spark} points=${h.cpu_curve} /></div>
      <p>${h.shards.map((name) => html`<span class="tag">${name}</span>`)}</p></article>`)}${!now.hosts.length && html`<${Empty} what="hosts" />`}</div>
    ${now.hot_keys.length > 0 && html`<div class="card"><h3>Hot keys</h3><p class="note">One key is never divided: add its rows up first (<code>combine=</code>), or make it several keys.</p>
      <ul class="reasons">${now.hot_keys.map((k) => html`<li><span class="dot hot"></span><b>${k.operator}</b> <span>key ${k.key} has ${percent(k.share)} of the rows</span></li>`)}</ul></div>`}
    <div class="columns">${operators.map((name) => { const mine = now.shards.filter((s) => s.operator === name); return html`<div class="card scroll"><h3>Shards of ${name}</h3>
      <table><thead><tr><th>shard</th><th>host</th><th class="n">busy</th><th>share of the rows</th><th class="n">snapshot</th></tr></thead><tbody>${mine.map((s) => html`<tr><td>${s.name.split('/').at(-1)}</td>
        <td class="on">${s.host == null ? html`<span class="bad">none</span>` : html`<i class="hostdot" style=${`background:${hostColour(s.host)}`}></i>${s.host}${s.copy != null ? html` <em>copy on ${s.copy}</em>` : ''}`}</td><td class="n">${percent(s.busy)}</td>
        <td class="share"><span class="meter"><i class=${s.skewed ? 'hot' : ''} style=${`width:${(s.share || 0) * 100}%`}></i></span> ${percent(s.share)}${s.skewed ? html` <em class="warn">skewed</em>` : ''}</td><td class="n">${size(s.bytes)}</td></tr>`)}</tbody></table></div>`; })}</div>
    ${now.gone.length > 0 && html`<div class="card scroll"><h3>Hosts that are gone</h3><table><thead><tr><th>host</th><th>when</th><th>why</th></tr></thead><tbody>${now.gone.map((h) => html`<tr><td>${h.id}</td><td>${day(h.lost_ms)}</td><td>${h.reason}</td></tr>`)}</tbody></table></div>`}
  </section>`;
}
