// Curves: uPlot with incidents shaded behind them and marks on them.
import { html, useEffect, useRef } from './vendor/preact-htm.js';
import { day } from './format.js';

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const COLOURS = ['--c1', '--c2', '--c3', '--c4', '--c5', '--c6'];
const SHADES = { fault: '--bad', failure: '--bad', takeover: '--bad', scale: '--c2', standby: '--c4' };

// Where an axis may have its numbers: of things that are counted, of bytes, of milliseconds.
export const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 1e4, 1e5, 1e6];
export const BYTES = Array.from({ length: 50 }, (_, n) => 2 ** n);
export const MILLISECONDS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 3e4, 6e4, 3e5, 6e5, 36e5, 72e5, 864e5, 864e6, 864e7, 864e8, 864e9];

function shade(bands) {
  return (u) => {
    const { ctx } = u;
    ctx.save();
    for (const band of bands()) {
      const from = u.valToPos(band.from, 'x', true), to = u.valToPos(band.to, 'x', true);
      const left = Math.max(from, u.bbox.left), right = Math.min(Math.max(to, from + 2), u.bbox.left + u.bbox.width);
      if (right <= left) continue;
      ctx.fillStyle = css(SHADES[band.kind] || '--muted');
      ctx.globalAlpha = 0.16;
      ctx.fillRect(left, u.bbox.top, right - left, u.bbox.height);
    }
    ctx.restore();
  };
}

function draw(marks, lines) {
  return (u) => {
    const { ctx } = u, ratio = devicePixelRatio || 1;
    ctx.save();
    for (const line of lines()) {
      const y = u.valToPos(line.at, 'y', true);
      if (y < u.bbox.top || y > u.bbox.top + u.bbox.height) continue;
      ctx.strokeStyle = ctx.fillStyle = css('--warn');
      ctx.lineWidth = ratio;
      ctx.setLineDash([6 * ratio, 4 * ratio]);
      ctx.beginPath(); ctx.moveTo(u.bbox.left, y); ctx.lineTo(u.bbox.left + u.bbox.width, y); ctx.stroke();
      ctx.setLineDash([]);
      ctx.textAlign = 'left';
      ctx.textBaseline = 'alphabetic';
      ctx.font = `${11 * ratio}px system-ui, sans-serif`;
      ctx.fillText(line.text, u.bbox.left + 6 * ratio, y - 5 * ratio);
    }
    const dense = marks().length * 7 * ratio > u.bbox.width; // too many lines hide the curve
    for (const mark of marks()) {
      const x = u.valToPos(mark.at, 'x', true);
      if (x < u.bbox.left || x > u.bbox.left + u.bbox.width) continue;
      ctx.strokeStyle = ctx.fillStyle = css(mark.colour);
      ctx.lineWidth = (mark.strong ? 2 : 1) * ratio;
      ctx.globalAlpha = mark.strong ? 1 : 0.45;
      ctx.beginPath(); ctx.moveTo(x, u.bbox.top + 8 * ratio); ctx.lineTo(x, u.bbox.top + (dense && !mark.strong ? 14 * ratio : u.bbox.height)); ctx.stroke();
      ctx.globalAlpha = 1;
      ctx.beginPath(); ctx.arc(x, u.bbox.top + 6 * ratio, (mark.strong ? 5 : dense ? 2 : 3.5) * ratio, 0, 7); ctx.fill();
    }
    ctx.restore();
  };
}

// series: {label, colour, values, value(v), fill, width}
export function Chart({ title, note, t, series, format, bands = [], marks = [], lines = [], height = 220, kind = '', steps = null }) {
  const place = useRef(null), plot = useRef(null), live = useRef({});
  live.current = { bands, marks, lines, series };
  const shape = JSON.stringify([series.map((s) => [s.label, s.colour, !!s.fill]), kind, document.documentElement.dataset.theme || '']);
  useEffect(() => {
    const axis = { stroke: css('--soft'), grid: { stroke: css('--line'), width: 1 }, ticks: { show: false }, font: '11px system-ui, sans-serif' };
    const options = {
      width: Math.max(240, place.current.clientWidth), height,
      cursor: { y: false, points: { size: 6 } },
      legend: { live: true },
      scales: { x: { time: true }, y: { range: (u, low, high) => [0, high > 0 ? high * 1.12 : 1] } },
      axes: [
        { ...axis, space: 70, size: 28, values: [[86400, '{YYYY}-{MM}-{DD}'], [3600, '{HH}:{mm}'], [60, '{HH}:{mm}'], [1, '{HH}:{mm}:{ss}'], [0.001, '{HH}:{mm}:{ss}']].map(([s, f]) => [s, f, null, null, null, null, null, null, 1]) },
        { ...axis, size: 64, space: height < 200 ? 22 : 30, ...(steps ? { incrs: steps } : {}), values: (u, ticks) => ticks.map(format) },
      ],
      series: [
        { label: '', value: (u, at) => (at == null ? 'now' : day(at * 1000)) },
        ...series.map((one, at) => ({
          label: one.label, stroke: css(one.colour), width: one.width || 1.5, spanGaps: true, points: { show: false },
          fill: one.fill ? css(one.colour) + (one.fill === true ? '' : one.fill) : undefined,
          value: (u, v, s, i) => { const own = live.current.series[at], all = own && (own.raw || own.values); return all ? format(all[i ?? all.length - 1]) : '–'; },
        })),
      ],
      hooks: { drawAxes: [shade(() => live.current.bands)], draw: [draw(() => live.current.marks, () => live.current.lines)] },
    };
    plot.current = new uPlot(options, [t, ...series.map((s) => s.values)], place.current);
    const watch = new ResizeObserver(() => plot.current.setSize({ width: Math.max(240, place.current.clientWidth), height }));
    watch.observe(place.current);
    return () => { watch.disconnect(); plot.current.destroy(); };
  }, [shape, height]);
  useEffect(() => { plot.current.setData([t, ...series.map((s) => s.values)]); });
  const last = series.map((s) => `${s.label} ${format((s.raw || s.values).at(-1))}`).join(', ');
  return html`<figure class="card chart"><figcaption><h3>${title}</h3>${note && html`<p class="note">${note}</p>`}</figcaption>
    <div ref=${place} role="img" aria-label=${`${title}: now ${last}`}></div></figure>`;
}
