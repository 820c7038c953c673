// What the page knows: an overview that the server tells as it changes, and data that a page asks for when it has changed.
import { useEffect, useRef, useState } from './vendor/preact-htm.js';

export async function get(path) {
  const answer = await fetch('api/' + path, { credentials: 'same-origin' });
  const data = await answer.json();
  if (!answer.ok) throw new Error(data.error || answer.statusText);
  return data;
}

export async function control(root, wanted) {
  const answer = await fetch(`api/${root}/control`, {
    method: 'POST', credentials: 'same-origin',
    headers: { 'Content-Type': 'application/json', 'X-Perseid': 'control' }, body: JSON.stringify(wanted),
  });
  const data = await answer.json();
  if (!answer.ok) throw new Error(data.error || answer.statusText);
  return data;
}

// The overview of a root, as it changes; `lost` while the server cannot be reached.
export function useNow(root) {
  const [state, set] = useState({ now: null, lost: false });
  useEffect(() => {
    set({ now: null, lost: false });
    const events = new EventSource(`api/${root}/events`);
    events.onmessage = (event) => set({ now: JSON.parse(event.data), lost: false });
    events.onerror = () => set((before) => ({ ...before, lost: true }));
    return () => events.close();
  }, [root]);
  return state;
}

// Data of one page: asked for again when the overview's revision changes, at most every two seconds.
export function useData(path, revision) {
  const [state, set] = useState({ path: null, data: null, error: '' });
  const asked = useRef({ at: 0, timer: 0 });
  useEffect(() => {
    if (path == null) return undefined;
    let gone = false;
    const ask = () => {
      asked.current.at = Date.now();
      get(path).then(
        (data) => gone || set({ path, data, error: '' }),
        (error) => gone || set({ path, data: null, error: error.message }),
      );
    };
    const wait = state.path === path ? Math.max(0, asked.current.at + 2000 - Date.now()) : 0;
    const timer = setTimeout(ask, wait);
    return () => { gone = true; clearTimeout(timer); };
  }, [path, revision]);
  return state.path === path ? state : { data: null, error: '' };
}
