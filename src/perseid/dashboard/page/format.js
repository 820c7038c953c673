// Numbers as people read them. The same words as the command line uses.

export function size(bytes) {
  if (bytes == null) return '–';
  for (const unit of ['B', 'KB', 'MB', 'GB']) {
    if (Math.abs(bytes) < 1024) return (unit === 'B' || bytes >= 100 ? bytes.toFixed(0) : bytes.toFixed(1)) + ' ' + unit;
    bytes /= 1024;
  }
  return bytes.toFixed(1) + ' TB';
}

export function duration(ms) {
  if (ms == null) return '–';
  if (ms < 1000) return (ms < 10 && ms % 1 ? ms.toFixed(1) : ms.toFixed(0)) + ' ms';
  if (ms < 60000) return (ms / 1000).toFixed(1) + ' s';
  const minutes = Math.floor(ms / 60000);
  if (minutes < 60) return minutes + ' min ' + Math.round((ms % 60000) / 1000) + ' s';
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? hours + ' h ' + (minutes % 60) + ' min' : Math.floor(hours / 24) + ' days';
}

export const count = (number) => (number == null ? '–' : Math.round(number).toLocaleString('en-US'));
export const rate = (number) => (number == null ? '' : (number < 10 && number % 1 ? number.toFixed(1) : count(number)) + '/s');
export const percent = (share) => (share == null ? '–' : (share * 100).toFixed(share < 0.1 ? 1 : 0) + ' %');

const two = (n) => String(n).padStart(2, '0');
export function clock(ms) {
  const d = new Date(ms);
  return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}
export function day(ms) {
  const d = new Date(ms);
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${clock(ms)}`;
}
export const since = (ms) => '+' + (ms / 1000).toFixed(2) + ' s';
