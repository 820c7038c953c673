// The graph of the application: operators coloured by how busy they are, rows a second on edges, shards on hosts.
import { html, useLayoutEffect, useMemo, useRef, useState } from './vendor/preact-htm.js';
import { count, percent, rate, size } from './format.js';

const WIDTH = 148, HEIGHTS = { operator: 104 }, SMALL = 52;
export const hostColour = (id) => `hsl(${(id * 137.5) % 360} 62% 58%)`;
export const level = (busy) => (busy == null ? 'idle' : busy > 0.8 ? 'hot' : busy > 0.5 ? 'warm' : 'calm');

function layout(nodes, edges, narrow) {
  const g = new dagre.graphlib.Graph({ compound: true });
  g.setGraph({ rankdir: narrow ? 'TB' : 'LR', nodesep: 26, ranksep: narrow ? 46 : 58, marginx: 10, marginy: 24 });
  g.setDefaultEdgeLabel(() => ({}));
  const units = [...new Set(nodes.map((n) => n.unit))];
  if (units.length > 1) units.forEach((unit) => g.setNode('unit ' + unit, {}));
  for (const node of nodes) {
    g.setNode(node.name, { width: WIDTH, height: HEIGHTS[node.kind] || SMALL });
    if (units.length > 1) g.setParent(node.name, 'unit ' + node.unit);
  }
  for (const edge of edges) g.setEdge(edge.from, edge.to, {});
  dagre.layout(g);
  const at = (name) => g.node(name);
  return {
    width: g.graph().width, height: g.graph().height,
    nodes: Object.fromEntries(nodes.map((n) => [n.name, at(n.name)])),
    units: units.length > 1 ? units.map((unit) => ({ name: unit, ...at('unit ' + unit) })) : [],
    ways: edges.map((e) => way(at(e.from), at(e.to), g.edge(e.from, e.to).points, narrow)),
  };
}

// Neighbours are joined by one curve that leaves and arrives straight; others go around what lies between, as dagre found.
function way(from, to, points, narrow) {
  const a = narrow ? { x: from.x, y: from.y + from.height / 2 } : { x: from.x + from.width / 2, y: from.y };
  const b = narrow ? { x: to.x, y: to.y - to.height / 2 } : { x: to.x - to.width / 2, y: to.y };
  const gap = narrow ? b.y - a.y : b.x - a.x, free = narrow ? 120 : WIDTH;
  if (gap <= 0 || gap > free) return { d: path(points), mid: points[Math.floor(points.length / 2)] };
  const bend = gap * 0.55;
  const d = narrow ? `M${a.x},${a.y} C${a.x},${a.y + bend} ${b.x},${b.y - bend} ${b.x},${b.y}` : `M${a.x},${a.y} C${a.x + bend},${a.y} ${b.x - bend},${b.y} ${b.x},${b.y}`;
  return { d, mid: { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 } };
}

function path(points) {
  let d = `M${points[0].x},${points[0].y}`;
  for (let i = 1; i < points.length - 1; i++) {
    const mid = { x: (points[i].x + points[i + 1].x) / 2, y: (points[i].y + points[i + 1].y) / 2 };
    d += ` Q${points[i].x},${points[i].y} ${mid.x},${mid.y}`;
  }
  const end = points.at(-1);
  return d + ` L${end.x},${end.y}`;
}

