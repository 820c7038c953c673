// Standby: every primary with its copy, how far behind it is, who answers, and what happened.
import { html } from './vendor/preact-htm.js';
import { hostColour } from './graph.js';
import { Tile } from './panels.js';
import { clock, count, duration, size } from './format.js';

const PHASES = {
  guarded: ['good', 'guarded'], switched: ['two', 'the copy answers'], deploying: ['warn', 'a copy is made'], unguarded: ['bad', 'no copy'],
};

function Side({ id, role, answers, children }) {
  return html`<div class=${`side ${answers ? 'answers' : ''} ${id == null ? 'none' : ''}`}><span>${role}</span>
    <b>${id == null ? 'none' : html`<i class="hostdot" style=${`background:${hostColour(id)}`}></i>host ${id}`}</b>
    <em>${id == null ? '' : answers ? 'answers' : children}</em></div>`;
}

// Epochs that the copy is behind, at each commit: a staircase, whose steps are whole epochs.
function Behind({ points }) {
  if (points.length < 2) return null;
  const from = points[0][0], span = Math.max(0.001, points.at(-1)[0] - from), top = Math.max(4, ...points.map((p) => p[1]));
  const x = (t) => (((t - from) / span) * 396 + 2).toFixed(1), y = (v) => (38 - (v / top) * 34).toFixed(1);
  const line = points.map(([t, v], n) => (n ? `H${x(t)}V${y(v)}` : `M${x(t)},${y(v)}`)).join('');
  return html`<svg class="behind" viewBox="0 0 400 40" preserveAspectRatio="none" role="img" aria-label=${`at most ${top} epochs behind`}><path d=${line + `V40H2Z`} class="area" /><path d=${line} class="step" /></svg>
    <p class="note axisnote"><span>${clock(points[0][0] * 1000)}</span><span>epochs behind, at most ${Math.max(...points.map((p) => p[1]))}</span><span>${clock(points.at(-1)[0] * 1000)}</span></p>`;
}

function Pair({ pair }) {
  const [tone, text] = PHASES[pair.phase] || ['', pair.phase];
  return html`<article class="card pairing"><h3><span class=${`badge ${tone}`}>${text}</span> <em>for ${duration(Math.max(0, pair.for_ms))}</em></h3>
    <div class="sides"><${Side} id=${pair.primary} role="primary" answers=${pair.answering === pair.primary}>silent<//>
      <span class="link" aria-hidden="true">${pair.copy == null ? '' : pair.phase === 'switched' ? '⇠' : '⇢'}</span>
      <${Side} id=${pair.copy} role="copy" answers=${pair.answering === pair.copy}>${pair.phase === 'deploying' ? 'is on its way' : 'stands ready'}<//></div>
    ${pair.reason && html`<p class=${pair.phase === 'unguarded' ? 'bad' : 'note'}>${pair.reason}</p>`}
    ${pair.same_fate && html`<p class="warn">Both are in one ${pair.same_fate}: one loss may take both.</p>`}
    ${pair.epoch != null && html`<dl class="facts"><div><dt>the copy is behind</dt><dd class="behind-by">${count(pair.behind)} ${pair.behind === 1 ? 'epoch' : 'epochs'}</dd></div><div><dt>refreshed</dt><dd>${duration(pair.age_ms)} ago</dd></div>
      <div><dt>newest refresh</dt><dd>${size(pair.bytes)}${pair.ms ? ` in ${duration(pair.ms)}` : ''}</dd></div><div><dt>refreshes</dt><dd>${count(pair.refreshes)}</dd></div><div><dt>switches</dt><dd>${count(pair.switches)}</dd></div></dl>`}
    <${Behind} points=${pair.curve} />
    <p>${pair.shards.map((name) => html`<span class="tag">${name}</span>`)}</p></article>`;
}

export const hasStandby = (now) => now.standby.pairs.length > 0 || now.standby.events.length > 0 || Object.keys(now.standby.modes).length > 0;

export function Standby({ now }) {
  const { modes, pairs, events } = now.standby, t = now.totals;
  if (!hasStandby(now)) return html`<section aria-label="Standby"><p class="empty">No operator has a standby.</p></section>`;
  return html`<section aria-label="Standby">
    <div class="tiles"><${Tile} id="guarded" name="guarded hosts" value=${`${pairs.filter((p) => p.phase === 'guarded' || p.phase === 'switched').length} of ${pairs.length}`} />
      <${Tile} id="switches" name="switches to a copy" value=${count(t.switches)} /><${Tile} id="roll-backs" name="given back" value=${count(t.roll_backs)} />
      <${Tile} id="promotions" name="replaced for good" value=${count(t.promotions)} /><${Tile} id="refreshed" name="sent in refreshes" value=${size(t.refresh_bytes)} /></div>
    ${Object.keys(modes).length > 0 && html`<p class="key modes">${Object.entries(modes).map(([name, mode]) => html`<span class="tag">${name}: <b>${mode}</b></span>`)}</p>`}
    <div class="pairs">${pairs.map((pair) => html`<${Pair} key=${pair.primary} pair=${{ ...pair, for_ms: now.at_ms - pair.since_ms }} />`)}</div>
    ${events.length > 0 && html`<div class="card"><h3>What happened</h3><ol class="events">${events.map((e) => html`<li class=${e.tone}><time>${clock(e.at_ms)}</time><span>${e.text}</span></li>`)}</ol>
      <p class="note">Switches, with their parts and the longest time without an epoch, are <a href="#/0/incidents" onClick=${(e) => { e.preventDefault(); location.hash = location.hash.replace(/standby.*/, 'incidents'); }}>incidents</a>, too.</p></div>`}
  </section>`;
}
