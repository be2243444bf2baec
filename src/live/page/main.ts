import { byId, put } from './dom.js';
import { type Choice, Lists } from './lists.js';
import { drawFacts, drawTabs } from './overview.js';
import { Panel } from './panel.js';
import { follow } from './server.js';
import { LiveState } from './state.js';

/* Follows the stream of updates, keeps what it says, and draws it. */

const state = new LiveState();
const choice: Choice = {
  filter: '',
  problemsOnly: false,
  sorting: { by: 'since', descending: true },
  shown: { sessions: 50, calls: 50, tools: 40, offers: 20 },
};
const lists = new Lists(state, choice, drawSoon);
let selected = 0;
let paused = false;
let waiting = false;

function drawSoon(): void {
  if (waiting || paused || document.hidden) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    const begin = performance.now();
    draw();
    // For bench/live.ts.
    document.body.dataset['drawMs'] = (performance.now() - begin).toFixed(2);
  });
}

function draw(): void {
  const { endpoints } = state;
  if (selected >= endpoints.length) selected = 0;
  const endpoint = endpoints[selected];
  if (!endpoint) return;
  drawFacts(endpoint.facts);
  drawTabs(endpoints, selected, (index) => {
    selected = index;
    drawSoon();
  });
  lists.draw(endpoint, selected);
  panel.draw();
}

function pause(on: boolean): void {
  paused = on;
  byId('pause').setAttribute('aria-pressed', String(on));
  put(byId('pause'), on ? 'Resume' : 'Pause');
  drawSoon();
}

const filter = byId<HTMLInputElement>('filter');
const problems = byId<HTMLInputElement>('problems');

function narrow(): void {
  choice.filter = filter.value.trim().toLowerCase();
  choice.problemsOnly = problems.checked;
  drawSoon();
}

function press(event: KeyboardEvent): void {
  if (event.target === filter) {
    if (event.key !== 'Escape') return;
    filter.value = '';
    filter.blur();
    return narrow();
  }
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  if (event.key === '/') {
    event.preventDefault();
    filter.focus();
  }
  if (event.key === 'p') pause(!paused);
}

const panel = new Panel(state, (index) => {
  selected = index;
});

function isTyping(target: EventTarget | null): boolean {
  return (target as Element).matches('input, textarea, select');
}

byId('pause').addEventListener('click', () => pause(!paused));
filter.addEventListener('input', narrow);
problems.addEventListener('change', narrow);
document.addEventListener('visibilitychange', drawSoon);
document.addEventListener('keydown', press);
// Ages grow without an update.
setInterval(drawSoon, 1_000);
void follow((update) => {
  state.apply(update, Date.now());
  drawSoon();
});