function Chips({ shards }) {
  if (shards.length > 14) {
    const hosts = new Set(shards.map((s) => s.host)).size;
    return html`<text x="12" y="90" class="small">${shards.length} shards on ${hosts} hosts</text>`;
  }
  const wide = Math.min(22, (WIDTH - 24) / Math.max(1, shards.length));
  return shards.map((s, i) => { const by = s.answering ?? s.host; return html`<g transform=${`translate(${12 + i * wide}, ${s.copy == null ? 78 : 75})`}>
    <title>shard ${where(s)}</title>
    <rect width=${wide - 4} height="15" rx="3" fill=${by == null ? 'none' : hostColour(by)} class=${by == null ? 'lost' : ''} />
    ${wide > 16 && html`<text x=${(wide - 4) / 2} y="11.5" class="chip">${by ?? '×'}</text>`}
    ${s.copy != null && html`<rect y="17" width=${wide - 4} height="4" rx="1.5" fill=${s.pair === 'deploying' ? 'none' : hostColour(s.pair === 'switched' ? s.host : s.copy)} stroke=${hostColour(s.pair === 'switched' ? s.host : s.copy)} class="copy" />`}</g>`; });
}
const where = (s) => s.name + (s.host == null ? ' is on no host' : ` on host ${s.host}`) + (s.copy == null ? '' : s.pair === 'switched' ? `; its copy on host ${s.copy} answers` : s.pair === 'deploying' ? `, a copy is made on host ${s.copy}` : `, its copy on host ${s.copy}`);

function Box({ node, at, chosen, choose }) {
  const w = at.width, h = at.height, operator = node.kind === 'operator';
  const about = operator
    ? `operator ${node.name}, ${percent(node.busy)} busy, state ${size(node.state)}, ${node.shards.length} shards`
    : `${node.kind} ${node.name}${node.pressed ? `, ${count(node.rows_wait)} rows wait` : ''}`;
  return html`<g transform=${`translate(${at.x - w / 2}, ${at.y - h / 2})`} class=${`node ${node.kind} ${operator ? level(node.busy) : node.pressed ? 'warm' : ''} ${chosen ? 'chosen' : ''}`}
      tabindex="0" role="button" aria-label=${about} aria-pressed=${chosen} onClick=${choose}
      onKeyDown=${(e) => (e.key === 'Enter' || e.key === ' ') && (e.preventDefault(), choose())}>
    <rect width=${w} height=${h} rx="8" class="box" />
    ${operator && html`<rect x="0" y=${h - 5} width=${Math.max(6, w * (node.busy || 0))} height="5" rx="2.5" class="busy" />`}
    <text x="12" y="21" class="name">${short(node.name, 17)}</text>
    ${operator ? html`
      <text x="12" y="39" class="small">${short(node.what, 20)}</text>
      <text x="12" y="64" class="small"><tspan class="strong">${percent(node.busy)}</tspan> busy</text>
      <text x=${w - 12} y="64" class="small end">${size(node.state)}</text>
      <${Chips} shards=${node.shards} />`
    : html`<text x="12" y="39" class="small">${node.kind}${node.rows_wait > 0 ? ` · ${count(node.rows_wait)} wait` : node.what ? ' · ' + node.what : ''}</text>`}
    ${node.guarantee && html`<text x=${w - 12} y="21" class="small end">${node.guarantee}</text>`}
  </g>`;
}
const short = (text, most) => (text.length > most ? text.slice(0, most - 1) + '…' : text);

