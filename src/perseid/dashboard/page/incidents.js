// Every fault, recovery and scale as a story on a time line.
import { html, useState } from './vendor/preact-htm.js';
import { useData } from './data.js';
import { Empty, Tile } from './panels.js';
import { clock, day, duration, since } from './format.js';

const TONE = { fault: 'bad', failure: 'bad', takeover: 'bad', scale: 'two', standby: 'four', start: 'soft', checkpoint: 'warn', 'dead letters': 'warn' };

function Line({ all, from, to, chosen, go }) {
  const span = Math.max(1, to - from);
  return html`<div class="line" role="list" aria-label="Time line">${all.map((i) => {
    const left = ((i.began_ms - from) / span) * 100, width = Math.max(0.6, (((i.ended_ms || to) - i.began_ms) / span) * 100);
    return html`<button role="listitem" class=${`${TONE[i.kind]} ${i.id === chosen ? 'chosen' : ''}`} style=${`left:${Math.min(left, 99.2)}%;width:${width}%`} title=${`${clock(i.began_ms)} ${i.title}`} aria-label=${`${i.title} at ${clock(i.began_ms)}`} onClick=${() => go('incidents', i.id)}></button>`;
  })}<span class="from">${day(from)}</span><span class="to">${clock(to)}</span></div>`;
}

function Story({ one }) {
  const [copied, set] = useState(false);
  const total = Math.max(1, one.phases.reduce((sum, p) => sum + p.ms, 0));
  const copy = () => navigator.clipboard ? navigator.clipboard.writeText(location.href).then(() => set(true), () => set(false)) : set(false);
  return html`<article class="card story"><h3><span class=${`dot ${TONE[one.kind]}`}></span>${one.title} <button class="quiet" onClick=${copy}>${copied ? 'copied' : 'copy link'}</button></h3>
    <dl class="facts"><div><dt>began</dt><dd>${day(one.began_ms)}</dd></div><div><dt>lasted</dt><dd id="lasted">${one.ended_ms ? duration(one.ended_ms - one.began_ms) : 'it goes on'}</dd></div>
      ${one.recovery_ms != null && html`<div><dt>${one.kind === 'scale' ? 'scaled in' : one.kind === 'start' ? 'ready after' : 'recovered in'}</dt><dd id="recovered">${duration(one.recovery_ms)}</dd></div>`}
      ${one.outage_ms != null && html`<div><dt>longest time without a committed epoch</dt><dd id="outage">${duration(one.outage_ms)}</dd></div>`}</dl>
    ${one.phases.length > 0 && html`<div class="phases" role="img" aria-label=${one.phases.map((p) => `${p.name} ${duration(p.ms)}`).join(', ')}>${one.phases.map((p, i) => html`<i class=${`p${i % 7}`} style=${`flex:${Math.max(p.ms / total, 0.004)}`} title=${`${p.name}: ${duration(p.ms)}`}></i>`)}</div>
      <p class="key">${one.phases.map((p, i) => html`<span class=${`dot p${i % 7}`}></span>${p.name} ${duration(p.ms)} `)}</p>`}
    <ol class="events">${one.events.map((e) => html`<li class=${e.tone.replace('bold', '')}><time title=${day(e.at_ms)}>${since(e.at_ms - one.began_ms)}</time><span>${e.text}</span></li>`)}</ol>
    ${one.left_out > 0 && html`<p class="note">and ${one.left_out} more: perseid replay tells them</p>`}</article>`;
}

export function Incidents({ root, now, chosen, go }) {
  const { data, error } = useData(`${root}/incidents`, now.revision);
  const all = data ? data.incidents : [];
  const id = chosen || (all.find((i) => i.kind !== 'start') || all[0] || {}).id;
  const one = useData(id ? `${root}/incidents/${id}` : null, now.revision);
  if (!data || !all.length) return html`<section aria-label="Incidents"><${Empty} error=${error} what="incidents" /></section>`;
  const step = (by) => { const at = all.findIndex((i) => i.id === id), next = all[at + by]; if (next) go('incidents', next.id); };
  return html`<section aria-label="Incidents" onKeyDown=${(e) => (e.key === 'j' ? step(1) : e.key === 'k' ? step(-1) : null)}>
    <div class="tiles"><${Tile} id="outage-longest" name="longest outage" value=${duration(data.longest_outage_ms)} /><${Tile} id="faults" name="hosts lost" value=${now.totals.faults} />
      <${Tile} id="recoveries" name="recoveries" value=${now.totals.recoveries} /><${Tile} id="scales" name="scales" value=${now.totals.scales} />
      ${now.totals.switches + now.totals.promotions > 0 && html`<${Tile} id="copies-took-over" name="switches to a copy" value=${now.totals.switches} />`}</div>
    <div class="card"><${Line} all=${all} from=${data.began_ms} to=${data.at_ms} chosen=${id} go=${go} /></div>
    <div class="split"><ul class="card list">${all.map((i) => html`<li><button class=${i.id === id ? 'chosen' : ''} aria-current=${i.id === id} onClick=${() => go('incidents', i.id)}>
      <span class=${`dot ${TONE[i.kind]}`}></span><span>${i.title}</span><time>${clock(i.began_ms)}</time><em>${i.outage_ms != null ? duration(i.outage_ms) : ''}</em></button></li>`)}</ul>
    <div>${one.error ? html`<p class="banner warn">${one.error}</p>` : one.data && html`<${Story} one=${one.data} />`}</div></div>
  </section>`;
}
