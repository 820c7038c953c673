// The page: which root, which panel, what everybody wants to see first. Its address says both, so a link can be kept.
import { html, render, useEffect, useState } from './vendor/preact-htm.js';
import { control, get, useNow } from './data.js';
import { Graph } from './graph.js';
import { Checkpoints, Hosts, State, Time } from './panels.js';
import { Incidents } from './incidents.js';
import { Standby, hasStandby } from './standby.js';
import { count, day, duration, rate, size } from './format.js';

const PANELS = [['graph', 'Graph'], ['state', 'State'], ['checkpoints', 'Checkpoints'], ['time', 'Time'], ['hosts', 'Hosts and keys'], ['incidents', 'Incidents'], ['standby', 'Standby']];

function useAddress() {
  const read = () => { const [root, panel, chosen] = location.hash.replace(/^#\/?/, '').split('/').map(decodeURIComponent); return { root: Number(root) || 0, panel: PANELS.some(([p]) => p === panel) ? panel : 'graph', chosen }; };
  const [address, set] = useState(read);
  useEffect(() => { const changed = () => set(read()); addEventListener('hashchange', changed); return () => removeEventListener('hashchange', changed); }, []);
  return address;
}

function useTheme() {
  const [theme, set] = useState(localStorage.getItem('perseid-theme') || '');
  const shown = theme || (matchMedia('(prefers-color-scheme: light)').matches ? 'light' : 'dark');
  document.documentElement.dataset.theme = shown;
  return [shown, () => { const other = shown === 'dark' ? 'light' : 'dark'; localStorage.setItem('perseid-theme', other); set(other); }];
}

function Head({ now, lost }) {
  const last = now.last_checkpoint, live = ['starting', 'running', 'recovering'].includes(now.phase);
  const facts = [
    ['epoch', 'epoch', count(now.epoch)], ['rate', 'rows in', rate(now.rows_in_s)], ['latency', 'latency, 99 %', duration(now.p99)], ['size', 'state', size(now.state)],
    ['checkpoint', 'last checkpoint', last ? `${last.id}, ${duration(now.at_ms - last.at_ms)} old` : 'none'], ['hosts-alive', 'hosts', count(now.hosts.length)],
  ];
  return html`<header class="head"><h1>${now.app || 'no application yet'} <span id="phase" class=${`badge phase ${now.phase.replace(' ', '-')}`}>${now.phase}</span>${live && !lost && html`<span class="live" title="changes show at once"></span>`}</h1>
    <dl>${facts.map(([id, name, value]) => html`<div><dt>${name}</dt><dd id=${id}>${value}</dd></div>`)}</dl></header>`;
}

// What the application answered, as a sentence.
function done({ checkpoint, scaled, standby, stopping }) {
  if (checkpoint) return `Checkpoint ${checkpoint.id} is taken (${size(checkpoint.bytes)}).`;
  if (scaled) return `${scaled.operator} has ${scaled.shards} shards instead of ${scaled.before}; its input paused for ${duration(scaled.pause_ms)}.`;
  if (standby) return standby.nothing || `${standby.operator} has the standby “${standby.mode}”.`;
  return stopping ? 'The application ends.' : 'Done.';
}

function Control({ root, now }) {
  const [asked, ask] = useState(null), [said, say] = useState(''), [busy, work] = useState(false);
  const operators = now.graph.nodes.filter((n) => n.kind === 'operator');
  const send = async () => { work(true); try { const answer = await control(root, { ...asked, confirmed: true }); say(done(answer)); } catch (error) { say(error.message); } work(false); ask(null); };
  const what = asked && { checkpoint: 'Take a checkpoint now?', scale: `Divide ${asked.operator} among ${asked.shards} shards?`, standby: `Give ${asked.operator} the standby “${asked.mode}”?${asked.mode === 'none' ? ' Its copies are dropped.' : ''}`, stop: 'Stop the application? It finishes what it has begun and takes a last checkpoint.' }[asked.action];
  return html`<div class="control"><button onClick=${() => ask({ action: 'checkpoint' })}>checkpoint now</button>
    <form onSubmit=${(e) => { e.preventDefault(); const f = new FormData(e.target); ask({ action: 'scale', operator: f.get('operator'), shards: Number(f.get('shards')) }); }}>
      <select name="operator" aria-label="Operator">${operators.map((o) => html`<option value=${o.name}>${o.name}</option>`)}</select><input name="shards" aria-label="Shards" type="number" min="1" max="256" value="2" /><button>scale</button></form>
    <form id="standby-form" onSubmit=${(e) => { e.preventDefault(); const f = new FormData(e.target); ask({ action: 'standby', operator: f.get('operator'), mode: f.get('mode') }); }}>
      <select name="operator" aria-label="Operator for standby">${operators.map((o) => html`<option value=${o.name}>${o.name}</option>`)}</select><select name="mode" aria-label="Standby">${['none', 'active', 'passive', 'hybrid'].map((m) => html`<option value=${m}>${m}</option>`)}</select><button>standby</button></form>
    <button class="danger" onClick=${() => ask({ action: 'stop' })}>stop</button>
    ${said && html`<output>${said}</output>`}
    ${asked && html`<div class="shade" onKeyDown=${(e) => e.key === 'Escape' && ask(null)}><div class="dialog" role="alertdialog" aria-modal="true" aria-label=${what}><p>${what}</p>
      <button id="confirm" disabled=${busy} ref=${(b) => b && !busy && b.focus()} onClick=${send}>${busy ? 'asked …' : 'yes, ' + asked.action}</button> <button disabled=${busy} onClick=${() => ask(null)}>no</button></div></div>`}</div>`;
}

function Page() {
  const [known, setKnown] = useState(null), [error, setError] = useState('');
  const address = useAddress(), [theme, turn] = useTheme();
  const { now, lost } = useNow(address.root);
  const [help, setHelp] = useState(false);
  useEffect(() => { get('roots').then(setKnown, (e) => setError(e.message)); }, [now && now.app]);
  const go = (panel, chosen) => { location.hash = `#/${address.root}/${panel}` + (chosen ? '/' + encodeURIComponent(chosen) : ''); };
  useEffect(() => {
    const pressed = (e) => {
      if (e.ctrlKey || e.metaKey || e.altKey || /INPUT|SELECT|TEXTAREA/.test(e.target.tagName)) return;
      const at = Number(e.key) - 1;
      if (PANELS[at]) go(PANELS[at][0]);
      else if (e.key === 't') turn();
      else if (e.key === '?') setHelp(!help);
      else if (e.key === 'Escape') setHelp(false);
    };
    addEventListener('keydown', pressed);
    return () => removeEventListener('keydown', pressed);
  });
  useEffect(() => { document.title = now && now.app ? `${now.app}: ${now.phase} – Perseid` : 'Perseid'; }, [now && now.app, now && now.phase]);
  useEffect(() => { const tab = document.querySelector('.tabs a[aria-selected=true]'); if (tab) tab.parentNode.scrollLeft = tab.offsetLeft - tab.parentNode.offsetLeft - 60; }, [address.panel, now == null]);
  const shown = { graph: Graph, state: State, checkpoints: Checkpoints, time: Time, hosts: Hosts, incidents: Incidents, standby: Standby }[address.panel];
  return html`<a class="skip" href="#main" onClick=${(e) => { e.preventDefault(); document.getElementById('main').focus(); }}>to the content</a>
    <nav><span class="brand"><img src="icon.svg" alt="" width="22" height="22" />Perseid</span>
      ${known && known.roots.length > 1 && html`<select aria-label="Root" onChange=${(e) => { location.hash = `#/${e.target.value}/${address.panel}`; }}>${known.roots.map((r) => html`<option value=${r.number} selected=${r.number === address.root}>${r.app || r.root}</option>`)}</select>`}
      <div class="tabs" role="tablist">${PANELS.filter(([id]) => id !== 'standby' || address.panel === id || (now && hasStandby(now))).map(([id, name], i) => html`<a role="tab" href=${`#/${address.root}/${id}`} aria-selected=${address.panel === id} title=${`key ${i + 1}`}>${name}</a>`)}</div>
      <button class="quiet" onClick=${turn} aria-label=${`Turn ${theme === 'dark' ? 'light' : 'dark'}`} title="key t">${theme === 'dark' ? '☀' : '☾'}</button><button class="quiet" onClick=${() => setHelp(!help)} aria-label="Keys" title="key ?">?</button></nav>
    ${help && html`<div class="card keys"><h3>Keys</h3><p><kbd>1</kbd> to <kbd>7</kbd> panels · <kbd>Tab</kbd> and <kbd>Enter</kbd> choose · <kbd>j</kbd> <kbd>k</kbd> next and previous incident · <kbd>t</kbd> light or dark · <kbd>Esc</kbd> closes</p></div>`}
    ${error && html`<p class="banner bad">${error}</p>`}
    ${lost && html`<p class="banner bad">The dashboard's server cannot be reached; this is what it said last.</p>`}
    ${now && now.trouble && html`<p class="banner bad">${now.trouble}</p>`}
    ${now && now.totals.strange > 0 && html`<p class="banner warn">${count(now.totals.strange)} records of the journal were written by another version of Perseid and are not shown.</p>`}
    ${now && now.torn > 0 && html`<p id="torn" class="banner warn">${count(now.torn)} ${now.torn === 1 ? 'line' : 'lines'} of the journal ${now.torn === 1 ? 'is' : 'are'} torn or damaged and cannot be read; what they told is missing here.</p>`}
    ${now && now.older && html`<p id="older" class="banner">This is the newest part of the journal; the older part is being read …</p>`}
    ${now && now.still_ms != null && now.phase === 'running' && html`<p id="still" class="banner warn">Epoch ${count(now.epoch + 1)} is under way; none was committed for ${duration(now.still_ms)}.</p>`}
    ${now && ['failed', 'crashed'].includes(now.phase) && html`<p class="banner bad">${now.phase === 'failed' ? 'The application failed: ' + now.stopped : 'The driver is gone without a word; started again on this root, the application goes on where it was.'}</p>`}
    ${now ? html`<${Head} now=${now} lost=${lost} />${known && known.control && html`<${Control} root=${address.root} now=${now} />`}
      <main id="main" tabindex="-1"><${shown} key=${address.panel} root=${address.root} now=${now} chosen=${address.chosen} go=${go} /></main>`
    : html`<p class="empty">reading the journal …</p>`}
    ${now && html`<footer>scheme ${now.scheme || 'unknown'}${now.period_ms ? `, every ${duration(now.period_ms)}` : ''} · generation ${now.generation} · journal since ${day(now.began_ms)}</footer>`}`;
}

render(html`<${Page} />`, document.getElementById('page'));