export function Graph({ now }) {
  const [chosen, choose] = useState(null);
  const place = useRef(null);
  const [width, measure] = useState(900);
  useLayoutEffect(() => {
    const watch = new ResizeObserver(() => place.current && measure(place.current.clientWidth));
    watch.observe(place.current);
    return () => watch.disconnect();
  }, []);
  const { nodes, edges } = now.graph;
  const narrow = width < 640;
  const key = JSON.stringify([nodes.map((n) => [n.name, n.unit]), edges.map((e) => [e.from, e.to]), narrow]);
  const drawn = useMemo(() => layout(nodes, edges, narrow), [key]);
  const most = Math.max(1, ...edges.map((e) => e.rows_s || 0));
  const busiest = nodes.filter((n) => n.busy != null).sort((a, b) => b.busy - a.busy)[0];
  const pressed = nodes.some((n) => n.pressed);
  const node = nodes.find((n) => n.name === chosen) || busiest || nodes[0];
  const scale = Math.min(1.25, Math.max(narrow ? 0.6 : 0.5, (width - 4) / drawn.width));
  return html`<section aria-label="Graph">
    <div class="card graph" ref=${place}>
      <svg width=${drawn.width * scale} height=${drawn.height * scale} viewBox=${`0 0 ${drawn.width} ${drawn.height}`}>
        <defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" markerUnits="userSpaceOnUse" orient="auto"><path d="M0,0 8,4 0,8z" class="arrow" /></marker></defs>
        ${drawn.units.map((u) => html`<g><rect x=${u.x - u.width / 2} y=${u.y - u.height / 2} width=${u.width} height=${u.height} rx="12" class="unit" />
          <text x=${u.x - u.width / 2 + 12} y=${u.y - u.height / 2 + 17} class="small">unit ${u.name}</text></g>`)}
        ${edges.map((e, i) => { const { d, mid } = drawn.ways[i]; return html`<g class=${`edge ${e.preserved} ${e.pressed ? 'pressed' : ''}`}>
          <path d=${d} marker-end="url(#arrow)" style=${`stroke-width:${1.2 + 2.6 * Math.sqrt((e.rows_s || 0) / most)}`} />
          ${e.rows_s != null && html`<text x=${mid.x} y=${mid.y - 7} class="rate">${rate(e.rows_s)}</text>`}
          ${(e.pressed || e.preserved) && html`<text x=${mid.x} y=${mid.y + 16} class="kept">${e.pressed ? 'pressure' : e.preserved === 'durable' ? 'connector' : e.preserved}</text>`}</g>`; })}
        ${nodes.map((n) => html`<${Box} key=${n.name} node=${n} at=${drawn.nodes[n.name]} chosen=${node && n.name === node.name} choose=${() => choose(n.name)} />`)}
      </svg>
    </div>
    <p class="key"><span class="dot calm"></span>under 50 % busy <span class="dot warm"></span>50 to 80 % <span class="dot hot"></span>over 80 %
      <span class="gap"></span>numbers on edges are rows a second over 10 s; small squares are shards, numbered and coloured by host${now.standby.pairs.length ? '; bars below them are their copies' : ''}</p>
    ${node && html`<div class="card" aria-live="polite"><h3>${node.name}</h3><dl class="facts">
      <div><dt>kind</dt><dd>${node.kind}${node.what ? ` (${node.what})` : ''}</dd></div>
      <div><dt>unit</dt><dd>${node.unit || '–'}</dd></div>
      ${node.key.length > 0 && html`<div><dt>key</dt><dd>${node.key.join(', ')}</dd></div>`}
      ${node.kind === 'operator' && html`
        <div><dt>busy</dt><dd>${percent(node.busy)} of the time, its busiest shard</dd></div>
        <div><dt>state</dt><dd>${size(node.state)}</dd></div>
        <div><dt>shards</dt><dd>${node.shards.map((s) => html`<span class="tag"><i style=${`background:${hostColour(s.host ?? 0)}`}></i>${where({ ...s, name: s.name.split('/').at(-1) })}</span>`)}</dd></div>
        ${node.standby && html`<div><dt>standby</dt><dd>${node.standby}</dd></div>`}`}
      ${node.kind === 'source' && node.rows_wait != null && html`<div><dt>rows that wait</dt><dd id="source-waits">${count(node.rows_wait)}</dd></div>`}
      ${node.preserved && html`<div><dt>its stream</dt><dd>${node.preserved === 'durable' ? 'is a connector: kept on storage' : 'is ' + node.preserved + ' for the next unit'}</dd></div>`}
      ${node.guarantee && html`<div><dt>guarantee</dt><dd>${node.guarantee}</dd></div>`}
    </dl></div>`}
    ${(pressed || now.backlog > 2) && busiest && html`<p id="pressure" class="banner warn">${[now.backlog > 2 && `${count(now.backlog)} epochs are under way`, now.rows_wait > 0 && `${count(now.rows_wait)} rows wait in sources`].filter(Boolean).join(' and ')}; the busiest operator is <b>${busiest.name}</b> (${percent(busiest.busy)}).</p>`}
  </section>`;
}
